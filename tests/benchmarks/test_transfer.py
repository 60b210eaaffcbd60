"""The transfer benchmark takes every way in turns and compares their medians; ways here only note what they get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.transfer import Load, Timing, measure, table

LOADS = (Load("one", 1, 1000), Load("some", 3, 10))


def test_every_way_gets_new_files_in_turns_and_the_first_round_does_not_count(tmp_path: Path) -> None:
    sent: list[tuple[str, str, list[int]]] = []

    def way(name: str) -> Callable[[Sequence[Path], str], Callable[[], object]]:
        return lambda files, into: lambda: sent.append((name, into, [file.stat().st_size for file in files]))

    timings = measure({"a": way("a"), "b": way("b")}, LOADS, 2, tmp_path)
    assert [name for name, _, sizes in sent if sizes == [1000]] == ["a", "b", "b", "a", "a", "b"]
    assert len({into for _, into, _ in sent}) == len(sent) == 12
    assert [(each.load, each.way, len(each.seconds)) for each in timings] == [
        ("one", "a", 2),
        ("one", "b", 2),
        ("some", "a", 2),
        ("some", "b", 2),
    ]


def test_the_table_compares_medians_with_the_reference() -> None:
    timings = [Timing("one", "scp", [2.0, 9.0, 1.0]), Timing("one", "farm", [4.0, 1.0, 1.0])]
    _, scp, farm = table(timings, LOADS[:1], "scp").splitlines()
    assert scp.split()[2:5] == ["2.000", "s", "1.000-9.000"]
    assert scp.endswith("100%")
    assert farm.endswith("200%")
