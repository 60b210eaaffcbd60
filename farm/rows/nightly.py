"""Rows of a nightly run: what one case gave, block by block."""

from __future__ import annotations

from pydantic import Field

from farm.rows.row import DeviceState, Figure, Record, RunRow


class Block(Record):
    """Some rounds in a row of a nightly run, with the state of the unit round them.

    `samples` are wall times in milliseconds; `arm` is `a` or `b`, the two labels of the A/A control; `rerun` says that
    it was measured to confirm what blocks before it showed; `throttled` what spoiled it (empty: nothing).
    """

    time: str
    arm: str
    rerun: bool = False
    init_ms: float
    first_ms: float
    samples: tuple[float, ...] = Field(min_length=1)
    throttled: str = ""
    state_before: DeviceState
    state_after: DeviceState


class OperatorTime(Record):
    """How long an operator takes on average."""

    name: str
    type: str
    avg_ms: float


class NightlyRow(RunRow):
    """One case of a nightly run: a model in one runtime and setting on one unit.

    `identity` tells one piece of hardware from another of the same model; `passive` that it has no fan (a battery).
    `tuned_ratio` is the latency with the stored tuned files over that without, measured in turns, with its 95 %
    confidence interval; `tuned_verdict` says in words whether these files are still good. `busy_s` is
    how long it all took.
    """

    job: str = "nightly"
    setting: str = "default"
    identity: str = ""
    passive: bool = False
    blocks: tuple[Block, ...] = ()
    ops: tuple[OperatorTime, ...] = ()
    file_bytes: dict[str, int] = Field(default_factory=dict)
    tuned_ratio: Figure = None
    tuned_ratio_ci: tuple[float, float] | None = None
    tuned_verdict: str = ""
    busy_s: float = 0.0
