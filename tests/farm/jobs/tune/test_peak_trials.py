"""A unit's peaks: measured once, remembered in the journal, and typical where the driver fails."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.config import inventory
from farm.config.execution import DEFAULT
from farm.farmrt.answers import TrialAnswer
from farm.jobs.choices.costs import known_costs, trials_fingerprint
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.tune import peak_trials
from farm.jobs.tune.peak_trials import PeakTrials
from farm.workspace import journal_file
from runtime.errors import DeviceError, ProcessEndedError
from runtime.peaks import NOT_MEASURED, PeakFigure, peaks_of
from runtime.selection.peak_probes import probes
from tuner.journal import Journal

pytestmark = [pytest.mark.slow, pytest.mark.opencl]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenUnit]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(peak_trials, "MOST_S", 20.0)  # a busy machine
    with open_unit(inventory.HOST) as unit:
        yield unit


class Remarks:
    """A view that keeps what is told."""

    def __init__(self, opened: OpenUnit, patch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        patch.setattr(opened.progress, "stage", self.said.append)


def measured(opened: OpenUnit, left_s: float = math.inf) -> PeakTrials:
    """The trials of a tuning that begins, after they were made."""
    target = opened.probe.target("host", memory="buffer")
    known = known_costs(target)
    with Journal(journal_file("host"), trials_fingerprint(target)) as journal:
        trials = PeakTrials(opened, target, DEFAULT, journal, lambda spent_s: left_s - spent_s, dict(known.best_ms))
        assert trials.measured() == known_costs(target).peaks, "what is measured is what the next call reads"
    return trials


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal_file("host").read_text().splitlines()[1:]]


def test_peaks_are_measured_once_and_remembered(opened: OpenUnit) -> None:
    target = opened.probe.target("host", memory="buffer")
    assert known_costs(target).peaks == NOT_MEASURED
    first, written = measured(opened), records()
    figures = known_costs(target).peaks.figures
    assert set(figures) >= {PeakFigure.MACS, PeakFigure.BUFFER_BYTES, PeakFigure.IMAGE_BYTES, PeakFigure.LAUNCH_MS}
    assert first.device_s > 0 and {record["status"] for record in written} == {"ok"}
    assert peaks_of(target, known_costs(target).peaks).macs == figures[PeakFigure.MACS]
    again = measured(opened)
    assert (again.device_s, records()) == (0.0, written)


def test_without_time_nothing_is_measured_and_the_next_call_goes_on(opened: OpenUnit) -> None:
    assert measured(opened, left_s=0.0).device_s == 0.0
    some = measured(opened, left_s=1e-9)
    assert some.device_s > 0.0
    target = opened.probe.target("host", memory="buffer")
    assert PeakFigure.IMAGE_BYTES not in known_costs(target).peaks.figures, "the first plan took the time"
    measured(opened)
    assert PeakFigure.IMAGE_BYTES in known_costs(target).peaks.figures


@pytest.mark.parametrize("error", [DeviceError("CL_BUILD_PROGRAM_FAILURE"), ProcessEndedError("signal 11")])
def test_a_driver_that_fails_on_images_leaves_their_typical_peak(
    opened: OpenUnit, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    load, remarks = OpenUnit.load, Remarks(opened, monkeypatch)

    def failing(self: OpenUnit, plan_file: Path, *arguments: Any, **words: Any) -> Any:
        if b"image_to_buffer" in plan_file.read_bytes():
            raise error
        return load(self, plan_file, *arguments, **words)

    monkeypatch.setattr(OpenUnit, "load", failing)
    measured(opened)
    target = opened.probe.target("host", memory="buffer")
    found = known_costs(target).peaks
    assert PeakFigure.MACS in found.figures and PeakFigure.IMAGE_BYTES not in found.figures
    assert peaks_of(target, found).image_bytes == peaks_of(target).image_bytes
    (said,) = (line for line in remarks.said if "peaks" in line)
    assert "image_bytes" in said and "typical" in said
    remarks.said.clear()
    assert measured(opened).device_s == 0.0, "it is not tried again"
    assert not [line for line in remarks.said if "peaks" in line]


def test_a_probe_that_computes_nonsense_shows_no_peak(opened: OpenUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = opened.session.trial

    def wrong(*arguments: Any, **words: Any) -> TrialAnswer:
        return trial(*arguments, **words).model_copy(update={"max_abs_error": 1.0})

    monkeypatch.setattr(opened.session, "trial", wrong)
    measured(opened)
    target = opened.probe.target("host", memory="buffer")
    assert known_costs(target).peaks == NOT_MEASURED and {record["status"] for record in records()} == {"wrong"}


def test_a_damaged_record_is_measured_again_and_nothing_else(opened: OpenUnit) -> None:
    measured(opened)
    target = opened.probe.target("host", memory="buffer")
    (launch,) = (probe for probe in probes(target) if probe.figure == PeakFigure.LAUNCH_MS)
    path = journal_file("host")
    lines = path.read_text().splitlines()
    damaged = [line[: len(line) // 2] if json.dumps(launch.key) in line else line for line in lines]
    path.write_text("\n".join(damaged) + "\n")
    assert PeakFigure.LAUNCH_MS not in known_costs(target).peaks.figures
    measured(opened)
    again = path.read_text().splitlines()[len(lines) :]
    assert {json.loads(line)["key"] for line in again} == {launch.key}


def test_a_journal_of_another_version_has_no_peaks_and_is_named(opened: OpenUnit) -> None:
    measured(opened)
    target, path = opened.probe.target("host", memory="buffer"), journal_file("host")
    path.write_text(path.read_text().replace('"version": 1', '"version": 9', 1))
    known = known_costs(target)
    assert known.peaks == NOT_MEASURED and any(str(path) in refused for refused in known.refused)


def test_peaks_are_those_of_the_very_device_and_runtime(opened: OpenUnit) -> None:
    measured(opened)
    path = journal_file("host")
    digest = records()[0]["fingerprint"]
    path.write_text(path.read_text().replace(digest, "another driver"))
    assert known_costs(opened.probe.target("host", memory="buffer")).peaks == NOT_MEASURED
