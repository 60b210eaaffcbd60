"""Work on very many values in all cores, by processes that know all that this one knows."""

import collections
import contextlib
import gc
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")
AT_A_TIME = 16
COLLECTED_AFTER = 30_000  # objects, where Python's 700 has it look for cycles in what is about to be freed anyway
AHEAD = 16  # times as many for each process are worked on or wait to be fetched, so that memory stays bounded


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
    with _rare_collections(), ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        yield from _in_processes(pool, function, arguments, AHEAD * processes)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Here and in processes forked meanwhile: what is known is not looked through again, nor copied by that."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _in_processes(
    pool: Executor, function: Callable[[Argument], Result], arguments: Iterable[Argument], ahead: int
) -> Iterator[Result]:
    waiting: collections.deque[Future[list[Result]]] = collections.deque()
    left = iter(arguments)
    while some := list(itertools.islice(left, AT_A_TIME)):
        waiting.append(pool.submit(_results, function, some))
        if len(waiting) >= ahead:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


def _results(function: Callable[[Argument], Result], arguments: Sequence[Argument]) -> list[Result]:
    return list(map(function, arguments))
