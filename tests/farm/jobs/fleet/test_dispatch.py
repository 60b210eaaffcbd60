"""Jobs on many units at once: who does what, units that are lost and return, and those that never come."""

import contextlib
import errno
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from farm.config.inventory import Unit
from farm.jobs.fleet import dispatch
from farm.jobs.fleet.dispatch import FleetOptions, Job, run_jobs
from farm.units import health
from runtime.errors import BuildError, ConfigError, DeviceError, DeviceLostError, FarmError, ProcessKilledError

Act = Callable[[Any, str], None]


def unit(name: str, soc: str = "sdm845") -> Unit:
    return Unit(name=name, transport="local", soc=soc, model=name, abis=("host",))


class Units:
    """Units that can be opened, until a test says otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()
        self.away: dict[str, list[Exception]] = {}
        self.failures: Counter[str] = Counter()
        monkeypatch.setattr(dispatch, "open_unit", self._open)
        monkeypatch.setattr(dispatch.LOCAL, "note_failure", lambda unit, _: self.failures.update([unit.name]))
        monkeypatch.setattr(dispatch, "POLL_S", 0.01)

    @contextlib.contextmanager
    def _open(self, unit: Unit, *_: Any) -> Iterator[Any]:
        self.opened[unit.name] += 1
        if self.away.get(unit.name):
            raise self.away[unit.name].pop(0)
        self.at_once[unit.name] += 1
        assert self.at_once[unit.name] == 1, "a unit is opened once at a time"
        try:
            yield SimpleNamespace(unit=unit, answers=lambda: True, note_job=lambda *_: None)
        finally:
            self.at_once[unit.name] -= 1


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> Units:
    return Units(monkeypatch)


def done(act: Act, jobs: dict[str, Sequence[str]], **options: Any) -> list[tuple[str, str, str]]:
    """(job, unit, outcome) of jobs, each with the names of units that may do it."""

    def job(name: str, names: Sequence[str]) -> Job[tuple[str, str, str], Any]:
        def run(opened: Any) -> Iterator[tuple[str, str, str]]:
            act(opened, name)
            yield name, opened.unit.name, "ok"

        def failed(unit: Unit, error: FarmError) -> tuple[str, str, str]:
            return name, unit.name, str(error)

        return Job([unit(each) for each in names], run, lambda outcome: outcome[2] == "ok", failed)

    return list(run_jobs([job(name, names) for name, names in jobs.items()], FleetOptions(**options)))


def nothing(opened: Any, name: str) -> None:
    """A job that takes no time."""


def test_each_unit_does_its_own_jobs_in_order_and_is_opened_once(units: Units) -> None:
    outcomes = done(nothing, {"1": ["a"], "2": ["a"], "3": ["b"]})
    assert [job for job, unit, _ in outcomes if unit == "a"] == ["1", "2"]
    assert units.opened == {"a": 1, "b": 1}


def test_units_work_at_the_same_time(units: Units) -> None:
    together = threading.Barrier(3, timeout=60)
    outcomes = done(lambda opened, name: void(together.wait()), {"1": ["a"], "2": ["b"], "3": ["c"]})
    assert len(outcomes) == 3


def void(value: object) -> None:
    """Ignores a value."""


def test_free_units_take_shared_jobs(units: Units) -> None:
    jobs = {str(number): ["a", "b"] for number in range(8)}
    together = threading.Barrier(2, timeout=60)

    def act(opened: Any, name: str) -> None:
        together.wait()

    assert {unit for _, unit, _ in done(act, jobs)} == {"a", "b"}


def test_a_job_whose_unit_is_lost_is_done_when_the_unit_returns(units: Units) -> None:
    units.away["a"] = []
    calls: Counter[str] = Counter()

    def act(opened: Any, name: str) -> None:
        calls[name] += 1
        if calls[name] == 1 and name == "1":
            units.away["a"] = [DeviceLostError("no such device")] * 3
            raise DeviceLostError("the cable was pulled")

    assert done(act, {"1": ["a"], "2": ["a"]}, return_s=30) == [("1", "a", "ok"), ("2", "a", "ok")]
    assert calls == {"1": 2, "2": 1}
    assert units.opened["a"] == 5
    assert units.failures["a"] == 1, "a pulled cable is no reason for quarantine"


def test_a_unit_that_refuses_when_it_returns_is_asked_less_and_less_often(units: Units) -> None:
    def act(opened: Any, name: str) -> None:
        units.away["a"] = [DeviceError("login refused")] * 100
        raise DeviceLostError("it restarts")

    assert done(act, {"1": ["a"]}, return_s=0.5) == [("1", "a", "login refused")]
    assert 3 < units.opened["a"] < 12


def test_a_unit_that_its_own_loss_put_into_quarantine_is_not_waited_for(units: Units) -> None:
    def act(opened: Any, name: str) -> None:
        units.away["a"] = [DeviceLostError("absent"), DeviceError("in quarantine", health.QUARANTINED)]
        raise DeviceLostError("the cable was pulled")

    assert done(act, {"1": ["a"]}, return_s=30) == [("1", "a", "absent")]
    assert units.opened["a"] == 3


def test_another_unit_of_the_soc_takes_over(units: Units) -> None:
    busy = threading.Event()

    def act(opened: Any, name: str) -> None:
        if opened.unit.name == "a":
            units.away["a"] = [DeviceLostError("gone")] * 1000
            busy.set()
            raise DeviceLostError("the cable was pulled")
        busy.wait(60)

    outcomes = done(act, {"1": ["a", "b"], "2": ["a", "b"]}, return_s=0.2)
    assert sorted(outcomes) == [("1", "b", "ok"), ("2", "b", "ok")]


def test_retries_are_counted(units: Units) -> None:
    calls: Counter[str] = Counter()

    def act(opened: Any, name: str) -> None:
        calls[name] += 1
        if name == "1":
            raise DeviceLostError("again")

    assert sorted(done(act, {"1": ["a"], "2": ["a"]}, retries=2)) == [("1", "a", "again"), ("2", "a", "ok")]
    assert calls["1"] == 3


def test_a_unit_that_does_not_open_fails_its_own_jobs_only(units: Units) -> None:
    units.away["a"] = [BuildError("no compiler")]
    outcomes = done(nothing, {"1": ["a"], "2": ["a", "b"], "3": ["b"]})
    assert sorted(outcomes) == [("1", "a", "no compiler"), ("2", "b", "ok"), ("3", "b", "ok")]


def test_what_this_machine_lacks_fails_the_jobs_of_one_unit_only(units: Units) -> None:
    def act(opened: Any, name: str) -> None:
        if name == "2":
            raise OSError(errno.ENOSPC, "No space left on device", "/tmp/plan")

    units.away["a"] = [OSError(errno.EMFILE, "Too many open files")]
    outcomes = done(act, {"1": ["a"], "2": ["b"], "3": ["b"]}, retries=0)
    lacked = "Too many open files; `ulimit -n` says how many, and raises it"
    assert sorted(outcomes) == [("1", "a", lacked), ("2", "b", "/tmp/plan: No space left on device"), ("3", "b", "ok")]


def test_a_unit_without_a_thread_fails_its_own_jobs_only(units: Units, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, []

    def start_all_but_second(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_all_but_second)
    outcomes = sorted(done(nothing, {"1": ["a"], "2": ["b"], "3": ["c"]}))
    assert [outcome[2].split(";")[0] for outcome in outcomes] == ["ok", "this machine starts no more threads", "ok"]


def test_fail_fast_begins_nothing_new(units: Units) -> None:
    def act(opened: Any, name: str) -> None:
        if name == "1":
            raise DeviceLostError("broken")

    outcomes = done(act, {"1": ["a"], "2": ["a"], "3": ["a"]}, fail_fast=True, retries=0, return_s=0)
    assert ("1", "a", "broken") in outcomes
    assert [text for _, _, text in outcomes if "--fail-fast" in text] == [dispatch.SKIPPED] * 2


def test_a_users_mistake_ends_everything(units: Units) -> None:
    def act(opened: Any, name: str) -> None:
        raise ConfigError("--tuned x: no such file")

    with pytest.raises(ConfigError, match="--tuned x"):
        done(act, {"1": ["a"], "2": ["b"]})


def test_a_job_whose_farmrt_is_killed_is_done_again_on_the_unit_that_answers(units: Units) -> None:
    kills = {"1": 1, "2": 9}

    def act(opened: Any, name: str) -> None:
        if kills.get(name, 0):
            kills[name] -= 1
            raise ProcessKilledError("killed")

    outcomes = done(act, {"1": ["a"], "2": ["a"], "3": ["a"]}, retries=2)
    assert sorted(outcomes) == [("1", "a", "ok"), ("2", "a", "killed"), ("3", "a", "ok")]
    assert kills["2"] == 9 - 3 and units.opened == {"a": 1}


def test_a_bug_is_not_swallowed(units: Units) -> None:
    def act(opened: Any, name: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        done(act, {"1": ["a"]})


@pytest.mark.slow
def test_who_leaves_early_stops_the_units(units: Units) -> None:
    begun: list[str] = []

    def act(opened: Any, name: str) -> None:
        begun.append(name)
        time.sleep(0.05)

    def job(name: str) -> Job[str, Any]:
        def run(opened: Any) -> Iterator[str]:
            act(opened, name)
            yield name

        return Job([unit("a")], run, bool, lambda unit, error: str(error))

    outcomes = run_jobs([job(str(number)) for number in range(100)], FleetOptions())
    assert next(outcomes) == "0"
    outcomes.close()  # type: ignore[attr-defined]
    count = len(begun)
    time.sleep(0.2)
    assert len(begun) <= count + 1


def test_fifty_units_of_which_ten_fail(units: Units) -> None:
    names = [f"u{number}" for number in range(50)]
    for name in names[::5]:
        units.away[name] = [DeviceLostError(f"{name}: no route")] * 10
    outcomes = done(nothing, {f"{name}.{job}": [name] for name in names for job in range(3)})
    assert len(outcomes) == 150
    assert sum(text == "ok" for _, _, text in outcomes) == 120
    assert not any(units.at_once.values())
