"""Work on very many values in all cores, by processes that know all that this one knows."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")
AT_A_TIME = 16


def each_result(
    function: Callable[[Argument], Result], arguments: Iterable[Argument], count: int, least: int
) -> Iterator[Result]:
    """A function's result of each argument, in order; in several processes where there are at least so many.

    Processes are forked, which is safe only while no other thread runs in this one: else it does all by itself.
    """
    processes = len(os.sched_getaffinity(0))
    if count < least or processes == 1 or threading.active_count() > 1:
        yield from map(function, arguments)
        return
    gc.freeze()  # what is known already is not looked through again and again, nor copied by that
    try:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
            yield from pool.map(function, arguments, chunksize=AT_A_TIME)
    finally:
        gc.unfreeze()
