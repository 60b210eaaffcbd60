"""The result of a night as plain values for the reports; farm.jobs.nightly makes it from the store."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
from collections.abc import Mapping, Sequence

from farm.decision.controls import ControlReport
from farm.decision.judgement import Judgement, Verdict
from farm.decision.operator_changes import OperatorChange
from farm.rows.device_state import DeviceState
from farm.rows.duet import DuetFigures
from farm.rows.nightly import NightlyRow
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Point, SeriesKey

RECENT_NIGHTS = 40


class NightOutcome(enum.StrEnum):
    """The result of a night in one word."""

    GOOD = "nothing worse"
    WORSE = "worse"


@dataclasses.dataclass(frozen=True)
class SeriesReport:
    """A series with its history (oldest first, tonight's point last where there is one) and tonight's judgement."""

    key: SeriesKey
    points: Sequence[Point]
    judgement: Judgement

    @functools.cached_property
    def last(self) -> Point | None:
        """Its newest point."""
        return self.points[-1] if self.points else None

    @functools.cached_property
    def recent(self) -> tuple[float | None, ...]:
        """The figures of its last nights, which are kept beside the points where these are packed."""
        return tuple(point.value for point in self.points[-RECENT_NIGHTS:])

    def holding(self, points: Sequence[Point]) -> SeriesReport:
        """The same with its points elsewhere: between processes without them, then again with them."""
        _ = self.last, self.recent  # which it keeps
        held = copy.copy(self)
        held.__dict__["points"] = points
        return held


@dataclasses.dataclass(frozen=True)
class CaseReport:
    """A case: tonight's row, the row that it is compared with, and its series. `row` is None when it is missing.

    `operator_changes`: where its latency has changed, the operators that the change comes from.
    """

    case: Case
    row: NightlyRow | None
    before: NightlyRow | None
    series: Sequence[SeriesReport]
    operator_changes: Sequence[OperatorChange] = ()


@dataclasses.dataclass(frozen=True)
class DeviceReport:
    """A unit and its cases.

    `state_trace` is the unit's state over the run: (ISO time, state), oldest first.
    """

    unit: str
    soc: str
    device_model: str
    fingerprint: Mapping[str, str]
    cases: Sequence[CaseReport]
    state_trace: Sequence[tuple[str, DeviceState]] = ()


@dataclasses.dataclass(frozen=True)
class Night:
    """The result of a whole night. `earlier`: the runs of the nights before it, newest first."""

    run: RunInfo
    baseline: str
    devices: Sequence[DeviceReport]
    control: ControlReport | None = None
    earlier: Sequence[RunInfo] = ()

    @property
    def series(self) -> list[SeriesReport]:
        """The series of all devices."""
        return [series for device in self.devices for case in device.cases for series in case.series]

    @property
    def rows(self) -> list[NightlyRow]:
        """Tonight's row of each case that was measured."""
        return [case.row for device in self.devices for case in device.cases if case.row]

    @property
    def duets(self) -> list[DuetFigures]:
        """The duets that were made tonight."""
        return [row.duet for row in self.rows if row.duet and row.duet.verdict]

    @property
    def duet_s(self) -> float:
        """What they took, in seconds."""
        return sum(row.duet.seconds for row in self.rows if row.duet)

    @property
    def duet_share(self) -> float | None:
        """What they took over what all blocks took; None where nothing was measured."""
        busy_s = sum(row.busy_s for row in self.rows)
        return round(self.duet_s / busy_s, 4) if busy_s else None

    @property
    def outcome(self) -> NightOutcome:
        """Worse if any series has a bad verdict."""
        bad = any(series.judgement.verdict.is_bad for series in self.series)
        return NightOutcome.WORSE if bad else NightOutcome.GOOD

    def having(self, *verdicts: Verdict) -> list[SeriesReport]:
        """The series with one of these verdicts."""
        return [series for series in self.series if series.judgement.verdict in verdicts]
