import json
import math
from pathlib import Path

import pytest

from runtime.errors import ConfigError, FormatError
from runtime.kernels.spec import variant
from tuner.journal import Journal
from tuner.journal_times import read_times, scale_between
from tuner.trial import Candidate, Trial, TrialStatus

ONE = Candidate(variant(BLOCK=4), (8, 4, 1))
TWO = Candidate(variant(BLOCK=4), (16, 4, 1))
THREE = Candidate(variant(BLOCK=4), (32, 4, 1))
OK = Trial(TrialStatus.OK, (100.0, 110.0), 0.2, 0.1, 1e-6, 2.0, 0, 256, 8)


def write(path: Path, *trials: tuple[Candidate, Trial], fingerprint: str = "f") -> None:
    with Journal(path, fingerprint, {"date": "2026-01-02"}) as journal:
        for candidate, trial in trials:
            journal.add("conv", "key", candidate, trial)


def test_a_reopened_journal_finds_its_trials(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "j.jsonl"
    write(path, (ONE, OK), (TWO, Trial(TrialStatus.WRONG, (5.0,), 0.1, max_abs_error=3.0, reason="error 3")))
    with Journal(path, "f") as journal:
        assert journal.resumed == 2
        assert journal.find("conv", "key", ONE) == OK
        assert journal.find("conv", "key", TWO) == Trial(
            TrialStatus.WRONG, (5.0,), 0.1, max_abs_error=3.0, reason="error 3"
        )
        assert journal.find("conv", "key", THREE) is None
        assert journal.find("conv", "other key", ONE) is None
    assert json.loads(path.read_text().splitlines()[1])["date"] == "2026-01-02"


def test_trials_of_other_fingerprints_stay_in_the_file_but_are_not_found(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(path, (ONE, OK))
    write(path, (TWO, OK), fingerprint="g")
    with Journal(path, "f") as journal:
        assert journal.find("conv", "key", ONE) == OK
        assert journal.find("conv", "key", TWO) is None


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_torn_last_line_is_dropped_and_the_next_trial_is_whole(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j.jsonl"
    write(path, (ONE, OK), (TWO, OK))
    path.write_bytes(path.read_bytes()[:-cut])
    write(path, (THREE, OK))
    with Journal(path, "f") as journal:
        assert journal.find("conv", "key", ONE) == OK
        assert journal.find("conv", "key", THREE) == OK
        assert (journal.find("conv", "key", TWO) is None) == (cut > 1)


@pytest.mark.parametrize(
    "line", ["{}", "[]", "1", '{"fingerprint": "f", "status": "ok"}', '{"status": "fast"}', "\xff"]
)
def test_damaged_lines_are_ignored(tmp_path: Path, line: str) -> None:
    path = tmp_path / "j.jsonl"
    write(path, (ONE, OK))
    with path.open("a") as file:
        file.write(line + "\n")
    with Journal(path, "f") as journal:
        assert journal.resumed == 1


@pytest.mark.parametrize("content", ['{"journal": "farm-tuning", "version": 99}\n', "not ours\n", "{"])
def test_journal_of_another_version_is_set_aside(tmp_path: Path, content: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(content)
    with Journal(path, "f") as journal:
        assert journal.set_aside is not None
        assert journal.set_aside.read_text() == content
        journal.add("conv", "key", ONE, OK)
    with Journal(path, "f") as journal:
        assert journal.set_aside is None
        assert journal.resumed == 1


def test_nan_and_infinity_which_json_lacks_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(path, (ONE, Trial(TrialStatus.WRONG, (1.0, math.nan, math.inf), 0.1, max_abs_error=math.nan)))
    assert "NaN" not in path.read_text()
    with Journal(path, "f") as journal:
        assert journal.find("conv", "key", ONE) == Trial(TrialStatus.WRONG, (1.0,), 0.1)


def test_a_fatal_candidate_is_banned_for_its_kernel_and_two_ban_the_variant(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(path, (ONE, Trial(TrialStatus.CRASH)))
    with Journal(path, "f") as journal:
        assert journal.is_fatal("conv", ONE)
        assert not journal.is_fatal("conv", TWO)
        assert not journal.is_fatal("pool", ONE)
        journal.add("conv", "other", TWO, Trial(TrialStatus.HANG))
        assert journal.is_fatal("conv", THREE)


def test_good_retest_trials_are_written_but_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write(path, (ONE, OK))
    with Journal(path, "f") as journal:
        journal.add("conv", "key", ONE, Trial(TrialStatus.OK, (7.0,)), retest=True)
        journal.add("conv", "key", TWO, Trial(TrialStatus.WRONG, (7.0,)), retest=True)
        assert journal.find("conv", "key", ONE) == OK
    assert len(path.read_text().splitlines()) == 4
    with Journal(path, "f") as journal:
        assert journal.find("conv", "key", ONE) == OK
        assert journal.find("conv", "key", TWO) == Trial(TrialStatus.WRONG, (7.0,))
        assert journal.find("conv", "key", ONE, retest=True) == Trial(TrialStatus.OK, (7.0,))


def test_a_killed_process_loses_no_trial(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", "f")
    journal.add("conv", "key", ONE, OK)
    with Journal(tmp_path / "j.jsonl", "f") as other:
        assert other.find("conv", "key", ONE) == OK, "though the first is not closed"
    journal.close()


def test_ordinary_failures_are_not_fatal() -> None:
    journal = Journal(None, "f")
    journal.add("conv", "key", ONE, Trial(TrialStatus.FAILED))
    assert not journal.is_fatal("conv", ONE)


def test_a_folder_at_the_journals_path_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").mkdir()
    with pytest.raises(ConfigError, match="tuning journal"):
        Journal(tmp_path / "j.jsonl", "f")


def test_a_fresh_search_uses_nothing_but_what_is_dangerous(tmp_path: Path) -> None:
    """What took the runtime down is not tried again, nor is anything deleted."""
    path = tmp_path / "journal"
    good, fatal = Candidate(variant(V=1), (1, 1, 1)), Candidate(variant(V=2), (1, 1, 1))
    with Journal(path, "f") as journal:
        journal.add("k", "key", good, Trial(TrialStatus.OK, ns=(1.0,)))
        journal.add("k", "key", fatal, Trial(TrialStatus.CRASH))
    before = path.read_bytes()
    with Journal(path, "f", fresh=True) as journal:
        assert journal.find("k", "key", good) is None
        assert journal.is_fatal("k", fatal)
        journal.add("k", "key", good, Trial(TrialStatus.OK, ns=(2.0,)))
    assert path.read_bytes().startswith(before)
    with Journal(path, "f") as journal:
        trial = journal.find("k", "key", good)
        assert trial and trial.ns == (2.0,)


OTHER_BLOCK = Candidate(variant(BLOCK=8), (8, 4, 1))
MS = 1e6


def ok(ms: float) -> Trial:
    return Trial(TrialStatus.OK, (ms * MS, ms * MS))


def write_times(
    path: Path, device: str, family: str, *trials: tuple[str, Candidate, Trial], retest: bool = False
) -> None:
    with Journal(path, device, {"gpu_family": family} if family else {}) as journal:
        for key, candidate, trial in trials:
            journal.add("conv", key, candidate, trial, retest=retest)


def test_the_fastest_right_candidate_of_each_launch_by_device(tmp_path: Path) -> None:
    path = tmp_path / "soc.jsonl"
    wrong = Trial(TrialStatus.WRONG, (1.0,))
    write_times(
        path, "a", "mali-bifrost", ("conv|1", ONE, ok(3.0)), ("conv|1", OTHER_BLOCK, ok(2.0)), ("conv|2", ONE, wrong)
    )
    write_times(path, "b", "", ("conv|1", ONE, ok(5.0)))
    a, b = read_times(path)
    assert (a.device, a.gpu_family, a.ms) == ("a", "mali-bifrost", {"conv|1": 2.0, "conv|2": math.inf})
    assert (b.device, b.gpu_family, b.ms) == ("b", "", {"conv|1": 5.0})


def test_a_lucky_trial_does_not_flatter_where_retests_know_better(tmp_path: Path) -> None:
    path = tmp_path / "soc.jsonl"
    write_times(path, "a", "", ("conv|1", ONE, ok(1.0)))
    write_times(path, "a", "", ("conv|1", ONE, ok(2.0)), ("conv|1", ONE, ok(2.1)), retest=True)
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
    write_times(path, "a", "", ("conv|1", ONE, ok(3.0)), ("conv|2", ONE, ok(2.0)))
    path.write_bytes(path.read_bytes()[:-9])
    assert read_times(path)[0].ms == {"conv|1": 3.0}


def test_times_of_another_device_are_scaled_by_what_both_know() -> None:
    assert scale_between({"a": 2.0, "b": 4.0, "c": 60.0}, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 9.0}) == 2.0
    assert scale_between({"a": math.inf}, {"a": 1.0}) == 1.0 == scale_between({}, {"a": 1.0})
