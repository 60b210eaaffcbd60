"""Threads and the CPUs that they run on: chosen by policy or list, refused in one line, and as the kernel says."""

import hashlib
import os
import platform
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import opencl
from tests.native.farmrt import Farmrt
from tests.native.test_serve import COUNT, scale_plan
from tests.native.test_workers import COMPILER, FLAGS, NEEDED, SOURCES

# A shell in a namespace of its own shows farmrt two CPUs with frequencies, of which only the named ones are online.
OTHER_CPUS = """
mount -t tmpfs none /sys/devices/system/cpu && cd /sys/devices/system/cpu && mkdir -p cpu0/cpufreq cpu1/cpufreq &&
echo 0-1 > possible && echo "$1" > online &&
echo 1800000 > cpu0/cpufreq/cpuinfo_max_freq && echo 2800000 > cpu1/cpufreq/cpuinfo_max_freq && exec "$2" serve
"""
UNSHARE = ["unshare", "--mount", "sh", "-c"]
ALLOWED = sorted(os.sched_getaffinity(0))
ONE = str(ALLOWED[-1])
POCL = next((driver for driver in opencl.WORKING if driver.name == "PoCL"), None)


def lists_of(process: int) -> dict[int, str]:
    """What /proc says that each thread of a process may run on."""
    found = {}
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        (line,) = re.findall(r"^Cpus_allowed_list:\s*(\S+)$", status.read_text(), re.MULTILINE)
        found[int(status.parent.name)] = line
    return found


def loaded(farmrt: Farmrt, **options: Any) -> dict[str, Any]:
    """The answer to a load of a plan with CPU steps, with its input set."""
    answer = farmrt.load(scale_plan(repeat=50), **options)
    if answer["ok"]:
        farmrt.input("in put", np.zeros(COUNT, np.float32))
    return answer


@pytest.mark.slow
def test_a_list_is_in_force_on_every_thread_while_it_runs(cpu: Farmrt) -> None:
    """Seen from outside during a run, and told by farmrt itself."""
    assert loaded(cpu, affinity=ONE)["cpu"] | {"isa": ""} == {"threads": 1, "isa": "", "cores": ONE}
    before = lists_of(cpu.process.pid)[cpu.process.pid]
    seen: set[str] = set()

    def look() -> None:
        end = time.monotonic() + 20
        while not seen and time.monotonic() < end:
            seen.update({lists_of(cpu.process.pid)[cpu.process.pid]} & {ONE})

    watcher = threading.Thread(target=look)
    watcher.start()
    assert cpu.done("run", rounds=20_000)["worker_cores"] == [ONE]
    watcher.join()
    assert seen == {ONE}
    assert lists_of(cpu.process.pid)[cpu.process.pid] == before


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")
def test_worker_threads_stay_on_their_cpus(cpu: Farmrt) -> None:
    both = ",".join(map(str, ALLOWED[:2]))
    written = f"{ALLOWED[0]}-{ALLOWED[1]}" if ALLOWED[1] == ALLOWED[0] + 1 else both
    answer = loaded(cpu, affinity=both, threads=2)
    assert (answer["cpu"]["threads"], answer["cpu"]["cores"]) == (2, written)
    assert cpu.done("run")["worker_cores"] == [written, written]
    others = {thread: text for thread, text in lists_of(cpu.process.pid).items() if thread != cpu.process.pid}
    assert list(others.values()).count(written) >= 1


@pytest.mark.opencl
@pytest.mark.skipif(POCL is None or len(ALLOWED) < 2, reason="needs PoCL and two CPUs")
@pytest.mark.parametrize(
    ("words", "variables", "pinned"),
    [
        ([], {}, list(range(os.cpu_count() or 0)) == ALLOWED),
        ([], {"POCL_AFFINITY": "0"}, False),
        ([], {"POCL_MAX_PTHREAD_COUNT": "2"}, False),  # so that processes of one thread do not meet on CPU 0
        (["taskset", "-c", ONE], {}, False),
    ],
)
def test_threads_of_pocl_have_a_cpu_each_where_all_are_theirs(
    farmrt_program: Path, tmp_path: Path, words: list[str], variables: dict[str, str], pinned: bool
) -> None:
    assert POCL
    with Farmrt([*words, str(farmrt_program)], tmp_path, variables=variables) as farmrt:
        assert farmrt.done("probe", opencl=str(POCL.path))["opencl"]["device"]
        lists = list(lists_of(farmrt.process.pid).values())
    assert set(map(str, ALLOWED)) <= set(lists) if pinned else len(set(lists)) == 1


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or list(range(os.cpu_count() or 0)) != ALLOWED, reason="needs all CPUs"
)
def test_threads_of_drivers_look_on_before_they_sleep(tmp_path: Path) -> None:
    """Not the first one, nor where the user says how many threads PoCL has."""
    program = tmp_path / "wait"
    parts = ["serve/pocl_threads", *(f"system/{name}" for name in NEEDED)]
    files = [Path(__file__).with_name("pocl_threads_wait.c"), *(SOURCES / f"{part}.c" for part in parts)]
    subprocess.run([*COMPILER, *FLAGS, *map(str, files), "-o", str(program), "-lpthread"], check=True)

    def waits(**variables: str) -> list[int]:
        words = subprocess.check_output([program], text=True, env={"PATH": os.environ["PATH"], **variables}).split()
        return list(map(int, words))

    second, first, ran_ms = waits()
    assert second > 5, "returns without a signal"
    assert first == 1
    assert ran_ms < 50, "sleeps most of the time"
    for variables in ({"POCL_MAX_PTHREAD_COUNT": "2"}, {"POCL_AFFINITY": "0"}):
        assert waits(**variables)[:2] == [1, 1]


def test_without_a_policy_threads_are_left_where_they_are(cpu: Farmrt) -> None:
    answer = loaded(cpu, threads=3)
    here = lists_of(os.getpid())[os.getpid()]
    assert answer["cpu"]["threads"] == 3
    assert cpu.done("run")["worker_cores"] == [here] * 3


@pytest.mark.parametrize("policy", ["big", "little"])
def test_a_policy_takes_cpus_that_are_allowed(cpu: Farmrt, policy: str) -> None:
    cores = loaded(cpu, affinity=policy)["cpu"]["cores"]
    assert cpu.done("run")["worker_cores"][0] == cores


def test_more_threads_than_cpus(cpu: Farmrt) -> None:
    answer = loaded(cpu, affinity=ONE, threads=3)
    assert answer["error"] == "unsupported"
    assert answer["message"] == f"affinity: 3 threads do not fit on CPUs {ONE}; ask for at most 1"


def test_a_cpu_that_does_not_exist(cpu: Farmrt) -> None:
    answer = loaded(cpu, affinity="0,900")
    assert answer["error"] == "unsupported"
    assert re.fullmatch(r"affinity: CPU 900 does not exist; there are 0(-\d+)?", answer["message"])


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")
def test_a_cpu_that_is_not_allowed(farmrt_program: Path, tmp_path: Path) -> None:
    taskset = ["taskset", "-c", ONE, str(farmrt_program)]
    with Farmrt(taskset, tmp_path, variables={"FARM_OPENCL": "/nonexistent"}) as farmrt:
        answer = loaded(farmrt, affinity=str(ALLOWED[0]))
    assert answer["error"] == "unsupported"
    text = f"CPU {ALLOWED[0]} is not allowed to this process; its cpuset and mask allow {ONE}"
    assert answer["message"] == f"affinity: {text}"


@pytest.mark.parametrize("text", ["0-", "3-1", "0,,1", "0,x", "0;1", "99999999999999999999"])
def test_what_is_no_list(cpu: Farmrt, text: str) -> None:
    answer = loaded(cpu, affinity=text)
    assert answer["error"] == "bad_command"
    assert answer["message"].endswith("is no list of CPUs, as 4-7 or 0,2 are")


def can_unshare() -> bool:
    """Whether this user may show a process another /sys."""
    words = [*UNSHARE, "mount -t tmpfs none /sys/devices/system/cpu"]
    return bool(shutil.which("unshare")) and subprocess.run(words, capture_output=True).returncode == 0


needs_other_cpus = pytest.mark.skipif(
    ALLOWED[:2] != [0, 1] or not can_unshare(), reason="needs CPUs 0 and 1, and to be root"
)


def on_other_cpus(program: Path, folder: Path, online: str) -> Farmrt:
    """farmrt on a little CPU 0 and a big CPU 1."""
    words = [*UNSHARE, OTHER_CPUS, "sh", online, str(program)]
    return Farmrt(words, folder, variables={"FARM_OPENCL": "/nonexistent"})


@needs_other_cpus
def test_big_little_and_offline_cpus(farmrt_program: Path, tmp_path: Path) -> None:
    with on_other_cpus(farmrt_program, tmp_path, "0-1") as farmrt:
        for policy, core in (("big", "1"), ("little", "0")):
            for asked in (0, 2):  # a policy is a wish: threads that have no core are left out
                answer = loaded(farmrt, affinity=policy, threads=asked)["cpu"]
                assert answer | {"isa": ""} == {"threads": 1, "isa": "", "cores": core}
            assert farmrt.done("run")["worker_cores"] == [core]
    with on_other_cpus(farmrt_program, tmp_path, "1") as farmrt:
        assert loaded(farmrt, affinity="0")["message"] == "affinity: CPU 0 is offline; online are 1"


@needs_other_cpus
def test_all_cores_are_used_where_the_system_refuses_to_tell_them(farmrt_program: Path, tmp_path: Path) -> None:
    """As phones do whose SELinux keeps sysfs to itself; a policy then has all cores."""
    words = [*UNSHARE, 'mount -t tmpfs none /sys/devices/system/cpu && exec "$1" serve', "sh", str(farmrt_program)]
    with Farmrt(words, tmp_path, variables={"FARM_OPENCL": "/nonexistent"}) as farmrt:
        assert farmrt.done("probe")["cpu"]["cores"] == ALLOWED[-1] + 1
        for policy in ({}, {"affinity": "big"}, {"affinity": "little"}):
            assert loaded(farmrt, **policy)["cpu"]["threads"] == len(ALLOWED)


@pytest.fixture(scope="module")
def policy_cores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that chooses among CPUs with given frequencies."""
    program = tmp_path_factory.mktemp("policy") / "policy_cores"
    parts = [SOURCES / "system" / f"{name}.c" for name in ("affinity", "allocation", "errors", "file")]
    files = [Path(__file__).with_name("policy_cores.c"), *parts]
    subprocess.run([*COMPILER, *FLAGS, *map(str, files), "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize(
    ("mhz", "big", "little"),
    [
        ([1785] * 4 + [2419] * 3 + [2841], "4-7 4", "0-3 4"),  # one prime core: the others are big too
        ([1800] * 4 + [2800] * 4, "4-7 4", "0-3 4"),
        ([2000] * 6 + [2800] * 2, "6-7 2", "0-5 4"),  # four threads ask for more than there are
        ([0, 2100, 1800, 0], "1 1", "0,2-3 3"),
        ([2000] * 4, "0-3 4", "0-3 4"),
        ([0, 0], "0-1 2", "0-1 2"),
    ],
)
def test_big_is_at_or_above_the_mean(policy_cores: Path, mhz: Sequence[int], big: str, little: str) -> None:
    frequencies = [str(1000 * each) for each in mhz]
    for policy, cores in (("1", big), ("2", little)):
        assert subprocess.check_output([policy_cores, policy, *frequencies], text=True) == cores


def started(program: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [program, "arriving", *words], stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, text=True, bufsize=1
    )


def test_files_are_hashed_while_they_grow(farmrt_program: Path, tmp_path: Path) -> None:
    contents = {"large": os.urandom(700_001), "empty": b"", "pro gram": b"#!/bin/sh\n"}
    words = [word for name, content in contents.items() for word in (str(len(content)), name)]
    with started(farmrt_program, tmp_path, *words) as process:
        for name, content in contents.items():
            with (tmp_path / name).open("wb", buffering=0) as file:
                for start in range(0, len(content), 200_000):
                    file.write(content[start : start + 200_000])
                    time.sleep(0.01)
        (tmp_path / "pro gram").chmod(0o755)
        answer, errors = process.communicate("sent\n")
    modes = {"large": "-", "empty": "-", "pro gram": "x"}
    expected = [f"file {modes[name]} {hashlib.sha256(content).hexdigest()}" for name, content in contents.items()]
    assert (answer.splitlines(), errors, process.returncode) == (expected, "", 0)


def test_all_files_are_told_of_in_one_write(farmrt_program: Path, tmp_path: Path) -> None:
    names = [f"file{number}" for number in range(9)]
    for name in names:
        (tmp_path / name).write_text(name)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # keeps writes apart
    with ours, theirs:
        words = [word for name in names for word in (str(len(name)), name)]
        command = [farmrt_program, "arriving", *words]
        subprocess.run(command, input=b"sent\n", stdout=theirs, cwd=tmp_path, check=True)
        ours.setblocking(False)
        answer = ours.recv(65536).decode().splitlines()
        with pytest.raises(BlockingIOError):
            ours.recv(65536)
    assert answer == [f"file - {hashlib.sha256(name.encode()).hexdigest()}" for name in names]


def test_what_follows_the_line_is_left_for_others(farmrt_program: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    script = '"$1" arriving 1 a; cat'
    done = subprocess.run(
        ["sh", "-c", script, "sh", farmrt_program], input="sent\nnext\n", capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == f"file - {hashlib.sha256(b'x').hexdigest()}\nnext\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["9", "three"], "three: has another size"),
        (["2", "three"], "three: has another size"),
        (["1", "gone"], "gone: No such file or directory"),
        (["1", "."], ".: Is a directory"),
    ],
)
def test_files_that_are_not_whole_are_named(farmrt_program: Path, tmp_path: Path, words: list[str], error: str) -> None:
    (tmp_path / "three").write_bytes(b"abc")
    with started(farmrt_program, tmp_path, *words) as process:
        assert process.communicate("sent\n") == ("", f"farmrt: {error}\n")
    assert process.returncode == 1


def test_a_sender_that_goes_away_ends_the_wait(farmrt_program: Path, tmp_path: Path) -> None:
    with started(farmrt_program, tmp_path, "9", "never") as process:
        assert process.communicate("", timeout=30)[0] == ""
    assert process.returncode == 1


@pytest.mark.parametrize("words", [[], ["1"], ["1", "a", "2"], ["-1", "a"], ["x", "a"], ["1x", "a"], ["", "a"]])
def test_words_that_are_no_pairs_are_refused(farmrt_program: Path, words: list[str]) -> None:
    done = subprocess.run([farmrt_program, "arriving", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: farmrt probe" in done.stderr
