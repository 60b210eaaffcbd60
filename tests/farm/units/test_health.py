"""Quarantine: when it begins, when it ends, and the check between."""

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.config.inventory import HOST, Limits
from farm.lease import lease
from farm.rows.status import Status
from farm.transport.base import CompletedProgram, Transport
from farm.transport.local import LocalTransport
from farm.units import health_check
from farm.units.health import (
    CheckResult,
    HealthHistory,
    HealthRecords,
    JobOutcome,
    Quarantine,
    QuarantinePolicy,
    after_check,
    after_job,
)
from runtime.errors import ConfigError, DeviceError, DeviceLostError, UnitBusyError

UNIT = dataclasses.replace(HOST, name="pixel")
POLICY = QuarantinePolicy(failures=3, of_last=5, recheck_s=600.0, longest_s=3600.0)
GOOD = [CheckResult("connection", True)]
BAD = [CheckResult("connection", False, "no route"), CheckResult("files", True)]


@pytest.fixture(scope="module", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests that run beside each other in several processes take a unit of one name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("locks")))
        yield


def outcomes(history: HealthHistory, *oks: bool, start: float = 1000.0) -> HealthHistory:
    for index, ok in enumerate(oks):
        history = after_job(
            history, JobOutcome(time=start + index, ok=ok, reason="" if ok else f"broke {index}"), POLICY
        )
    return history


def test_three_failures_among_five_jobs_begin_a_quarantine() -> None:
    assert outcomes(HealthHistory(), False, True, False, True).quarantine is None
    quarantine = outcomes(HealthHistory(), False, True, False, True, False).quarantine
    assert quarantine is not None
    assert quarantine.reason == "3 of the last 5 jobs failed, the last one: broke 4"
    assert (quarantine.since, quarantine.recheck_at) == (1004.0, 1604.0)
    assert "in quarantine since" in quarantine.line and "checked again from" in quarantine.line


def test_failures_in_quarantine_do_not_delay_the_check() -> None:
    history = outcomes(HealthHistory(), False, False, False)
    assert outcomes(history, False, False, start=1500.0).quarantine == history.quarantine


def test_old_failures_are_forgotten() -> None:
    assert outcomes(HealthHistory(), False, False, True, True, True, True, False).quarantine is None


def test_a_passed_check_ends_the_quarantine_and_each_failed_one_doubles_the_delay() -> None:
    history = outcomes(HealthHistory(), False, False, False)
    assert after_check(history, GOOD, 2000.0, POLICY) == HealthHistory()
    delays = []
    for now in (2000.0, 3000.0, 4000.0, 9000.0):
        history = after_check(history, BAD, now, POLICY)
        assert history.quarantine is not None and history.quarantine.reason == "connection: no route"
        delays.append(history.quarantine.recheck_at - now)
    assert delays == [600.0, 1200.0, 2400.0, 3600.0]
    assert history.quarantine.since == 1002.0


@pytest.mark.slow
@given(st.lists(st.booleans(), max_size=40))
def test_quarantine_is_never_left_without_a_check(oks: list[bool]) -> None:
    history, was = HealthHistory(), False
    for ok in oks:
        history = outcomes(history, ok)
        assert not was or history.quarantine is not None
        was = history.quarantine is not None
        recent = [each.ok for each in history.outcomes]
        assert len(recent) <= 5 and (was or recent.count(False) < 3)


def test_a_clock_that_was_set_back_does_not_prolong_it() -> None:
    quarantine = Quarantine(reason="x", since=10_000.0, recheck_at=10_600.0)
    assert not quarantine.is_due(10_001.0)
    assert quarantine.is_due(10_600.0) and quarantine.is_due(5.0)


def test_failures_that_are_not_the_units_fault_do_not_count(tmp_path: Path) -> None:
    records = HealthRecords(tmp_path, POLICY)
    for status in (Status.UNSUPPORTED, Status.BUILD_FAILED, Status.WRONG_RESULT, Status.FAILED, Status.OK) * 3:
        records.record_job(UNIT, status, "reason")
    assert records.read(UNIT).quarantine is None
    for status in (Status.TIMEOUT, Status.DEVICE_LOST, Status.DEVICE_LOST):
        records.record_job(UNIT, status, "gone\x1b[31m")
    quarantine = HealthRecords(tmp_path, POLICY).read(UNIT).quarantine
    assert quarantine is not None and quarantine.reason.isprintable()


def test_units_are_told_apart_and_damaged_files_are_passed_over(tmp_path: Path) -> None:
    records = HealthRecords(tmp_path, POLICY)
    other = dataclasses.replace(UNIT, transport="adb", serial="ABC")
    records.record_check(UNIT, BAD)
    assert records.read(UNIT).quarantine and records.read(other) == HealthHistory()
    (found,) = tmp_path.glob("*.json")
    found.write_text("{")
    assert records.read(UNIT) == HealthHistory()
    assert records.record_check(UNIT, BAD).quarantine


def test_what_cannot_be_kept_fails_neither_job_nor_check(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "health").write_text("no folder")
    records = HealthRecords(tmp_path / "health" / "below", POLICY)
    assert [each.ok for each in records.record_job(UNIT, Status.TIMEOUT, "hangs").outcomes] == [False]
    assert records.record_check(UNIT, BAD).quarantine and not records.record_check(UNIT, GOOD).quarantine
    (line,) = caplog.messages
    assert line.startswith("pixel: how its jobs ended is not remembered: ") and line.endswith("Not a directory")


@pytest.mark.slow
def test_many_jobs_at_once_lose_no_outcome(tmp_path: Path) -> None:
    records = HealthRecords(tmp_path, QuarantinePolicy(failures=100, of_last=100))
    threads = [
        threading.Thread(target=records.record_job, args=(UNIT, Status.DEVICE_LOST, str(number)))
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(records.read(UNIT).outcomes) == 12


def test_a_quarantined_unit_is_passed_over_until_its_check_is_due(tmp_path: Path) -> None:
    records = HealthRecords(tmp_path, POLICY)
    checks: list[str] = []

    def check(findings: list[CheckResult]) -> Any:
        return lambda: checks.append("made") or findings

    records.admit(UNIT, check(GOOD), 999.0)
    records.record_check(UNIT, BAD, 1000.0)
    with pytest.raises(DeviceError, match=r"pixel: in quarantine since .*no route.*`farm devices check pixel`"):
        records.admit(UNIT, check(GOOD), 1500.0)
    assert not checks
    with pytest.raises(DeviceError, match="in quarantine"):
        records.admit(UNIT, check(BAD), 1600.0)
    assert len(checks) == 1
    records.admit(UNIT, check(GOOD), 5000.0)
    records.admit(UNIT, check(BAD), 5001.0)
    assert len(checks) == 2


# --- the check ---------------------------------------------------------------------------------


class Spoilt:
    """A transport of which one thing is broken."""

    def __init__(self, folder: Path, broken: str = "") -> None:
        self._inner, self._broken = LocalTransport(folder), broken

    def run(self, argv: Sequence[str], deadline_s: float) -> CompletedProgram:
        if self._broken == "run":
            return CompletedProgram(0, b"0\n", b"")
        if self._broken == "cut":
            raise DeviceLostError("cut")
        if self._broken == "full" and "read_state" not in argv:
            done = self._inner.run(argv, deadline_s)
            lines = [
                b"free /dev/x 100 99 1 99% /" if line.startswith(b"free ") else line
                for line in done.stdout.split(b"\n")
            ]
            return dataclasses.replace(done, stdout=b"\n".join(lines))
        return self._inner.run(argv, deadline_s)

    def pull(self, remote: str, local: Path) -> None:
        self._inner.pull(remote, local)
        if self._broken == "pull":
            local.write_bytes(b"altered")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def findings(tmp_path: Path, broken: str = "", probe: Any = lambda transport: "PoCL") -> dict[str, CheckResult]:
    transport: Any = Spoilt(tmp_path / "unit", broken)
    return {each.name: each for each in health_check.check(UNIT, lambda: transport, probe)}


@pytest.mark.slow
def test_a_healthy_unit_passes_every_point(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert list(found) == ["connection", "files", "state", "farmrt"]
    assert all(each.ok for each in found.values())
    assert "MB free" in found["state"].text and found["farmrt"].text == "PoCL"
    assert lease.holder(LocalTransport(tmp_path / "unit")) is None
    assert not (tmp_path / "unit" / "health.bin").exists()


@pytest.mark.parametrize(
    ("broken", "point", "words"),
    [
        ("run", "connection", "exit status 0"),
        ("cut", "connection", "cut"),
        ("pull", "files", "changed"),
        ("full", "state", "0 MB free"),
    ],
)
def test_each_point_of_the_check_can_fail(tmp_path: Path, broken: str, point: str, words: str) -> None:
    found = findings(tmp_path, broken)[point]
    assert not found.ok and words in found.text


@pytest.mark.slow
def test_a_farmrt_that_does_not_start_fails_the_check(tmp_path: Path) -> None:
    def probe(transport: Transport) -> str:
        raise DeviceLostError("probe: ended with exit status 139 (SIGSEGV)\x1b[2J")

    found = findings(tmp_path, probe=probe)["farmrt"]
    assert not found.ok and "139" in found.text and found.text.isprintable()


def test_a_mistake_in_the_configuration_is_raised(tmp_path: Path) -> None:
    """It is the user's mistake and says nothing about the unit's health."""

    def probe(transport: Transport) -> str:
        raise ConfigError("pixel: name its target_abis")

    with pytest.raises(ConfigError):
        findings(tmp_path, probe=probe)


def test_an_unreachable_unit_fails_the_connection_point(tmp_path: Path) -> None:
    def connect() -> Transport:
        raise DeviceLostError("pixel: no route")

    assert health_check.check(UNIT, connect, lambda transport: "") == [
        CheckResult("connection", False, "pixel: no route")
    ]


def test_a_busy_unit_is_not_checked(tmp_path: Path) -> None:
    transport = LocalTransport(tmp_path / "unit")
    with lease.acquire(UNIT, transport, "job"), pytest.raises(UnitBusyError):
        health_check.check(UNIT, lambda: LocalTransport(tmp_path / "unit"), lambda transport: "")


def test_a_units_own_limits_are_checked(tmp_path: Path) -> None:
    unit = dataclasses.replace(UNIT, limits=Limits(free_storage_mb=10**9))
    found = health_check.check(unit, lambda: LocalTransport(tmp_path / "unit"), lambda transport: "")
    assert [each.name for each in found if not each.ok] == ["state"]
