"""Waits for a unit that other threads end."""

import threading

import pytest

from farm.transport.interruption import Interruption, WaitInterrupted

LONG_S = 1000.0  # more than any test may take


def test_who_is_woken_sleeps_no_longer_and_then_again() -> None:
    interruption = Interruption()
    interruption.wake()
    interruption.sleep(LONG_S)
    threading.Timer(0.05, interruption.wake).start()
    interruption.sleep(LONG_S)
    interruption.check()


def test_an_interruption_ends_one_sleep() -> None:
    interruption = Interruption()
    for _ in range(2):
        interruption.wake()
        interruption.ask()
        with pytest.raises(WaitInterrupted):
            interruption.sleep(LONG_S)
        interruption.check()
