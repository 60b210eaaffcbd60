"""Asks again and again, in a thread, what other hosts have written; reads of it what somebody wants."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from farm.cluster.result_tasks import HostResults, ResultKind
from farm.serve.source import ResultSource
from farm.serve.watcher import Watcher
from runtime.errors import FarmError, NoUnitError

EVERY_S = 30.0


@dataclasses.dataclass(frozen=True)
class OtherResults:
    """What other hosts had written at the last look, and why some of it is not known."""

    hosts: Mapping[str, HostResults] = dataclasses.field(default_factory=dict)
    error: str = ""

    @property
    def notes(self) -> list[str]:
        """What is left out, and why, a line each."""
        silent = [f"left out: {host}, which {each.error}" for host, each in self.hosts.items() if each.error]
        return [*([self.error] if self.error else []), *silent]


class ResultsWatcher(Watcher):
    """Looks every half minute, where there are sources."""

    def __init__(self, sources: Sequence[ResultSource] = (), every_s: float = EVERY_S) -> None:
        super().__init__("results", every_s)
        self.snapshot = OtherResults()
        self._sources = sources
        self._source_of: dict[str, ResultSource] = {}

    @property
    def has_others(self) -> bool:
        """Whether there are other hosts at all."""
        return bool(self._sources)

    def start(self) -> None:
        """Begins to look."""
        if self._sources:
            super().start()

    def look(self) -> OtherResults:
        """Looks once; a source that fails is named, and what it told is left out."""
        found, errors = dict[str, HostResults](), list[str]()
        for source in self._sources:
            try:
                told = source.results()
            except (FarmError, OSError) as error:
                errors.append(str(error))
                continue
            found = {**told, **found}
            self._source_of |= dict.fromkeys(told.keys() - self._source_of.keys(), source)
        self.snapshot = OtherResults(dict(sorted(found.items())), "; ".join(errors))
        return self.snapshot

    def content(self, host: str, kind: ResultKind, path: str) -> Iterator[bytes] | None:
        """The content of a host's file, piece by piece; None where it has no such file.

        Raises NoUnitError for an unknown host, another FarmError where it does not answer.
        """
        if host not in self._source_of:
            raise NoUnitError(f"no host of this name is known: {host[:100]}")
        return self._source_of[host].content(host, kind, path)
