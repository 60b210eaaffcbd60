"""Lease, store and state of units behind real links, where shells and processes differ from this machine's own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farm import lease
from farm.device_state import read_conditions, read_state
from farm.device_store import Store
from farm.inventory import Unit
from farm.lease import Terms
from farm.transport import ssh
from farm.transport.base import Transport
from runtime.errors import JobError, LeaseLostError, UnitBusyError
from tests.farm.sshd import make_key, running_sshd

DEADLINE_S = 20.0


class Behind:
    """A unit behind a link, and ways to it."""

    def __init__(self, unit: Unit, connect: Callable[[], Transport], locks: Path) -> None:
        self.unit, self.connect, self._locks = unit, connect, locks

    def acquire(
        self, transport: Transport, host: str, terms: Terms = lease.TERMS
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


@pytest.fixture(params=[pytest.param(board, id="ssh")])
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
    with behind.acquire(transport, "a", Terms(lease_s=60.0, renew_s=0.2)) as held:
        assert "freed, was held by" in lease.release(behind.unit, transport, force=True)
        end = time.monotonic() + DEADLINE_S
        while not held.lost:
            assert time.monotonic() < end
            time.sleep(0.05)
        with pytest.raises(LeaseLostError):
            held.check()


@pytest.mark.slow
def test_what_a_dead_job_left_running_is_ended(behind: Behind, transport: Transport, tmp_path: Path) -> None:
    store = Store(transport)
    program = make_program(tmp_path)
    remote = store.put([program])[program]
    script = 'setsid "$1" 1000 >/dev/null 2>&1 </dev/null & echo $!; sleep 0.3'
    started = transport.run(["sh", "-c", script, "sh", f"./{remote}"], DEADLINE_S)
    found = transport.run(["sh", "-c", 'ls -l /proc/[0-9]*/exe 2>/dev/null | grep "$1"', "sh", remote], DEADLINE_S)
    process = found.stdout.decode().partition("/proc/")[2].partition("/")[0]
    assert started.exit_status == 0 and is_running(process)
    with behind.acquire(transport, "a") as held:
        assert held.swept.programs == 1
        end = time.monotonic() + DEADLINE_S
        while is_running(process):
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.slow
def test_files_that_are_there_are_not_sent_again(behind: Behind, transport: Transport, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * 100_000)
    with behind.acquire(transport, "a") as held, Store(transport, check=held.check) as store:
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
    terms = Terms(lease_s=5.0, renew_s=0.3, retry_s=0.3)
    with contextlib.closing(behind.connect()) as own, behind.acquire(own, "a", terms) as held:
        own.close()
        time.sleep(5.5)
        with pytest.raises(UnitBusyError), behind.acquire(transport, "b"):
            pass
        with contextlib.suppress(JobError):
            held.check()
