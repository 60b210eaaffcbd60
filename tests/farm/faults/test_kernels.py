"""Whole jobs with kernels that a driver does not build, or that never end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farm.emulation import EmulatedPhone
from farm.jobs.tune import trials
from runtime.kernels.source import program_source
from runtime.kernels.spec import Kernel
from runtime.plan import encode
from tests.farm.emulated_units import EmulatedUnits, is_clean

pytestmark = [pytest.mark.slow, pytest.mark.opencl]
ENDLESS = "volatile int still = 1; while (still) { }"


@pytest.fixture
def phone(emulated: EmulatedUnits) -> EmulatedPhone:
    return emulated.phone()


def hang(kernel: Kernel, text: str) -> str:
    """The convolution's variants of one pixel, which are nowhere the default, never end."""
    if kernel.name != "conv2d_planes":
        return text
    head, body, rest = text.rpartition("float act_a, float act_b)\n{\n")
    assert body
    return f"{head}{body}#if PIXELS == 1\n{ENDLESS}\n#endif\n{rest}"


@contextlib.contextmanager
def changed_source(change: Callable[[Kernel, str], str]) -> Iterator[None]:
    """Plans are written with other kernel sources."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "program_source", lambda kernel: change(kernel, program_source(kernel)))
        yield


def hung_candidates(journal: Path) -> list[str]:
    """In the order in which they were tried."""
    trials = [json.loads(line) for line in journal.read_text().splitlines() if '"hang"' in line]
    return [json.dumps([trial["kernel"], trial["key"], trial["variant"], trial["local"]]) for trial in trials]


def test_kernels_that_do_not_build_are_a_row_with_the_compilers_words(
    emulated: EmulatedUnits, phone: EmulatedPhone
) -> None:
    with changed_source(lambda _, text: f"{text}\n#error no such instruction here\n"):
        done = emulated.run()
    assert (done.status, done.row["status"]) == (1, "unsupported"), done
    assert "no such instruction here" in done.row["reason"]
    Path("build/units/mi8/kernels.json").unlink()  # a file of sources that differs does as much, which a patch does not
    again = emulated.run()
    assert (again.status, again.row["status"]) == (0, "ok"), again
    assert is_clean(phone)


def test_a_candidate_that_never_ends_costs_one_trial_and_is_not_tried_again(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "LEAST_TRIAL_DEADLINE_S", 2.0)
    journal = Path("build/tuning/sdm845.jsonl")
    with changed_source(hang):
        done = emulated.tune("--budget", "30")
        assert (done.status, done.row["status"]) == (0, "ok"), done
        assert hung_candidates(journal)
        again = emulated.tune()
    assert (again.status, again.row["status"]) == (0, "ok"), again
    hung = hung_candidates(journal)
    assert len(hung) == len(set(hung))
    assert is_clean(phone)
