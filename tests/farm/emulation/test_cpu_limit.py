"""Slow and throttled phones: their processes really get less of the processor."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from farm.emulation.cpu_limit import limit_cpu
from farm.emulation.faults import Fault
from farm.emulation.processes import descendants
from farm.emulation.socs import find_soc
from farm.emulation.state import PhoneState
from farm.emulation.thermal import CLOCK_CAPS
from runtime.errors import ConfigError

PARENT = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True).pid, flush=True)
time.sleep(60)
"""


@contextmanager
def family() -> Iterator[tuple[int, int]]:
    """A process, and its child, which computes in a session of its own."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.pid, int(process.stdout.readline())
    finally:
        for each in psutil.Process(process.pid).children(recursive=True):
            each.kill()
        process.kill()
        process.communicate()


def test_descendants_are_found_beyond_their_session() -> None:
    with family() as (parent, child):
        assert {each.number: each.leader for each in descendants({parent})} == {parent: parent, child: parent}
    assert descendants(()) == []


@pytest.mark.slow
def test_a_slow_phones_processes_get_at_most_their_share() -> None:
    async def hold(child: int) -> float:
        task = asyncio.create_task(limit_cpu(lambda: [child], lambda: 0.25))
        await asyncio.sleep(0.2)
        before, began_s = psutil.Process(child).cpu_times().user, time.monotonic()
        await asyncio.sleep(1.5)
        share = (psutil.Process(child).cpu_times().user - before) / (time.monotonic() - began_s)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return share

    with family() as (_, child):
        assert asyncio.run(hold(child)) < 0.5
        assert psutil.Process(child).status() != psutil.STATUS_STOPPED, "it goes on when nobody holds it any more"


def test_speed_follows_throttling_and_faults(tmp_path: Path) -> None:
    folder, root = tmp_path / "state", tmp_path / "root"
    state = PhoneState(folder, root, find_soc("sdm845"), rooted=False)
    assert state.relative_speed(0.0) == 1.0
    state.apply_fault(Fault.parse("throttle:status=3,for=10s"), 0.0)
    assert state.relative_speed(1.0) == CLOCK_CAPS[3]
    state.reset()
    state.apply_fault(Fault.parse("slow:factor=2,for=10s"), 0.0)
    assert (state.relative_speed(1.0), state.relative_speed(11.0)) == (0.5, 1.0)


@pytest.mark.parametrize("factor", ["0", "0.5", "1000", "nan"])
def test_an_impossible_slowdown_factor_is_refused(factor: str) -> None:
    with pytest.raises(ConfigError, match="factor"):
        Fault.parse(f"slow:factor={factor}")
