"""Turns that are kept while a comparison goes on."""

from pathlib import Path

import pytest

from farm.jobs.turn_journal import TurnJournal
from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block
from runtime.errors import JobError


def block(arm: str, time_ms: float) -> Block:
    state = DeviceState()
    return Block(time="", arm=arm, init_ms=1, first_ms=1, samples=(time_ms,), state_before=state, state_after=state)


def journal(folder: Path, key: str = "key", seed: int = 1, count: int = 0) -> TurnJournal:
    """The journal of the file there, with as many turns more."""
    made = TurnJournal(folder / "kept/turns.jsonl", key, seed)
    for number in range(count):
        made.add(block("a", number + 1.0), block("b", number + 2.0))
    return made


def test_turns_come_back_in_order_with_the_seed_of_the_first(tmp_path: Path) -> None:
    blocks = journal(tmp_path, seed=3, count=2).blocks
    again = journal(tmp_path, seed=4, count=1)
    assert (len(again), again.seed, again.blocks[:4]) == (3, 3, blocks)
    assert [each.arm for each in again.blocks] == ["a", "b"] * 3
    assert journal(tmp_path).blocks == again.blocks


def test_another_comparison_begins_anew_and_leaves_the_first_its_turns(tmp_path: Path) -> None:
    journal(tmp_path, count=2)
    assert len(journal(tmp_path, key="other", count=1)) == 1
    assert len(journal(tmp_path)) == 2


def test_a_line_that_is_not_whole_is_measured_again_and_none_after_it_counts(tmp_path: Path) -> None:
    journal(tmp_path, count=3)
    path = tmp_path / "kept/turns.jsonl"
    lines = path.read_bytes().split()
    path.write_bytes(b"\n".join([lines[0], lines[1][:40], lines[2]]))
    again = journal(tmp_path)
    assert len(again) == 1
    again.add(block("a", 7.0), block("b", 8.0))
    path.write_bytes(path.read_bytes() + lines[2][:30])  # killed while it wrote
    assert [each.samples for each in journal(tmp_path).blocks] == [(1.0,), (2.0,), (7.0,), (8.0,)]
    assert len(journal(tmp_path, count=1)) == 3 and len(journal(tmp_path)) == 3


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(JobError, match=r"turns\.jsonl: cannot be written: "):
        journal(tmp_path, count=1)
