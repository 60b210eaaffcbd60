"""A limit for tests of what could otherwise wait for ever."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in the main thread where the block takes longer, inside a system call too."""

    def expired(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
