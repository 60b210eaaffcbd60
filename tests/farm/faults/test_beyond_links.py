"""Lease, store and state of units behind real links, where shells and processes differ from this machine's own."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.loopback import free_port, make_key
from farm.condition import task_profile
from farm.condition.device_state import read_conditions, read_state
from farm.condition.readiness import obstacles, wait_until_ready
from farm.condition.steadiness import held_steady
from farm.condition.throttling import RetryPolicy, measure_unthrottled
from farm.config.adb_address import AdbAddress
from farm.config.inventory import Limits, Unit
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone
from farm.farmrt import unit_file_store
from farm.farmrt.unit_file_store import UnitFileStore
from farm.lease import lease
from farm.lease.lease import LeaseTerms
from farm.lease.marker import Marker
from farm.transport import adb, adb_server, ssh
from farm.transport.base import Transport
from runtime.errors import JobError, LeaseLostError, UnitBusyError
from tests.farm.transport.openssh_server import running_sshd

DEADLINE_S = 60.0
STAYS_ON = ["settings", "get", "global", "stay_on_while_plugged_in"]


class Behind:
    """A unit behind a link, and ways to it."""

    def __init__(self, unit: Unit, connect: Callable[[], Transport], locks: Path) -> None:
        self.unit, self.connect, self._locks = unit, connect, locks

    def acquire(
        self, transport: Transport, host: str, terms: LeaseTerms = lease.TERMS
    ) -> contextlib.AbstractContextManager[lease.Lease]:
        """As a controller on that host does."""
        locks = self._locks / host
        return lease.acquire(self.unit, transport, f"job of {host}", connect=self.connect, terms=terms, locks=locks)


@contextlib.contextmanager
def board(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    """This machine as a board."""
    home = folder / "home"
    (home / ".ssh").mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HOME", str(home))
    key = make_key(home / ".ssh" / "id_ed25519")
    with running_sshd(folder / "sshd", key.with_suffix(".pub").read_text()) as (port, host_key):
        (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
        remote = str(folder / "unit folder")
        unit = Unit("board", "ssh", "rk3399", "Rock", ("arm64",), address="127.0.0.1", port=port, folder=remote)
        yield Behind(unit, lambda: ssh.connect(unit), folder / "locks")


@contextlib.contextmanager
def behind_adb(folder: Path, found: EmulatedPhone) -> Iterator[Behind]:
    """A phone behind an adb server of its own."""
    server_port = free_port()
    serial = f"127.0.0.1:{found.port}"
    unit = Unit("phone", "adb", "sdm845", "MI 8", ("host",), serial=serial, adb_server=AdbAddress(port=server_port))
    try:
        yield Behind(unit, lambda: adb.connect(unit), folder / "locks")
    finally:
        subprocess.run([adb_server.find_adb(), "-P", str(server_port), "kill-server"], capture_output=True)


@contextlib.contextmanager
def phone(folder: Path, monkeypatch: pytest.MonkeyPatch, shell_v2: bool = True) -> Iterator[Behind]:
    """An emulated phone."""
    settings = PhoneSettings(soc="sdm845", model="MI 8", android=14 if shell_v2 else 6, shell_v2=shell_v2)
    with EmulatedPhone(settings) as found, behind_adb(folder, found) as behind:
        yield behind


@contextlib.contextmanager
def old_phone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    """One before shell protocol 2."""
    with phone(folder, monkeypatch, shell_v2=False) as found:
        yield found


LINKS = [pytest.param(link, id=link.__name__) for link in (board, phone, old_phone)]


@pytest.fixture(params=LINKS)
def behind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    with request.param(tmp_path, monkeypatch) as unit:
        yield unit


@pytest.fixture
def transport(behind: Behind) -> Iterator[Transport]:
    with contextlib.closing(behind.connect()) as opened:
        yield opened


def make_program(folder: Path) -> Path:
    """A farmrt that does nothing for long, and its own process's number first."""
    program = folder / "farmrt"
    program.write_bytes(Path("/bin/sleep").resolve().read_bytes())
    program.chmod(0o755)
    return program


def is_running(process: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
def test_one_holder_and_the_next_token(behind: Behind, transport: Transport) -> None:
    with behind.acquire(transport, "a") as first:
        first.check(certain=True)
        with pytest.raises(UnitBusyError, match="job of a"), behind.acquire(transport, "b"):
            pass
    with behind.acquire(transport, "b") as second:
        assert second.token == first.token + 1
        second.check(certain=True)


@pytest.mark.slow
def test_a_job_that_is_released_by_force_is_told_in_time(behind: Behind, transport: Transport) -> None:
    with behind.acquire(transport, "a", LeaseTerms(lease_s=60.0, renew_s=2.0)) as held:
        assert "freed, was held by" in lease.release(behind.unit, transport, force=True)
        end = time.monotonic() + DEADLINE_S
        while not held.lost:
            assert time.monotonic() < end
            time.sleep(0.05)
        with pytest.raises(LeaseLostError):
            held.check()


@pytest.mark.slow
def test_what_a_dead_job_left_running_is_ended(behind: Behind, transport: Transport, tmp_path: Path) -> None:
    store = UnitFileStore(transport)
    program = make_program(tmp_path)
    remote = store.put([program])[program]
    script = 'setsid "$1" 1000 >/dev/null 2>&1 </dev/null & echo $!; sleep 0.3'
    started = transport.run(["sh", "-c", script, "sh", f"./{remote}"], DEADLINE_S)
    found = transport.run(["sh", "-c", 'ls -l /proc/[0-9]*/exe 2>/dev/null | grep "$1"', "sh", remote], DEADLINE_S)
    process = found.stdout.decode().partition("/proc/")[2].partition("/")[0]
    assert started.exit_status == 0 and is_running(process)
    with behind.acquire(transport, "a") as held:
        assert held.cleared.programs == 1
        end = time.monotonic() + DEADLINE_S
        while is_running(process):
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.slow
def test_files_that_are_there_are_not_sent_again(behind: Behind, transport: Transport, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * 100_000)
    with behind.acquire(transport, "a") as held, UnitFileStore(transport, check=held.check) as store:
        remote = store.put([data])[data]
    assert transport.run(["cat", remote], DEADLINE_S).stdout == data.read_bytes()
    assert transport.push({remote: data}) == []


@pytest.mark.slow
def test_state_is_read(behind: Behind, transport: Transport) -> None:
    state = read_state(transport)
    assert state.load_average is not None and state.clock_mhz and state.free_bytes
    assert read_conditions(transport).load_average is not None


@pytest.mark.slow
def test_the_lease_outlives_the_jobs_own_connection(behind: Behind, transport: Transport) -> None:
    terms = LeaseTerms(lease_s=600.0, renew_s=0.1, retry_s=0.1)
    with contextlib.closing(behind.connect()) as own, behind.acquire(own, "a", terms) as held:
        own.close()
        for _ in range(2):  # the first may have been under way
            seen, end = Marker(transport).read().heartbeat, time.monotonic() + DEADLINE_S
            while Marker(transport).read().heartbeat == seen:
                assert time.monotonic() < end, "it is not renewed"
        with pytest.raises(UnitBusyError), behind.acquire(transport, "b"):
            pass
        with contextlib.suppress(JobError):
            held.check()


# --- what phones do ----------------------------------------------------------------------------


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[tuple[EmulatedPhone, Behind]]:
    with EmulatedPhone(PhoneSettings(rooted=True)) as found, behind_adb(tmp_path, found) as behind:
        yield found, behind


@pytest.mark.slow
def test_a_reboot_ends_the_lease_and_frees_the_phone(faulty: tuple[EmulatedPhone, Behind]) -> None:
    found, behind = faulty
    with contextlib.closing(behind.connect()) as transport, behind.acquire(transport, "a") as held:
        found.inject("reboot:away=0.5")
        end = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < end
            try:
                held.check(certain=True)
            except LeaseLostError as error:
                assert "was rebooted" in str(error)
                break
            except JobError:  # it is away
                time.sleep(0.2)
        with contextlib.closing(behind.connect()) as again, behind.acquire(again, "b") as successor:
            successor.check(certain=True)


@pytest.mark.slow
def test_a_hot_phone_is_waited_for(faulty: tuple[EmulatedPhone, Behind]) -> None:
    found, behind = faulty
    said: list[str] = []
    with contextlib.closing(behind.connect()) as transport:
        limits = Limits(max_start_temp_c=50.0, wait_s=60.0)
        found.inject("hot:temp=80,for=1000")

        def sleep(seconds: float) -> None:
            found.clear_faults()
            time.sleep(0.2)

        read = lambda: read_state(transport)  # noqa: E731
        fit = wait_until_ready("phone", read, limits, time.monotonic, sleep, said.append)
        assert fit.waited_for.startswith("80.0 °C, above max_start_temp_c 50") and len(said) == 1


@pytest.mark.slow
def test_battery_saver_and_an_empty_battery_are_refused(faulty: tuple[EmulatedPhone, Behind]) -> None:
    found, behind = faulty
    with contextlib.closing(behind.connect()) as transport:
        found.inject("battery:level=5,charging=no,saver=yes")
        reasons = [each.reason for each in obstacles(read_state(transport), Limits(min_battery_percent=20))]
        assert len(reasons) == 2 and "plug it in" in reasons[0] and "battery saver" in reasons[1]


@pytest.mark.slow
def test_a_throttled_sample_is_measured_again(faulty: tuple[EmulatedPhone, Behind]) -> None:
    found, behind = faulty
    taken: list[int] = []
    with contextlib.closing(behind.connect()) as transport:

        def measure() -> None:
            taken.append(1)
            found.inject("throttle:status=3")

        def rest(seconds: float) -> None:
            found.clear_faults()

        outcome = measure_unthrottled(measure, lambda: read_conditions(transport), rest, RetryPolicy(max_repeats=1))
        assert (len(taken), outcome.cause, outcome.repeats) == (2, "thermal status severe", 1)


@pytest.mark.slow
def test_a_rooted_phone_is_held_steady_and_has_a_task_profile(faulty: tuple[EmulatedPhone, Behind]) -> None:
    found, behind = faulty
    with contextlib.closing(behind.connect()) as transport, behind.acquire(transport, "a") as held:
        before = read_state(transport).governors
        transport.run(["input", "keyevent", "KEYCODE_SLEEP"], DEADLINE_S)
        with held_steady(transport, check=held.check) as changed:
            assert "kgsl-3d0" in changed.governors and "cpu7" in changed.governors
            during = read_state(transport)
            assert set(during.governors.values()) == {"performance"} and during.screen_on and changed.is_kept_awake
            assert transport.run(STAYS_ON, DEADLINE_S).stdout == b"7\n"
        assert read_state(transport).governors == before
        assert transport.run(STAYS_ON, DEADLINE_S).stdout == b"0\n"
        profile = task_profile.find_profile(transport)
        assert transport.run(profile.wrap(["true"]), DEADLINE_S).exit_status == 0
    words = found.recorded_calls("settaskprofile")[-1].split()
    assert words[1:] == list(profile.profiles)


@pytest.mark.slow
def test_a_full_phone_keeps_what_the_job_uses(faulty: tuple[EmulatedPhone, Behind], tmp_path: Path) -> None:
    found, behind = faulty
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"o" * 3_000_000)
    new.write_bytes(b"n" * 2_000_000)
    with contextlib.closing(behind.connect()) as transport:
        with UnitFileStore(transport) as store:
            store.put([old])
        found.inject("storage:free=1000000")
        with UnitFileStore(transport) as store:
            remote = store.put([new])[new]
        assert [file.name for file in unit_file_store.read(transport).removal_order()] == [remote]
