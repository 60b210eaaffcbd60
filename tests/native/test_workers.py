"""The protocol of the CPU operators' threads in every order of its steps, and faults that the model finds."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.native import build
from tests.native.workers_model import ONE, FaultError, Protocol, State, Thread, explore


class EveryThreadAnswers(Protocol):
    """A loop ends when each thread has walked, also one that had no turn."""

    def count_step(self, state: State, index: int, own: Thread) -> State:
        return state._replace(unfinished=self.workers * ONE).move(index, "deal", walked=0)

    def end_step(self, state: State, index: int, own: Thread) -> State:
        return super().end_step(state, index, own).move(index, "take", finished=0)

    def take_step(self, state: State, index: int, own: Thread) -> State:
        return super().take_step(state, index, own._replace(finished=1))

    def tell_step(self, state: State, index: int, own: Thread) -> State:
        return super().tell_step(state, index, own._replace(finished=1))


class LoopIsReadBeforeATurnIsTaken(Protocol):
    def leave_step(self, state: State, index: int, own: Thread) -> State:
        return super().leave_step(state, index, own).move(index, "take", loop=state.loop)

    def _loop_of_turn(self, state: State, own: Thread) -> int:
        return own.loop if own.seen else state.loop  # the owner has seen none


class TurnIsTakenWithoutComparing(Protocol):
    def swap_step(self, state: State, index: int, own: Thread) -> State:
        left = list(state.left)
        left[(index + own.walked) % self.workers] = own.left
        return super().swap_step(state._replace(left=tuple(left)), index, own)


class TurnIsToldBeforeItEnds(Protocol):
    def _taken(self, state: State, index: int, own: Thread) -> State:
        return super()._taken(state._replace(unfinished=state.unfinished - ONE), index, own)

    def end_step(self, state: State, index: int, own: Thread) -> State:
        return super().end_step(state, index, own).move(index, "take", finished=0)


class SleepsWithoutComparing(Protocol):
    def sleep_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "asleep")


class OwnerSleepsUnseen(Protocol):
    def nod_step(self, state: State, index: int, own: Thread) -> State:
        return super().nod_step(state, index, own)._replace(unfinished=state.unfinished)

    def rest_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "resting" if state.unfinished else "nod")


@pytest.mark.parametrize(
    ("workers", "sizes", "may_freeze", "states"),
    [
        (2, (3, 2, 2), False, 10_000),
        (2, (3, 2, 2), True, 10_000),
        (2, (1, 4, 3), True, 10_000),
        pytest.param(3, (3,), True, 50_000, marks=pytest.mark.slow),
        pytest.param(3, (2, 1), False, 400_000, marks=pytest.mark.slow),
    ],
)
def test_every_order_is_right(workers: int, sizes: tuple[int, ...], may_freeze: bool, states: int) -> None:
    """Each turn once, with the data of its loop, all before the owner returns; no thread sleeps for ever."""
    assert explore(Protocol(workers, sizes, may_freeze)) > states


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        (LoopIsReadBeforeATurnIsTaken, "starts twice|writes when that has ended"),
        (TurnIsTakenWithoutComparing, "starts twice"),
        (TurnIsToldBeforeItEnds, "before 1 turns have ended"),
        (SleepsWithoutComparing, "nobody goes on"),
        (OwnerSleepsUnseen, "nobody goes on"),
    ],
)
def test_a_fault_is_found(protocol: type[Protocol], problem: str) -> None:
    with pytest.raises(FaultError, match=problem):
        explore(protocol(2, (3, 2)))


def test_a_thread_that_gets_no_core_would_stop_a_loop_that_each_must_answer() -> None:
    assert explore(EveryThreadAnswers(2, (3, 2))) > 1000
    with pytest.raises(FaultError, match="nobody goes on: resting, frozen"):
        explore(EveryThreadAnswers(2, (3, 2), may_freeze=True))


SOURCES = Path(build.__file__).parent / "src"
NEEDED = ("affinity", "allocation", "clock", "errors", "file", "futex", "thread_times", "topology")
PARTS = ("cpu/workers", *(f"system/{name}" for name in NEEDED))
COMPILER = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", f"-I{SOURCES}"]
SANITIZED = "-fsanitize=thread"
LIMIT_S = 120.0


def compiled(folder: Path, flags: Sequence[str], parts: Sequence[str] = PARTS) -> list[str]:
    """The stress program; under ThreadSanitizer, which needs its addresses where they always are."""
    files = [Path(__file__).with_name("workers_stress.c"), *(SOURCES / f"{name}.c" for name in parts)]
    program = folder / "workers_stress"
    subprocess.run([*COMPILER, *FLAGS, *flags, *map(str, files), "-o", str(program), "-lpthread"], check=True)
    return ["setarch", "-R", str(program)] if SANITIZED in flags else [str(program)]


@pytest.fixture(scope="module")
def stress(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(tmp_path_factory.mktemp("stress"), [])


def printed(command: Sequence[str]) -> int:
    """Runs the program; returns the number that it prints: mostly how often it stopped a thread."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="ziglang has no ThreadSanitizer")
def test_no_race(tmp_path: Path) -> None:
    command = compiled(tmp_path, [SANITIZED])
    for threads in (2, 3, 4, 8):
        assert printed([*command, str(threads), "10000"]) == 0


@pytest.mark.parametrize("threads", [2, 4])
def test_loops_go_on_without_threads_that_get_no_core(stress: list[str], threads: int) -> None:
    assert printed([*stress, str(threads), "200", "held"]) == threads - 1


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_that_stop_for_a_while_in_the_midst(stress: list[str], threads: int) -> None:
    assert printed([*stress, str(threads), "2000", "stalled"]) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("manner", [[], ["stalled"]])
def test_one_core_for_all(stress: list[str], manner: list[str]) -> None:
    core = str(min(os.sched_getaffinity(0)))
    printed(["taskset", "-c", core, *stress, "4", "2000", *manner])


@pytest.mark.parametrize(("lost_us", "least", "most"), [(300, 150, 200), (20_000, 1, 60)])
def test_a_thread_stays_away_only_where_it_lost_its_core_for_long(
    tmp_path: Path, lost_us: int, least: int, most: int
) -> None:
    """A kernel's short tasks take the core dozens of times a second, for some hundred microseconds each."""
    parts = [part for part in PARTS if not part.endswith("thread_times")]
    command = compiled(tmp_path, [f"-DLOST_US={lost_us}"], parts)
    assert least <= printed([*command, "2", "200", "meeting"]) <= most
