"""What came of a night, ready to be reported: values only, made by farm.jobs.nightly and from the store."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from farm.decision.control_report import ControlReport
from farm.decision.judgement import Judgement, Verdict
from farm.rows.device_state import DeviceState
from farm.rows.nightly import NightlyRow
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Point, SeriesKey


class Outcome(enum.StrEnum):
    """The night in a word."""

    GOOD = "nothing worse"
    WORSE = "worse"


@dataclasses.dataclass(frozen=True)
class SeriesReport:
    """A series with its history (oldest first, tonight's point last where there is one) and tonight's judgement."""

    key: SeriesKey
    points: Sequence[Point]
    judgement: Judgement


@dataclasses.dataclass(frozen=True)
class CaseReport:
    """A case: tonight's row, the row that it is compared with, and its series. `row` is None when it is missing."""

    case: Case
    row: NightlyRow | None
    before: NightlyRow | None
    series: Sequence[SeriesReport]


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
    """All of a night."""

    run: RunInfo
    baseline: str
    devices: Sequence[DeviceReport]
    control: ControlReport | None = None

    @property
    def series(self) -> list[SeriesReport]:
        """Of all devices."""
        return [each for device in self.devices for case in device.cases for each in case.series]

    @property
    def outcome(self) -> Outcome:
        """Whether anything is worse."""
        bad = any(each.judgement.verdict.is_bad for each in self.series)
        return Outcome.WORSE if bad else Outcome.GOOD

    def having(self, *verdicts: Verdict) -> list[SeriesReport]:
        """The series with one of these verdicts."""
        return [each for each in self.series if each.judgement.verdict in verdicts]
