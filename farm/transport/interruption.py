"""Interrupts a thread that waits for a unit: another thread asks for it, and the wait ends within a moment."""

import threading

CHECK_EVERY_S = 0.1


class WaitInterrupted(BaseException):
    """Ends what a thread does on a unit. No error of the unit, so that nobody who handles those goes on after it."""


class Interruption:
    """Carries the wish to interrupt one unit's work from any thread to the one that waits for the unit.

    It ends one wait: what is done on the unit afterwards, to leave it tidy, is waited for again.
    """

    def __init__(self) -> None:
        self._is_asked, self._awake = False, threading.Event()

    def ask(self) -> None:
        """Asks for it; the wait that is on, or else the next one, raises WaitInterrupted."""
        self._is_asked = True
        self._awake.set()

    def wake(self) -> None:
        """Ends the sleep that is on, or else the next one, early: what is waited for may be there."""
        self._awake.set()

    def check(self) -> None:
        """Raises WaitInterrupted if it was asked for."""
        if self._is_asked:
            self._is_asked = False
            raise WaitInterrupted

    def sleep(self, seconds: float) -> None:
        """Sleeps; raises WaitInterrupted as soon as it is asked for."""
        self._awake.wait(seconds)
        self._awake.clear()
        self.check()
