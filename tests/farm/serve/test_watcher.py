import time

from farm.rows.device_state import DeviceState
from farm.serve.watcher import UnitWatcher
from farm.units.survey import UnitState
from runtime.errors import JobError
from tests.farm.serve.rack import Rack


def test_only_what_changed_is_told() -> None:
    rack = Rack(5)
    watcher = UnitWatcher(rack)
    first = watcher.look()
    assert len(first.changed_since(0)) == 5
    rack.change("phone-002", device=DeviceState(temperature_c=71.0))
    second = watcher.look()
    assert [unit.report.unit.name for unit in second.changed_since(first.version)] == ["phone-002"]
    assert watcher.look().changed_since(second.version) == []


def test_a_unit_that_is_gone_is_forgotten_and_a_new_one_comes() -> None:
    rack = Rack(2)
    watcher = UnitWatcher(rack)
    watcher.look()
    rack.reports = [*Rack(4).reports[1:]]
    assert list(watcher.look().units) == ["phone-001", "phone-002", "phone-003"]


def test_a_failed_look_keeps_what_is_known_and_says_why() -> None:
    rack = Rack(2)
    watcher = UnitWatcher(rack)
    watcher.look()
    rack.fault = JobError("no adb server")
    failed = watcher.look()
    assert failed.error == "no adb server" and len(failed.units) == 2
    rack.fault = None
    assert watcher.look().error == ""


def test_the_last_readings_stand_while_a_job_runs() -> None:
    rack = Rack(1)
    watcher = UnitWatcher(rack)
    warm = watcher.look().units["phone-000"].report.device
    rack.change("phone-000", state=UnitState.BUSY, device=DeviceState())
    assert watcher.look().units["phone-000"].report.device == warm
    rack.change("phone-000", state=UnitState.READY)
    assert watcher.look().units["phone-000"].report.device == DeviceState()


def test_temperatures_are_remembered() -> None:
    rack = Rack(1)
    watcher = UnitWatcher(rack)
    for degrees in (30.0, None, 32.0):
        rack.change("phone-000", device=DeviceState(temperature_c=degrees))
        watcher.look()
    assert [value for _, value in watcher.temperatures("phone-000")] == [30.0, 32.0]
    assert watcher.temperatures("nobody") == []


def test_it_looks_by_itself_and_at_once_when_told() -> None:
    watcher = UnitWatcher(Rack(1), 3600.0)
    watcher.start()
    try:
        _until(watcher, 1)
        watcher.look_soon()
        _until(watcher, 2)
    finally:
        watcher.stop()


def _until(watcher: UnitWatcher, version: int) -> None:
    end = time.monotonic() + 60
    while watcher.snapshot.version < version:
        assert time.monotonic() < end
        time.sleep(0.01)
