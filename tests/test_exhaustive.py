"""Which kernels a run of the CI computes every product of."""

from __future__ import annotations

from tests.exhaustive import FOLDERS, KERNELS, TENTHS, changed_paths, chosen


def test_ten_turns_take_every_kernel_once() -> None:
    taken = [name for turn in range(20_000, 20_000 + TENTHS) for name in chosen([], turn)]
    assert sorted(taken) == sorted(f"{kernel.memory}-{kernel.name}" for kernel in KERNELS)


def test_a_kernel_whose_source_changed_is_taken_at_any_turn() -> None:
    for turn in range(TENTHS):
        found = chosen(["runtime/families/pooling/pool.image.cl", "docs/tour.md"], turn)
        assert set(found) == {*chosen([], turn), "image-pool"}


def test_what_kernels_share_takes_further_tenths() -> None:
    found = chosen(["runtime/kernels/buffer/prelude.cl"], 9)
    assert set(found) == {name for turn in (9, 10, 11) for name in chosen([], turn)}


def test_changed_paths_are_those_of_kernels() -> None:
    assert all(path.startswith(FOLDERS) for path in changed_paths())
