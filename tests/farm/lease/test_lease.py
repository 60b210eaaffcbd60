"""The lease: two controllers never hold one unit, whatever dies, sleeps, reboots or comes late."""

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm import safe_text
from farm.config.inventory import HOST
from farm.lease import host_lock, lease
from farm.lease import marker as lease_marker
from farm.lease.lease import Lease, LeaseTerms
from farm.lease.marker import Claim, Marker, MarkerState
from farm.transport import storage
from farm.transport.base import CompletedProgram, Transport
from farm.transport.local import LocalTransport
from runtime.errors import DeviceError, DeviceLostError, LeaseLostError, UnitBusyError
from tests.farm.disks import disk_at, fill
from tests.farm.transport.unit_shells import SHELLS, shell_environment

QUICK = LeaseTerms(lease_s=60.0, renew_s=0.1, retry_s=0.05, poll_s=0.05)
ASLEEP = LeaseTerms(lease_s=60.0, renew_s=1e6)  # its renewing thread never gets to run
WAIT_S = 60.0
UNIT = dataclasses.replace(HOST, name="pixel")


class Clock:
    """The unit's uptime and boot id, as files that a test writes, and the controllers' clock, which runs alike."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ahead_s = 0.0
        self.boots = 0
        self.reboot(1000.0)

    def follow(self, seconds: float) -> None:
        """This machine's boot, so many seconds later than now."""
        self._write("boot_id", Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        self._uptime_s = float(Path("/proc/uptime").read_text().split()[0])
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds
        self._uptime_s += seconds
        self._write("uptime", f"{self._uptime_s:.2f} 0.00")

    def reboot(self, uptime_s: float = 9.0) -> None:
        self.boots += 1
        self._uptime_s = uptime_s
        self._write("boot_id", f"boot-{self.boots}")
        self._write("uptime", f"{self._uptime_s:.2f} 0.00")

    def host_s(self) -> float:
        return 5000.0 + self._ahead_s

    def script(self, script: str) -> str:
        files = {"/proc/uptime": "uptime", "/proc/sys/kernel/random/boot_id": "boot_id"}
        for file, name in files.items():
            assert file in script
            script = script.replace(file, str(self._folder / name))
        return script

    def _write(self, name: str, text: str) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(f"{text}\n")
        new.replace(self._folder / name)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(tmp_path)
    monkeypatch.setattr(lease_marker, "SCRIPT", clock.script(lease_marker.SCRIPT))
    monkeypatch.setattr(lease, "boot_clock_s", clock.host_s)
    return clock


@pytest.fixture
def transport(tmp_path: Path) -> LocalTransport:
    return LocalTransport(tmp_path / "unit")


class Rig:
    """One unit, and as many controllers on as many hosts as a test wants."""

    def __init__(self, folder: Path, transport: Transport) -> None:
        self.folder, self.transport = folder, transport

    def acquire(
        self, host: str = "a", terms: LeaseTerms = QUICK, wait_s: float = 0.0, **others: Any
    ) -> contextlib.AbstractContextManager[Lease]:
        transport = others.pop("transport", self.transport)
        return lease.acquire(
            UNIT, transport, f"job of {host}", terms=terms, wait_s=wait_s, locks=self.folder / host, **others
        )


@pytest.fixture
def rig(tmp_path: Path, transport: LocalTransport) -> Rig:
    return Rig(tmp_path, transport)


class Faulty:
    """A transport whose `run` a test can spoil."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.before: Callable[[Sequence[str]], None] = lambda argv: None

    def run(self, argv: Sequence[str], *others: Any, **more: Any) -> CompletedProgram:
        self.before(argv)
        return self._inner.run(argv, *others, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def claim_of(job: str, seen: MarkerState, lease_s: float = 60.0) -> Claim:
    return Claim("user@host", 1, job, f"nonce of {job}", "lock", seen.boot, seen.uptime_s, lease_s)


NOTHING = MarkerState("", 0.0, 0, None, "")
STEPS = ("look", "claim", "take", "renew", "end")


# --- one at a time -------------------------------------------------------------------


def test_a_second_claimant_is_refused_and_told_the_holder(rig: Rig) -> None:
    with rig.acquire("a"), pytest.raises(UnitBusyError) as caught, rig.acquire("b"):
        pass
    assert "pixel: held by" in str(caught.value) and "job of a" in str(caught.value)
    assert f"pid {os.getpid()}" in str(caught.value) and "farm devices release pixel --force" in str(caught.value)


def test_on_one_host_the_lock_file_decides(rig: Rig) -> None:
    with rig.acquire("a"), pytest.raises(UnitBusyError, match=r"held by .*job of a"), rig.acquire("a"):
        pass


def test_the_next_holder_gets_the_unit_at_once_and_a_higher_token(rig: Rig) -> None:
    tokens = []
    for host in ("a", "b", "a"):
        with rig.acquire(host) as held:
            held.check(certain=True)
            tokens.append(held.token)
    assert tokens == sorted(set(tokens))
    assert lease.holder(rig.transport) is None


@pytest.mark.slow
def test_old_markers_are_cleared_away(rig: Rig) -> None:
    for host in "abcde":
        with rig.acquire(host):
            pass
    assert sorted(path.name for path in (rig.folder / "unit" / ".lease").iterdir()) == [".room", "5", "5.beat"]


def test_the_lock_file_excludes_other_processes_even_without_a_marker(rig: Rig) -> None:
    with rig.acquire("a", ASLEEP):
        shutil.rmtree(rig.folder / "unit" / ".lease")
        with pytest.raises(UnitBusyError, match="being taken or left by another process"), rig.acquire("a"):
            pass


@pytest.mark.slow
def test_an_error_within_gives_the_unit_back(rig: Rig) -> None:
    with pytest.raises(ZeroDivisionError), rig.acquire("a"):
        raise ZeroDivisionError
    with rig.acquire("b"):
        pass


@pytest.mark.slow
def test_renewal_keeps_a_lease_far_beyond_its_duration(rig: Rig, clock: Clock) -> None:
    marker = Marker(rig.transport)
    with rig.acquire("a") as held:
        for _ in range(6):
            clock.advance(50)
            eventually(lambda: marker.read().remaining_s == QUICK.lease_s)
            with pytest.raises(UnitBusyError), rig.acquire("b"):
                pass
        held.check(certain=True)


@pytest.mark.slow
def test_waiting_names_the_holder_and_ends_when_the_unit_is_free(rig: Rig) -> None:
    said: list[str] = []
    holder = rig.acquire("a")
    holder.__enter__()
    timer = threading.Timer(0.3, holder.__exit__, (None, None, None))
    timer.start()
    with rig.acquire("b", wait_s=WAIT_S, say=said.append) as held:
        held.check(certain=True)
    timer.join()
    assert len([line for line in said if "pixel: waiting, held by" in line and "job of a" in line]) == 1


@pytest.mark.slow
def test_waiting_ends_after_wait_s(rig: Rig) -> None:
    with rig.acquire("a"), pytest.raises(UnitBusyError), rig.acquire("b", wait_s=0.2):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_racing_threads_never_hold_it_together(tmp_path: Path, shell: str) -> None:
    environment = shell_environment(shell, tmp_path / "bin")
    inside: list[str] = []
    tokens: list[int] = []
    worst = 0

    def work(host: str) -> None:
        nonlocal worst
        rig = Rig(tmp_path, LocalTransport(tmp_path / "unit", environment))
        for _ in range(4):
            with rig.acquire(host, wait_s=WAIT_S) as held:
                inside.append(host)
                worst = max(worst, len(inside))
                tokens.append(held.token)
                time.sleep(0.002)
                held.check(certain=True)
                inside.remove(host)

    threads = [threading.Thread(target=work, args=(host,)) for host in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (worst, len(tokens)) == (1, 16)
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("shell", SHELLS)
def test_of_concurrent_claims_exactly_one_wins(tmp_path: Path, shell: str) -> None:
    transport = LocalTransport(tmp_path / "unit", shell_environment(shell, tmp_path / "bin"))
    seen = Marker(transport).read()
    claims = [claim_of(f"job {number}", seen) for number in range(8)]
    answers: dict[str, MarkerState] = {}

    def work(claim: Claim) -> None:
        answers[claim.job] = Marker(transport).claim(claim, seen)

    threads = [threading.Thread(target=work, args=(claim,)) for claim in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [claim for claim in claims if answers[claim.job].claim == claim]
    assert len(winners) == 1
    assert Marker(transport).read().claim == winners[0]


# --- death ---------------------------------------------------------------------------

HOLDER = """
import dataclasses, sys, time
from pathlib import Path
from farm import safe_text
from farm.config.inventory import HOST
from farm.lease import lease
from farm.lease.lease import LeaseTerms
from farm.transport.local import LocalTransport
unit = dataclasses.replace(HOST, name="pixel")
transport = LocalTransport(Path(sys.argv[1]))
terms = LeaseTerms(600.0, 0.3, 0.1)
with lease.acquire(unit, transport, "doomed", terms=terms, locks=Path(sys.argv[2])) as held:
    for name in sys.argv[3:]:
        transport.start(["./" + name, "1000"])
    print(held.token, flush=True)
    time.sleep(1000)
"""


@contextlib.contextmanager
def doomed(unit: Path, locks: Path, *programs: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A controller in its own process, which holds the unit; and its token."""
    command = [sys.executable, "-c", HOLDER, str(unit), str(locks), *programs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.slow
def test_kill_9_on_this_host_blocks_nobody(rig: Rig) -> None:
    with doomed(rig.folder / "unit", rig.folder / "a") as (process, token):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert Marker(rig.transport).read().remaining_s > 0
        with rig.acquire("a") as held:
            assert held.token > token


@pytest.mark.slow
def test_kill_9_on_another_host_blocks_until_the_lease_ends(rig: Rig, clock: Clock) -> None:
    with doomed(rig.folder / "unit", rig.folder / "a") as (process, token):
        process.send_signal(signal.SIGKILL)
        process.wait()
        for seconds in (0.0, 500.0):
            clock.follow(seconds)
            with pytest.raises(UnitBusyError, match="doomed"), rig.acquire("b"):
                pass
        clock.follow(601.0)
        with rig.acquire("b") as held:
            assert held.token > token


@pytest.mark.slow
def test_programs_of_a_dead_holder_are_ended(rig: Rig) -> None:
    sleeper = rig.folder / "unit" / "farmrt"
    sleeper.write_bytes(Path("/bin/sleep").resolve().read_bytes())
    sleeper.chmod(0o755)
    with doomed(rig.folder / "unit", rig.folder / "a", "farmrt") as (process, _):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert running_from(sleeper)
        with rig.acquire("a") as held:
            eventually(lambda: not running_from(sleeper))
            assert held.cleared.programs == 1


def test_an_emulated_farmrt_of_a_dead_holder_is_ended(rig: Rig) -> None:
    """Its executable is the emulator's; only its working folder and its name tell what it is."""
    elsewhere = rig.folder / "elsewhere"
    elsewhere.mkdir()
    unit = rig.folder / "unit"
    words = ["./objects/0/farmrt", "1000"]
    with (
        subprocess.Popen(words, executable="/bin/sleep", cwd=unit) as left,
        subprocess.Popen(words, executable="/bin/sleep", cwd=elsewhere) as other,
        subprocess.Popen(["sleep", "1000"], cwd=unit) as unknown,
    ):
        try:
            with rig.acquire("a") as held:
                assert left.wait(WAIT_S) == -signal.SIGKILL
                assert held.cleared.programs == 1
            assert (other.poll(), unknown.poll()) == (None, None)
        finally:
            for process in (left, other, unknown):
                process.kill()


def running_from(program: Path) -> list[str]:
    found = []
    for link in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith(str(program.resolve())):
                found.append(link.parent.name)
    return found


# --- late, lost and rebooted ---------------------------------------------------------


def test_a_controller_that_continues_after_its_lease_was_taken_is_refused(rig: Rig, clock: Clock) -> None:
    """It sleeps longer than its lease, as a suspended laptop does; another takes over; then it wants to write."""
    with rig.acquire("a", ASLEEP) as late:
        clock.advance(61)
        with rig.acquire("b") as successor:
            with pytest.raises(LeaseLostError, match=r"pixel: the lease was lost to .*job of b"):
                late.check()
            with pytest.raises(LeaseLostError):  # and stays so, without asking again
                late.check()
            assert late.lost
            successor.check(certain=True)
        with pytest.raises(LeaseLostError):
            late.check(certain=True)
    assert lease.holder(rig.transport) is None


def test_an_expired_lease_is_renewed_if_nobody_claimed_the_unit(rig: Rig, clock: Clock) -> None:
    with rig.acquire("a", ASLEEP) as late:
        clock.advance(61)
        late.check()
        with pytest.raises(UnitBusyError), rig.acquire("b"):
            pass


@pytest.mark.slow
def test_ending_an_expired_lease_does_not_end_the_successors(rig: Rig, clock: Clock) -> None:
    with contextlib.ExitStack() as successors:
        with rig.acquire("a", ASLEEP):
            clock.advance(61)
            held = successors.enter_context(rig.acquire("b"))
        held.check(certain=True)


def test_a_renewal_between_reading_and_claiming_wins(transport: LocalTransport, clock: Clock) -> None:
    marker = Marker(transport)
    first = marker.claim(claim_of("first", marker.read()), marker.read())
    clock.advance(61)
    expired = marker.read()
    assert not expired.remaining_s
    marker.renew(first.token)
    beaten = marker.claim(claim_of("second", expired), expired)
    assert beaten.token == first.token and beaten.claim == first.claim


@pytest.mark.slow
def test_a_claim_made_on_an_outdated_state_is_withdrawn(transport: LocalTransport) -> None:
    """It saw token 1; meanwhile others came and went, and their claims were cleared away."""
    marker = Marker(transport)
    old = marker.claim(claim_of("old", marker.read()), marker.read())
    stale = marker.read()
    marker.end(old.token)
    for name in ("next", "last"):
        seen = marker.read()
        last = marker.claim(claim_of(name, seen), seen)
    assert marker.claim(claim_of("stale", stale), stale).claim == last.claim
    assert marker.read().token == last.token


class Unprivileged:
    """Runs programs in a folder whose contents it must not change."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._nobody = folder, 65534 if os.geteuid() == 0 else None

    def run(self, argv: Sequence[str], *_: object) -> CompletedProgram:
        done = subprocess.run(argv, cwd=self._folder, user=self._nobody, capture_output=True, timeout=WAIT_S)
        return CompletedProgram(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """A unit's folder whose marker cannot be written; nobody else may look into the parents of `tmp_path`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / ".lease").mkdir()
        (folder / ".lease").chmod(0o555)
        yield folder


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_not_told_to_be_somebody_elses_unit(unwritable: Path) -> None:
    marker = Marker(Unprivileged(unwritable))  # type: ignore[arg-type]
    seen = marker.read()
    for attempt in (lambda: marker.claim(claim_of("a", seen), seen), lambda: marker.take(claim_of("a", seen), "")):
        with pytest.raises(DeviceError, match=r"lease cannot be kept on the unit: ln: .*Permission denied"):
            attempt()


@pytest.mark.slow
def test_a_unit_that_is_free_is_claimed_and_cleared_by_one_command(rig: Rig, transport: LocalTransport) -> None:
    counted, commands = Faulty(transport), list[Sequence[str]]()
    counted.before = commands.append
    for host in "ab":
        commands.clear()
        with rig.acquire(host, ASLEEP, transport=counted) as held:
            assert len(commands) == 1
            state = Marker(transport).read()
            assert state.token == held.token and state.remaining_s > 50


def test_what_nobody_ended_is_not_taken(transport: LocalTransport, clock: Clock) -> None:
    """An expired lease is for `claim`, which knows its last renewal."""
    marker = Marker(transport)
    first = marker.claim(claim_of("first", marker.read()), marker.read())
    clock.advance(61)
    state, output = marker.take(claim_of("second", NOTHING), "echo cleared")
    assert (state.token, state.claim) == (first.token, first.claim) and not state.remaining_s
    assert "cleared" not in output


@pytest.mark.parametrize("owner", ['a","boot":"","uptime_s":0.0,"', '"boot":"","uptime_s":0.0', "%s $(id) \\n `id`"])
def test_the_unit_completes_any_claim(transport: LocalTransport, owner: str) -> None:
    claim = dataclasses.replace(claim_of("job", NOTHING), owner=owner)
    state, _ = Marker(transport).take(claim, "")
    assert state.claim
    assert (state.claim.owner, state.claim.boot) == (safe_text.word(owner.replace("\\", "/")), state.boot)
    assert 0 < state.claim.uptime_s <= state.uptime_s


def test_a_check_is_free_while_the_lease_is_fresh(rig: Rig) -> None:
    faulty = Faulty(rig.transport)
    with rig.acquire("a", LeaseTerms(), transport=faulty) as held:
        asked: list[Sequence[str]] = []
        faulty.before = asked.append
        for _ in range(100):
            held.check()
        assert not asked
        held.check(certain=True)
        assert len(asked) == 1


def cut(argv: Sequence[str]) -> None:
    raise DeviceLostError("pixel: no route")


@pytest.mark.slow
def test_renewal_survives_a_cut_connection(rig: Rig, clock: Clock) -> None:
    faulty = Faulty(rig.transport)
    with rig.acquire("a", transport=faulty) as held:
        faulty.before = cut
        with pytest.raises(DeviceLostError):
            held.check(certain=True)
        clock.advance(61)
        faulty.before = lambda argv: None
        eventually(lambda: Marker(rig.transport).read().remaining_s > 0)
        held.check(certain=True)
    assert lease.holder(rig.transport) is None


def test_a_check_of_an_unreachable_unit_raises(rig: Rig, clock: Clock) -> None:
    faulty = Faulty(rig.transport)
    with rig.acquire("a", transport=faulty) as held:
        faulty.before = cut
        held.check()
        clock.advance(31)
        with pytest.raises(DeviceLostError):
            held.check()


@pytest.mark.slow
def test_renewal_opens_its_own_connection_again_after_a_failure(rig: Rig, clock: Clock) -> None:
    opened: list[Faulty] = []

    def connect() -> Transport:
        faulty = Faulty(rig.transport)
        if not opened:
            faulty.before = cut
        opened.append(faulty)
        return faulty  # type: ignore[return-value]

    with rig.acquire("a", connect=connect) as held:
        eventually(lambda: len(opened) == 2)
        clock.advance(59)
        eventually(lambda: Marker(rig.transport).read().remaining_s == QUICK.lease_s)
        held.check(certain=True)
    assert len(opened) == 2


@pytest.mark.slow
def test_a_connection_that_comes_after_the_end_renews_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "JOIN_S", 0.1)
    asked, connected, closed = threading.Event(), threading.Event(), threading.Event()

    def connect() -> Transport:
        asked.set()
        connected.wait(WAIT_S)
        faulty = Faulty(rig.transport)
        faulty.close = closed.set  # type: ignore[attr-defined]
        return faulty  # type: ignore[return-value]

    with rig.acquire("a", connect=connect):
        assert asked.wait(WAIT_S)
    connected.set()
    assert closed.wait(WAIT_S)
    assert lease.holder(rig.transport) is None


@pytest.mark.slow
@pytest.mark.parametrize("uptime_s", [9.0, 1010.0])
def test_a_reboot_frees_the_unit_and_tells_the_holder(rig: Rig, clock: Clock, uptime_s: float) -> None:
    with rig.acquire("a", ASLEEP) as held:
        clock.reboot(uptime_s)
        with rig.acquire("b") as successor:
            successor.check(certain=True)
        with pytest.raises(LeaseLostError):
            held.check(certain=True)


def test_a_holder_learns_of_a_reboot(rig: Rig, clock: Clock) -> None:
    with rig.acquire("a", ASLEEP) as held:
        clock.reboot()
        with pytest.raises(LeaseLostError, match="pixel: was rebooted, which ended the lease"):
            held.check(certain=True)


@pytest.mark.slow
def test_a_reboot_is_seen_without_a_boot_id(rig: Rig, clock: Clock, tmp_path: Path) -> None:
    (tmp_path / "boot_id").unlink()
    with rig.acquire("a", ASLEEP):
        with pytest.raises(UnitBusyError), rig.acquire("b"):
            pass
        clock.reboot()
        (tmp_path / "boot_id").unlink()
        with rig.acquire("b") as successor:
            successor.check(certain=True)


@pytest.mark.slow
def test_a_clock_that_is_set_changes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    real_s = time.time()
    with rig.acquire("a") as held:
        for jump_s in (-1e8, 1e8):
            monkeypatch.setattr(time, "time", lambda jump_s=jump_s: real_s + jump_s)
            with pytest.raises(UnitBusyError), rig.acquire("b"):
                pass
            held.check(certain=True)


@pytest.mark.slow
def test_release_frees_what_was_left_and_asks_before_it_ends_a_job(rig: Rig) -> None:
    release = lambda force: lease.release(UNIT, rig.transport, force, locks=rig.folder / "c")  # noqa: E731
    assert release(False) == "pixel: was free"
    with rig.acquire("a") as held:
        with pytest.raises(UnitBusyError, match=r"job of a.*--force"):
            release(False)
        assert "pixel: freed, was held by" in release(True)
        with pytest.raises(LeaseLostError):
            held.check(certain=True)
        with rig.acquire("b") as successor:
            successor.check(certain=True)


# --- what a unit says ----------------------------------------------------------------


@pytest.mark.slow
@given(st.text(max_size=300))
def test_any_claim_text_is_a_claim_or_none(text: str) -> None:
    claim = lease_marker.parse_claim(text)
    assert claim is None or claim.lease_s > 0


@pytest.mark.slow
@given(st.text(max_size=80), st.integers(), st.floats(), st.floats())
def test_no_claim_holds_a_unit_longer_than_the_maximum(owner: str, pid: int, uptime_s: float, lease_s: float) -> None:
    claim = dataclasses.replace(claim_of("x", MarkerState("b", 5.0, 0, None, "")), boot="b")
    text = dataclasses.replace(claim, owner=owner, pid=pid, uptime_s=uptime_s, lease_s=lease_s).text()
    parsed = lease_marker.parse_claim(text)
    seen = MarkerState("b", 5.0, 1, parsed, "nonsense")
    assert 0 <= seen.remaining_s <= lease_marker.MAX_LEASE_S
    assert parsed is None or parsed.owner.isprintable()


@pytest.mark.parametrize("output", ["", "boot=x\nuptime=nan\ntoken=1\n", "boot=x\nuptime=1\ntoken=-1\n", "\x1b[31m"])
def test_a_unit_without_a_clock_is_an_error(output: str) -> None:
    with pytest.raises(DeviceError, match="uptime"):
        lease_marker.parse(output)


@pytest.mark.slow
def test_foreign_and_hostile_files_in_the_folder_are_ignored(rig: Rig) -> None:
    folder = rig.folder / "unit" / ".lease"
    folder.mkdir()
    for name in ("007", "9999999999999999999999", "-rf", "a b", "5", "5.beat", "x\ny"):
        (folder / name).write_text("garbage\x1b[31m")
    (folder / "5.beat").write_bytes(b"\xff\xfe garbage\x1b[31m")
    (folder / "3").symlink_to("{not json")
    with rig.acquire("a") as held:
        assert held.token == 6
        held.check(certain=True)
    with rig.acquire("b") as held:
        assert held.token == 7


def test_a_folder_that_cannot_be_written_is_an_error(transport: LocalTransport, tmp_path: Path) -> None:
    (tmp_path / "unit" / ".lease").write_text("a file")
    with pytest.raises(DeviceError, match="the lease cannot be kept on the unit"):
        Marker(transport).read()


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([f"{step} {who}" for step in ("look", "claim", "take", "renew", "end") for who in "ab"]))
)
def test_in_any_order_of_steps_leases_never_overlap(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    """Two controllers, each of which believes its last answer; the claims that were answered as won never overlap."""
    marker = Marker(LocalTransport(tmp_path_factory.mktemp("unit")))
    known: dict[str, MarkerState] = {}
    holds: dict[str, int] = {}
    count = 0
    for step in steps:
        action, who = step.split()
        if action == "look":
            known[who] = marker.read()
        elif action == "claim" and who in known and not known[who].remaining_s:
            count += 1
            claim = claim_of(f"{who}{count}", known[who])
            if marker.claim(claim, known.pop(who)).claim == claim:
                assert not holds
                holds[who] = marker.read().token
        elif action == "take" and who not in holds:
            count += 1
            state, output = marker.take(claim_of(f"{who}{count}", NOTHING), "echo cleared")
            taken = state.claim is not None and state.claim.job == f"{who}{count}"
            assert taken == (not holds) == ("cleared" in output.splitlines())
            if taken:
                holds[who] = state.token
        elif action == "renew" and who in holds:
            assert marker.renew(holds[who]).token == holds[who]
        elif action == "end" and who in holds:
            marker.end(holds.pop(who))


def test_the_lock_is_identified_by_its_file(tmp_path: Path) -> None:
    with host_lock.try_lock("x", tmp_path) as one, host_lock.try_lock("y", tmp_path) as other:
        assert one and other and one != other
        with host_lock.try_lock("x", tmp_path) as again:
            assert again is None
    with host_lock.try_lock("x", tmp_path) as later:
        assert later == one


def test_the_lock_folder_is_one_that_the_user_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for runtime, folder in ((tmp_path / "run", "run/farm"), (tmp_path / "missing", f"tmp/farm-{os.getuid()}")):
        (tmp_path / "run").mkdir(exist_ok=True)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        with host_lock.try_lock("unit") as lock:
            assert lock and len(list((tmp_path / folder).glob("*.lock"))) == 1


def test_a_lease_is_renewed_on_a_storage_that_is_full(tmp_path: Path) -> None:
    with disk_at(tmp_path / "disk", 1) as disk:
        marker = Marker(LocalTransport(disk))
        token = marker.claim(Claim("me", 1, "job", "nonce", "lock", "", 0.0, 60.0), marker.read()).token
        marker.renew(token)
        fill(disk / "film")
        before = marker.read().heartbeat
        while marker.renew(token).heartbeat == before:
            time.sleep(0.01)
        assert marker.end(token).remaining_s == 0
        assert sorted(path.name for path in (disk / ".lease").iterdir()) == [".room", str(token), f"{token}.beat"]


def test_a_unit_without_room_for_a_claim_says_so(tmp_path: Path) -> None:
    """It is not told that somebody else was faster, for which one would wait."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ln").write_text("#!/bin/sh\necho 'ln: cannot create 1: No space left on device' >&2; exit 1\n")
    (tmp_path / "bin/ln").chmod(0o755)
    unit = LocalTransport(tmp_path / "unit", {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    claim = Claim("me", 1, "job", "nonce", "lock", "", 0.0, 60.0)
    with pytest.raises(DeviceError, match=r"the lease cannot be kept on the unit: ln: .*No space left on device"):
        Marker(unit).take(claim, "")
    with pytest.raises(DeviceError, match=r"the lease cannot be kept on the unit: ln: .*No space left on device"):
        Marker(unit).claim(claim, Marker(unit).read())


def test_a_claim_has_its_room_on_a_storage_that_is_full(tmp_path: Path) -> None:
    claims = (Claim("me", 1, "j" * 200, str(nonce), "lock", "", 0.0, 60.0) for nonce in range(4))
    with disk_at(tmp_path / "disk", 1) as disk:
        marker = Marker(LocalTransport(disk))
        marker.end(marker.take(next(claims), "")[0].token)
        fill(disk / "film")
        for claim in (next(claims), next(claims)):
            state = marker.claim(claim, marker.read())
            assert state.claim and state.claim.nonce == claim.nonce
            assert marker.renew(state.token).heartbeat
            marker.end(state.token)
        (disk / ".lease/.room").unlink()
        fill(disk / "music")
        with pytest.raises(DeviceError, match="No space left on device") as refused:
            marker.claim(next(claims), marker.read())
    assert refused.value.kind == storage.NO_ROOM
