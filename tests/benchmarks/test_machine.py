"""The machine is described beside its figures, and the work of other processes is counted."""

from __future__ import annotations

from benchmarks.machine import busy_ticks, machine

STAT = "cpu  100 20 30 5000 400 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def test_the_machine_is_described() -> None:
    found = machine()
    assert found.cores >= 1 and found.memory_bytes > 2**28 and found.cpu


def test_waiting_and_guests_are_not_counted_as_work() -> None:
    assert busy_ticks(STAT) == 100 + 20 + 30 + 6 + 7 + 8
