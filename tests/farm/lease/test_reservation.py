"""A person's reservation: jobs and other people are kept off until it ends or is released, also after a reboot."""

import dataclasses
from pathlib import Path

import pytest

from farm.config.inventory import HOST
from farm.lease import lease, reservation
from farm.lease import marker as lease_marker
from farm.lease.marker import Claim, Marker, MarkerState
from farm.transport.local import LocalTransport
from runtime.errors import ConfigError, LeaseLostError, UnitBusyError
from tests.farm.transport.unit_shells import SHELLS, shell_environment

UNIT = dataclasses.replace(HOST, name="pixel")
HOUR_S = 3600.0


@pytest.fixture
def transport(tmp_path: Path) -> LocalTransport:
    return LocalTransport(tmp_path / "unit")


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def reserve(transport: LocalTransport, locks: Path, owner: str = "alice", force: bool = False) -> str:
    return reservation.reserve(UNIT, transport, "flashing it", 2 * HOUR_S, owner, force, locks)


def test_jobs_are_told_who_reserved_the_unit_and_why(transport: LocalTransport, locks: Path) -> None:
    assert "pixel: reserved by alice until 20" in reserve(transport, locks)
    found = lease.holder(transport)
    assert found and found.is_reservation and (found.owner, found.job) == ("alice", "flashing it")
    assert 2 * HOUR_S - 60 < found.remaining_s <= 2 * HOUR_S
    with (
        pytest.raises(UnitBusyError, match=r"reserved by alice until .*: flashing it; .*`farm release pixel --force`"),
        lease.acquire(UNIT, transport, "tune", locks=locks),
    ):
        pass


def test_its_owner_gives_it_back_and_nobody_else_without_force(transport: LocalTransport, locks: Path) -> None:
    reserve(transport, locks)
    with pytest.raises(UnitBusyError, match="reserved by alice"):
        lease.release(UNIT, transport, owner="bob", locks=locks)
    assert "freed, was reserved by alice" in lease.release(UNIT, transport, owner="alice", locks=locks)
    reserve(transport, locks)
    lease.release(UNIT, transport, force=True, owner="bob", locks=locks)
    with lease.acquire(UNIT, transport, "tune", locks=locks) as held:
        held.check(certain=True)


@pytest.mark.slow
def test_one_replaces_ones_own_but_not_anothers(transport: LocalTransport, locks: Path) -> None:
    reserve(transport, locks)
    reservation.reserve(UNIT, transport, "longer", 3 * HOUR_S, "alice", locks=locks)
    found = lease.holder(transport)
    assert found and found.job == "longer" and found.remaining_s > 2 * HOUR_S
    with pytest.raises(UnitBusyError, match=r"reserved by alice.*--force reserves it"):
        reserve(transport, locks, "bob")
    assert "reserved by bob" in reserve(transport, locks, "bob", force=True)


@pytest.mark.slow
def test_a_job_is_not_interrupted_unless_by_force(transport: LocalTransport, locks: Path) -> None:
    with lease.acquire(UNIT, transport, "tune", locks=locks) as held:
        with pytest.raises(UnitBusyError, match=r"held by .*tune"):
            reserve(transport, locks)
        held.check(certain=True)
        reserve(transport, locks, force=True)
        with pytest.raises(LeaseLostError, match="lost to alice"):
            held.check(certain=True)
    found = lease.holder(transport)
    assert found and found.owner == "alice"


@pytest.mark.parametrize("duration_s", [0.0, -1.0, lease_marker.MAX_RESERVATION_S + 1, float("inf"), float("nan")])
def test_an_impossible_time_is_refused(transport: LocalTransport, locks: Path, duration_s: float) -> None:
    with pytest.raises(ConfigError, match="at most 14 days"):
        reservation.reserve(UNIT, transport, "x", duration_s, "alice", locks=locks)


@pytest.mark.parametrize("shell", SHELLS)
def test_whatever_a_person_writes_reaches_the_others(tmp_path: Path, locks: Path, shell: str) -> None:
    transport = LocalTransport(tmp_path / "unit", shell_environment(shell, tmp_path / "bin"))
    reservation.reserve(UNIT, transport, 'für "Zoë" \\n \x1b[31m $(id) `id` -n', HOUR_S, "alice", locks=locks)
    found = lease.holder(transport)
    assert found and found.job == 'für "Zoë" /n /x1b[31m $(id) `id` -n'


def claim(until_s: float = 5000.0) -> Claim:
    return Claim("alice", 1, "x", "n", reservation.LOCK, "boot-1", 100.0, HOUR_S, until_s)


@pytest.mark.parametrize(
    ("date_s", "remaining_s"), [(4000.0, 1000.0), (5000.0, 0.0), (9000.0, 0.0), (0.0, HOUR_S), (1.0, HOUR_S)]
)
def test_after_a_reboot_the_date_counts_and_never_gives_more_than_was_asked_for(
    date_s: float, remaining_s: float
) -> None:
    state = MarkerState("boot-2", 9.0, 1, claim(), "", date_s)
    assert state.remaining_s == remaining_s
    assert state.held_s == HOUR_S - remaining_s
    without_boot_id = dataclasses.replace(state, boot="", claim=dataclasses.replace(claim(), boot=""))
    assert without_boot_id.remaining_s == remaining_s


def test_within_one_boot_only_the_uptime_counts() -> None:
    assert MarkerState("boot-1", 200.0, 1, claim(), "", 9e9).remaining_s == HOUR_S - 100
    assert MarkerState("boot-1", 100 + HOUR_S, 1, claim(), "", 0.0).remaining_s == 0


def test_a_job_s_lease_still_ends_with_a_reboot() -> None:
    assert MarkerState("boot-2", 9.0, 1, claim(until_s=0.0), "", 4000.0).remaining_s == 0


def test_the_text_of_a_claim_keeps_the_end() -> None:
    assert lease_marker.parse_claim(claim().text()) == claim()
    long = dataclasses.replace(claim(), lease_s=lease_marker.MAX_LEASE_S + 1)
    assert lease_marker.parse_claim(long.text()) == long
    assert lease_marker.parse_claim(dataclasses.replace(long, until_s=0.0).text()) is None


def test_the_unit_tells_its_date(transport: LocalTransport) -> None:
    assert Marker(transport).read().date_s > 1.7e9
