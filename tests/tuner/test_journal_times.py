"""Times out of journals, as costs: the fastest right candidate by device, and nothing of a file that is no journal."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from runtime.errors import FormatError
from runtime.kernels.spec import variant
from tuner.journal import Journal
from tuner.journal_times import read_times, scale_between
from tuner.trial import Candidate, Trial, TrialStatus

ONE, TWO = Candidate(variant(BLOCK=4), (8, 4, 1)), Candidate(variant(BLOCK=8), (8, 4, 1))
MS = 1e6


def ok(ms: float) -> Trial:
    return Trial(TrialStatus.OK, (ms * MS, ms * MS))


def write(path: Path, device: str, family: str, *trials: tuple[str, Candidate, Trial], retest: bool = False) -> None:
    with Journal(path, device, {"gpu_family": family} if family else {}) as journal:
        for key, candidate, trial in trials:
            journal.add("conv", key, candidate, trial, retest=retest)


def test_the_fastest_right_candidate_of_each_launch_by_device(tmp_path: Path) -> None:
    path = tmp_path / "soc.jsonl"
    wrong = Trial(TrialStatus.WRONG, (1.0,))
    write(path, "a", "mali-bifrost", ("conv|1", ONE, ok(3.0)), ("conv|1", TWO, ok(2.0)), ("conv|2", ONE, wrong))
    write(path, "b", "", ("conv|1", ONE, ok(5.0)))
    a, b = read_times(path)
    assert (a.device, a.gpu_family, a.ms) == ("a", "mali-bifrost", {"conv|1": 2.0, "conv|2": math.inf})
    assert (b.device, b.gpu_family, b.ms) == ("b", "", {"conv|1": 5.0})


def test_a_lucky_trial_does_not_flatter_where_retests_know_better(tmp_path: Path) -> None:
    path = tmp_path / "soc.jsonl"
    write(path, "a", "", ("conv|1", ONE, ok(1.0)))
    write(path, "a", "", ("conv|1", ONE, ok(2.0)), ("conv|1", ONE, ok(2.1)), retest=True)
    assert read_times(path)[0].ms == {"conv|1": 2.0}


def test_no_journal_knows_nothing_and_no_journal_is_refused_by_name(tmp_path: Path) -> None:
    assert read_times(tmp_path / "none.jsonl") == []
    for content in ("rubbish", '{"journal": "farm-tuning", "version": 99}\n'):
        (tmp_path / "x.jsonl").write_text(content)
        with pytest.raises(FormatError, match=r"x\.jsonl: no tuning journal of version 1"):
            read_times(tmp_path / "x.jsonl")
        assert (tmp_path / "x.jsonl").read_text() == content
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError, match="folder: cannot be read"):
        read_times(tmp_path / "folder")


def test_a_torn_line_loses_one_trial(tmp_path: Path) -> None:
    path = tmp_path / "soc.jsonl"
    write(path, "a", "", ("conv|1", ONE, ok(3.0)), ("conv|2", ONE, ok(2.0)))
    path.write_bytes(path.read_bytes()[:-9])
    assert read_times(path)[0].ms == {"conv|1": 3.0}


def test_times_of_another_device_are_scaled_by_what_both_know() -> None:
    assert scale_between({"a": 2.0, "b": 4.0, "c": 60.0}, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 9.0}) == 2.0
    assert scale_between({"a": math.inf}, {"a": 1.0}) == 1.0 == scale_between({}, {"a": 1.0})
