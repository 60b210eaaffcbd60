"""Which kernels a run of the CI computes every product of."""

from __future__ import annotations

from tests.exhaustive import FOLDERS, KERNELS, MOST, ROOT, TENTHS, changed_paths, chosen


def test_ten_turns_take_every_kernel_once() -> None:
    taken = [name for turn in range(20_000, 20_000 + TENTHS) for name in chosen([], turn)]
    assert sorted(taken) == sorted(f"{kernel.memory}-{kernel.name}" for kernel in KERNELS)


def test_a_kernel_whose_source_changed_is_taken_at_any_turn() -> None:
    for turn in range(TENTHS):
        found = chosen(["runtime/families/pooling/pool.image.cl", "docs/tour.md"], turn)
        assert set(found) == {*chosen([], turn), "image-pool"}


def test_where_very_many_changed_the_coming_turns_take_the_others() -> None:
    changed = [each.relative_to(ROOT).as_posix() for each in (ROOT / "runtime/families").rglob("*.cl")]
    found = [chosen(changed, turn) for turn in range(TENTHS)]
    assert all(len(names) == MOST for names in found)
    assert all(set(chosen([], turn)) <= set(names) for turn, names in enumerate(found))


def test_changed_paths_are_those_of_kernels() -> None:
    assert all(path.startswith(FOLDERS) for path in changed_paths())
