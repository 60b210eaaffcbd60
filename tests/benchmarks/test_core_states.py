"""The cores' pieces of work are measured on every core, and windows tell the worst of them."""

from __future__ import annotations

import os

import pytest

from benchmarks.core_states import PAUSES, Window, measuring, show_pauses


def test_a_window_tells_the_worst_core() -> None:
    window = Window([(600.0, 600.0), (700.0, 1400.0)])
    assert (window.width(), window.clock()) == (2.0, 700.0)


@pytest.mark.slow
def test_every_core_is_measured() -> None:
    with measuring() as measure:
        for work_us, pause_us in PAUSES:
            medians = measure(work_us, pause_us)
            assert len(medians) == len(os.sched_getaffinity(0))
            assert all(chain_ns > 0 and nops_ns > 0 for chain_ns, nops_ns in medians)


def test_kinds_of_pauses_take_turns_and_shared_cores_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    found = iter([(600.0, 600.0)] * 7 + [(600.0, 1200.0)])
    show_pauses(lambda work_us, pause_us: [next(found)], 2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PAUSES)
    assert "in 0 % of 2 windows" in lines[0]
    assert "in 50 % of 2 windows" in lines[-1]
