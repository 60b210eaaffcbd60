"""Limits the processor time of an emulated phone's processes, as low clocks do: stops them every few milliseconds."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable

RUN_S = 0.002
IDLE_S = 0.05
LIST_PROCESSES_S = 0.05  # how often new processes are looked for


async def limit_cpu(processes: Callable[[], Collection[int]], share_now: Callable[[], float]) -> None:
    """Lets the processes run for a share of the time, until it is cancelled; `share_now` gives the share, 0 to 1."""
    limited: Collection[int] = ()
    listed_s = -LIST_PROCESSES_S
    pause_s = 0.0  # sleeping takes longer than asked for: what was too much is taken off the next pause
    while True:
        share, began_s = share_now(), time.monotonic()
        if share >= 1.0:
            await asyncio.sleep(IDLE_S)
            continue
        if began_s - listed_s >= LIST_PROCESSES_S:
            limited, listed_s = processes(), began_s
        await asyncio.sleep(RUN_S)
        stopped_s = time.monotonic()
        pause_s += (stopped_s - began_s) * (1.0 / share - 1.0)
        if pause_s > 0:
            try:
                _signal(limited, signal.SIGSTOP)
                await asyncio.sleep(pause_s)
            finally:
                _signal(limited, signal.SIGCONT)
            pause_s -= time.monotonic() - stopped_s


def _signal(processes: Iterable[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
