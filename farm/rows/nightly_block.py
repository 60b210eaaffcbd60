"""A block of a nightly run: some rounds in a row of one case."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from pydantic import Field, model_validator

from farm.rows.device_state import DeviceState
from farm.rows.record import Figure, Record


class Block(Record):
    """Some rounds in a row of a nightly run, with the state of the unit round them.

    `samples` are wall times in milliseconds; `arm` is `a` or `b`, the two labels of the A/A control; `rerun` says that
    it was measured to confirm what blocks before it showed; `throttled` what spoiled it (empty: nothing).
    `init_ms` and `first_ms` are null where an engine does not tell them. A user's program may tell `figures` of its
    own, by name, beside the times of rounds or in their place; else there is one sample at least.
    `waited_share` is the share of the rounds' time that farmrt's threads waited for a core because of other work, 0 to
    1; null: the unit does not tell.
    """

    time: str
    arm: str
    rerun: bool = False
    init_ms: Figure = None
    first_ms: Figure = None
    samples: tuple[float, ...]
    figures: dict[str, float] = Field(default_factory=dict)
    throttled: str = ""
    waited_share: Figure = None
    state_before: DeviceState
    state_after: DeviceState

    @model_validator(mode="after")
    def _tells_something(self) -> Block:
        if not self.samples and not self.figures:
            raise ValueError("a block has samples, or figures")
        return self


def block_medians(blocks: Iterable[Block]) -> list[float]:
    """The median of each block that nothing slowed down, in ms."""
    return [statistics.median(block.samples) for block in blocks if block.samples and not block.throttled]
