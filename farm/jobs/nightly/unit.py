"""One unit's night: all its cases in blocks, then more blocks of what looks changed, then a row of each case."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from farm.condition.device_state import read_state
from farm.config.inventory import Unit
from farm.decision.regression import judge_series
from farm.jobs.fleet.job_rows import Members, failed_members, is_beyond_row, members_of_row
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Failed
from farm.jobs.nightly.case import Subject, examine, measure_block
from farm.jobs.run import asked_of
from farm.nightly.block_order import ARMS, PlannedBlock, block_order
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.nightly import Block, NightlyRow
from farm.rows.row import DeviceState, Latency, Status
from farm.rows.series import Case, Point, SeriesKey, points_of
from farm.units.identity import read_identity
from runtime.errors import DeadlineError, FarmError

SECONDS_PER_MINUTE = 60.0


class Notebook(Protocol):
    """Where blocks are kept as soon as they are measured, so that a run that is killed can go on."""

    def note(self, case: Case, block: Block) -> None:
        """Keeps a block."""

    def blocks(self, case: Case) -> Sequence[Block]:
        """The blocks of a case that are kept already, oldest first."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What all units have in common.

    Attributes:
        run: the run's number in the store.
        seed: of the order of all blocks.
        history: earlier nights.
        notebook: blocks of this run.
        done: cases that have their row already.
    """

    nightly: NightlyConfiguration
    run: int
    seed: int
    history: Mapping[SeriesKey, Sequence[Point]]
    notebook: Notebook
    done: Collection[Case] = ()


class UnitNight:
    """What is known so far of one unit's cases; it outlives the connection to the unit."""

    def __init__(self, unit: Unit, subjects: Sequence[Subject], asked: Asked) -> None:
        self.unit, self._asked = unit, asked
        self._subjects = {subject.case: subject for subject in subjects}
        self._blocks = {case: list(asked.notebook.blocks(case)) for case in self._subjects}
        self._examined: dict[Case, Members] = {}
        self._failed: dict[Case, FarmError] = {
            subject.case: subject.found.error for subject in subjects if isinstance(subject.found, Failed)
        }
        self._about: Members = {}
        self._busy_s = dict.fromkeys(self._subjects, 0.0)
        self._ends_s = time.monotonic() + asked.nightly.budget_minutes * SECONDS_PER_MINUTE

    def run(self, opened: OpenUnit) -> Iterator[list[NightlyRow]]:
        """Measures what is missing; then the rows of all cases. Raises what tells that the unit is gone."""
        state = opened.watch.state(read_state(opened.transport))
        self._about = {
            "identity": read_identity(opened.transport),
            "passive": state.battery_percent is not None,
            "conditions": opened.way.conditions,
        }
        self._measure(opened, self._left())
        while wanted := self._suspected():
            self._measure(opened, self._reruns(wanted))
        yield self.rows(read_state(opened.transport))

    def rows(self, state_after: DeviceState | None = None) -> list[NightlyRow]:
        """A row of each case, whatever became of it."""
        return [self._row(case, state_after) for case in self._subjects]

    def failed(self, unit: Unit, error: FarmError) -> list[NightlyRow]:
        """The rows when the unit is gone for good, with the blocks that it gave before."""
        for case in self._subjects:
            self._failed.setdefault(case, error)
        return self.rows()

    def _left(self) -> Iterator[PlannedBlock]:
        """The turns that were not measured yet, in the order of the whole."""
        done = {case: sum(not block.rerun for block in blocks) for case, blocks in self._blocks.items()}
        planned = block_order(list(self._subjects), self._asked.nightly.repeats, self._asked.seed)
        return (turn for turn in planned if turn.repeat >= done[turn.case])

    def _suspected(self) -> dict[Case, int]:
        """How many blocks more each case needs until it is settled, within what it may cost."""
        if time.monotonic() >= self._ends_s:
            return {}
        most = self._asked.nightly.most_reruns
        left = {case: most - sum(block.rerun for block in self._blocks[case]) for case in self._subjects}
        wanted = {case: min(left[case], self._more(case)) for case in self._subjects if case not in self._failed}
        return {case: count for case, count in wanted.items() if count > 0}

    def _more(self, case: Case) -> int:
        points = points_of(self._row(case), self._asked.run)
        history = self._asked.history
        return max(
            (judge_series(history.get(key, ()), point, key.metric).more for key, point in points.items()),
            default=0,
        )

    def _reruns(self, wanted: Mapping[Case, int]) -> Iterator[PlannedBlock]:
        """Further turns, the cases one after another, their labels in turns too."""
        for number in range(max(wanted.values())):
            for case in (case for case, count in wanted.items() if count > number):
                yield PlannedBlock(case, len(self._blocks[case]), ARMS[len(self._blocks[case]) % 2])

    def _measure(self, opened: OpenUnit, planned: Iterable[PlannedBlock]) -> None:
        for turn in planned:
            if turn.case in self._failed:
                continue
            begun_s = time.monotonic()
            if begun_s >= self._ends_s:
                self._end_of_budget()
                return
            try:
                self._measure_turn(opened, turn)
            except FarmError as error:
                if is_beyond_row(error, opened):
                    raise
                self._failed[turn.case] = error
            self._busy_s[turn.case] += time.monotonic() - begun_s

    def _measure_turn(self, opened: OpenUnit, turn: PlannedBlock) -> None:
        subject, nightly = self._subjects[turn.case], self._asked.nightly
        rerun = turn.repeat >= nightly.repeats
        what = "again, to be sure" if rerun else f"{turn.repeat + 1} of {nightly.repeats}"
        opened.watch.stage(f"{turn.case.model} ({turn.case.runtime}, {turn.case.setting}) {what}")
        if not opened.session.alive:
            opened.session.respawn()
        if turn.case not in self._examined:
            self._examined[turn.case] = examine(opened, subject, nightly)
        if "benchmark" in nightly.jobs:
            block = measure_block(opened, subject, nightly, turn.arm, rerun)
            self._blocks[turn.case].append(block)
            self._asked.notebook.note(turn.case, block)

    def _end_of_budget(self) -> None:
        minutes = self._asked.nightly.budget_minutes
        for case, blocks in self._blocks.items():
            if not blocks and case not in self._examined:
                self._failed[case] = DeadlineError(f"not begun: the {minutes:g} minutes of budget_minutes were over")

    def _row(self, case: Case, state_after: DeviceState | None = None) -> NightlyRow:
        subject = self._subjects[case]
        members = self._examined.get(case, {}) | self._block_members(case) | {"setting": case.setting}
        members |= {name: self._about[name] for name in ("identity", "passive") if name in self._about}
        if case in self._failed:
            members |= failed_members(self._failed[case])
        settings = {**self._about.get("conditions", {}), **members.get("settings", {})}
        members |= {"state_after": state_after, "settings": settings, "busy_s": round(self._busy_s[case], 3)}
        return NightlyRow.model_validate(
            members_of_row(self.unit, subject.found, subject.runtime, self._asked_settings(), members)
        )

    def _block_members(self, case: Case) -> Members:
        blocks = self._blocks[case]
        samples = list(itertools.chain.from_iterable(block.samples for block in blocks if not block.throttled))
        members: dict[str, Any] = {"blocks": tuple(blocks)}
        if samples:
            members["latency_ms"] = Latency.of(samples)
        if blocks:
            members |= {"init_ms": blocks[0].init_ms, "first_ms": blocks[0].first_ms}
        return members

    def _asked_settings(self) -> Any:
        nightly = self._asked.nightly
        return lambda settings, runtime: asked_of(settings, runtime, nightly.rounds, nightly.warmup)


def is_good(rows: Sequence[NightlyRow]) -> bool:
    """Whether all went well."""
    return all(row.status == Status.OK for row in rows)
