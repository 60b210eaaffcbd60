"""Products are divided so that each part is computed once, and all workers have about as much to do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.test_workers import COMPILER, FLAGS, SOURCES

# matrices, pixels, the most and the least of a turn, blocks, a pass, a turn's start, the weight of a pixel
LAYERS = {
    "a MobileNet's 14x14 image to 96 channels": (1, 196, 227, 6, 6, 4, 0, 1),
    "to 576": (1, 196, 384, 6, 36, 4, 0, 1),
    "its 7x7 image to 160": (1, 49, 136, 6, 10, 4, 0, 1),
    "a ResNet's 14x14 image of 1024 channels": (1, 196, 128, 6, 16, 4, 0, 1),
    "Winograd's tiles of a 56x56 image": (1, 196, 48, 6, 4, 4, 3, 1),
    "a transformer's 128 rows": (1, 128, 96, 6, 16, 4, 0, 8),
    "and 197": (1, 197, 108, 6, 36, 4, 0, 8),
    "to 80": (1, 196, 273, 6, 5, 4, 0, 1),
    "three images": (3, 49, 384, 6, 8, 4, 0, 1),
}
ODD = [(1, 1, 12, 6, 1, 4, 0, 1), (2, 5, 12, 6, 3, 4, 3, 1), (1, 1000, 12, 6, 1, 2, 0, 1), (7, 13, 2, 2, 5, 1, 0, 1)]
LARGEST_SHARE = 1.12  # of a worker, over an even one

Ranges = list[tuple[int, ...]]
Divide = Callable[..., Ranges]


@pytest.fixture(scope="module")
def divide(tmp_path_factory: pytest.TempPathFactory) -> Divide:
    program = tmp_path_factory.mktemp("division") / "division"
    files = [str(Path(__file__).with_name("division.c")), str(SOURCES / "cpu" / "cpu_division.c")]
    subprocess.run([*COMPILER, *FLAGS, *files, "-o", str(program)], check=True)

    def run(*values: int) -> Ranges:
        done = subprocess.run([str(program), *map(str, values)], capture_output=True, text=True, check=True)
        return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]

    return run


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("work", [*ODD, *LAYERS.values()])
def test_each_part_is_computed_once(divide: Divide, work: tuple[int, ...], workers: int) -> None:
    matrices, pixels, most, _, blocks, *_ = work
    ranges = divide(*work, workers)
    assert all(first < end <= first + most for _, first, end, _, _ in ranges)
    parts = [
        (matrix, pixel, block)
        for matrix, first, end, first_block, end_block in ranges
        for pixel in range(first, end)
        for block in range(first_block, end_block)
    ]
    assert sorted(parts) == [(m, p, b) for m in range(matrices) for p in range(pixels) for b in range(blocks)]


@pytest.mark.parametrize("name", LAYERS)
def test_two_workers_have_as_much_to_do(divide: Divide, name: str) -> None:
    """Each runs half of the turns, as workers.c deals them."""
    ranges = divide(*LAYERS[name], 2)
    works = [(end - first) * (end_block - first_block) for _, first, end, first_block, end_block in ranges]
    half = len(works) // 2
    assert len(works) >= 4
    assert max(sum(works[:half]), sum(works[half:])) <= LARGEST_SHARE * sum(works) / 2


def test_workers_keep_their_part_of_a_large_image_and_share_that_of_a_small_one(divide: Divide) -> None:
    large, small = divide(1, 784, 384, 6, 4, 4, 0, 1, 2), divide(1, 49, 136, 6, 20, 4, 0, 1, 2)
    assert all(end <= 392 for _, _, end, _, _ in large[: len(large) // 2])
    assert {(first, end) for _, first, end, _, _ in small} == {(0, 49)}


def test_one_worker_takes_as_many_pixels_as_its_cache_holds(divide: Divide) -> None:
    assert divide(1, 100, 48, 6, 9, 4, 0, 1, 1) == [(0, 0, 33, 0, 9), (0, 33, 66, 0, 9), (0, 66, 100, 0, 9)]
