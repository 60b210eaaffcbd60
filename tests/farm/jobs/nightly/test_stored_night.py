"""Nights out of the store: twins, units that are missing, baselines, what a row is shown beside."""

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from farm.decision.judgement import Verdict
from farm.jobs.nightly import stored_night
from farm.jobs.nightly.stored_night import MISSED_NIGHTS, last_good_name, load_night
from farm.nightly.night import Night
from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block, NightlyRow
from farm.rows.series import Metric
from farm.rows.status import Status
from farm.store import Store
from runtime.errors import ConfigError

NIGHTS = 12
LEFT, RIGHT = "left", "right"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "farm.db")) as opened:
        yield opened


class Lab:
    """Nights of two phones of one model, with a noise of one percent."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._random = np.random.default_rng(5)

    def night(self, units: Sequence[str] = (LEFT, RIGHT), **level: float) -> int:
        """A run; `level` is a unit's latency over that of the other nights."""
        run = self.store.begin("lab", "farm nightly lab.yml", "c0ffee")
        self.store.add(run, [self.row(unit, level.get(unit, 1.0)) for unit in units])
        self.store.end(run)
        return run

    def row(self, unit: str, level: float = 1.0, **members: object) -> NightlyRow:
        """A row with six blocks."""
        state = DeviceState(battery_percent=80, temperature_c=31.0)
        blocks = [
            Block(
                time=f"2026-01-01T00:0{number}:00+00:00",
                arm="ab"[number % 2],
                rerun=number >= 6,
                init_ms=100.0,
                first_ms=20.0,
                samples=tuple(10 * level * np.exp(self._random.normal(0, 0.01, 5))),
                state_before=state,
                state_after=state,
            )
            for number in range(12)
        ]
        known: dict[str, object] = {
            **{"unit": unit, "soc": "sdm845", "device_model": "MI 8", "library": "l", "model": "m", "runtime": "gpu"},
            **{"status": Status.OK, "identity": unit, "passive": True, "blocks": blocks, "cosine": 1.0},
        }
        return NightlyRow.model_validate(known | members)


def verdict_on(night: Night, unit: str, metric: Metric = Metric.LATENCY) -> Verdict:
    (found,) = [each for each in night.series if each.key.case.unit == unit and each.key.metric == metric]
    return found.judgement.verdict


@pytest.mark.slow
def test_a_change_that_the_twin_shows_too_is_confirmed_in_its_first_night(store: Store) -> None:
    lab = Lab(store)
    for _ in range(NIGHTS):
        quiet = lab.night()
    assert load_night(store, quiet).outcome == "nothing worse"
    night = load_night(store, lab.night(left=1.2, right=1.2))
    assert {verdict_on(night, LEFT), verdict_on(night, RIGHT)} == {Verdict.REGRESSION}
    assert night.outcome == "worse"


@pytest.mark.slow
def test_a_change_of_one_phone_alone_waits_for_a_second_night(store: Store) -> None:
    lab = Lab(store)
    for _ in range(NIGHTS):
        lab.night()
    first = load_night(store, lab.night(left=1.2))
    assert verdict_on(first, LEFT) == Verdict.PROVISIONAL_REGRESSION and first.outcome == "nothing worse"
    second = load_night(store, lab.night(left=1.2))
    assert verdict_on(second, LEFT) == Verdict.REGRESSION and verdict_on(second, RIGHT) == Verdict.UNCHANGED
    assert load_night(store, first.run.id).outcome == "nothing worse", "a night is judged by those before it"


@pytest.mark.slow
def test_a_unit_that_is_away_is_missing_for_some_nights(store: Store) -> None:
    lab = Lab(store)
    for _ in range(NIGHTS):
        lab.night()
    for _ in range(MISSED_NIGHTS):
        night = load_night(store, lab.night([LEFT]))
        assert verdict_on(night, RIGHT) == Verdict.MISSING and night.outcome == "worse"
    later = load_night(store, lab.night([LEFT]))
    assert {device.unit for device in later.devices} == {LEFT} and later.outcome == "nothing worse"


def test_a_failed_case_is_told_once(store: Store) -> None:
    lab = Lab(store)
    for _ in range(NIGHTS):
        lab.night()
    run = store.begin("lab", "farm nightly lab.yml")
    failed = lab.row(LEFT, status=Status.DEVICE_LOST, reason="gone", blocks=(), cosine=None)
    store.add(run, [failed, lab.row(RIGHT)])
    night = load_night(store, run)
    (device,) = [device for device in night.devices if device.unit == LEFT]
    (case,) = device.cases
    assert [each.judgement.verdict for each in case.series] == [Verdict.FAILED]
    assert "gone" in case.series[0].judgement.reason
    assert case.before is not None, "it is shown beside the last night that had figures"


def test_another_piece_of_hardware_begins_anew(store: Store) -> None:
    lab = Lab(store)
    for _ in range(NIGHTS):
        lab.night()
    run = store.begin("lab", "farm nightly lab.yml")
    store.add(run, [lab.row(LEFT, 1.5, identity="another"), lab.row(RIGHT)])
    night = load_night(store, run)
    assert verdict_on(night, LEFT) == Verdict.REPLACED and night.outcome == "nothing worse"


@pytest.mark.slow
def test_a_named_run_and_the_last_good_one_as_baselines(store: Store) -> None:
    lab = Lab(store)
    old = lab.night()
    for _ in range(NIGHTS):
        lab.night(left=1.1, right=1.1)
    tonight = lab.night(left=1.1, right=1.1)
    store.set_baseline("release", old)
    assert verdict_on(load_night(store, tonight), LEFT) == Verdict.UNCHANGED
    named = load_night(store, tonight, "release")
    assert verdict_on(named, LEFT) == Verdict.REGRESSION and named.baseline == f"release (run {old})"
    assert load_night(store, tonight, "last_good").baseline == "last_good", "there is none yet"
    store.set_baseline(last_good_name("lab"), old)
    assert verdict_on(load_night(store, tonight, "last_good"), LEFT) == Verdict.REGRESSION
    with pytest.raises(ConfigError, match="farm baseline set nothing"):
        load_night(store, tonight, "nothing")


def test_runs_that_measured_nothing_are_said_so(store: Store) -> None:
    run = store.begin("run", "farm run m.yml")
    with pytest.raises(ConfigError, match=f"run {run} .*no nightly cases"):
        load_night(store, run)
    with pytest.raises(ConfigError, match="99"):
        load_night(store, 99)


@pytest.mark.slow
def test_the_controls_tell_of_false_alarms(store: Store) -> None:
    lab = Lab(store)
    for _ in range(NIGHTS):
        run = lab.night()
    control = load_night(store, run).control
    assert control and control.comparisons > 0 and control.low <= control.expected_alarms_per_week <= control.high


@pytest.mark.slow
def test_several_processes_judge_a_night_as_one_does(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(store)
    run = [lab.night(left=1.0 + 0.1 * (number > NIGHTS)) for number in range(NIGHTS + 2)][-1]
    alone = load_night(store, run)
    monkeypatch.setattr(stored_night, "MANY_CASES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    shared = load_night(store, run)
    assert [each.judgement for each in shared.series] == [each.judgement for each in alone.series]
    assert [(each.key, list(each.points), each.last, each.recent) for each in shared.series] == [
        (each.key, list(each.points), each.last, each.recent) for each in alone.series
    ]
    assert shared.control == alone.control and {len(each.points) for each in shared.series} == {NIGHTS + 2}
