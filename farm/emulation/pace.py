"""A phone that lowers its clocks computes less: its processes stand still for a share of every few milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable

RUN_S = 0.002
IDLE_S = 0.05
LOOK_S = 0.05  # how often new processes are looked for


async def keep_pace(processes: Callable[[], Collection[int]], pace: Callable[[], float]) -> None:
    """Lets the processes run for the share `pace` (0 to 1) of the time, until it is cancelled."""
    held: Collection[int] = ()
    looked_s = -LOOK_S
    owed_s = 0.0  # sleeping takes longer than asked for: what was too much is taken off the next pause
    while True:
        share, began_s = pace(), time.monotonic()
        if share >= 1.0:
            await asyncio.sleep(IDLE_S)
            continue
        if began_s - looked_s >= LOOK_S:
            held, looked_s = processes(), began_s
        await asyncio.sleep(RUN_S)
        held_s = time.monotonic()
        owed_s += (held_s - began_s) * (1.0 / share - 1.0)
        if owed_s > 0:
            try:
                _signal(held, signal.SIGSTOP)
                await asyncio.sleep(owed_s)
            finally:
                _signal(held, signal.SIGCONT)
            owed_s -= time.monotonic() - held_s


def _signal(processes: Iterable[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
