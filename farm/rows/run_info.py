"""A run: one command with all its rows, as the store knows it."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """A run, as the store keeps it: `id` counts the store's runs; times are ISO 8601 in UTC.

    `ended` is empty while it runs; `commit` is what was tested; `state` is `running`, `finished` or `interrupted`;
    `host` is where it was called.
    """

    id: int
    name: str
    command: str
    started: str
    ended: str = ""
    state: str = "finished"
    commit: str = ""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    host: str = ""
