"""The CPU operators' threads under ThreadSanitizer, stopped where they are, and on one core."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.native import build

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
