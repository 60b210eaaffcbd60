"""The content of a large data file is made when it is read, and is what it would be in memory."""

from __future__ import annotations

import errno
import mmap
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from farm.jobs.fleet.plan_files import write_changed
from runtime.errors import NoRoomError
from runtime.graph import Array, contiguous_parts
from runtime.lowering import assembly
from runtime.lowering.lower import lower
from runtime.plan import plan_data
from runtime.plan.container import align
from runtime.plan.encode import encode_plan
from runtime.plan.plan_data import ConstantSpool, LaidOutData, PackedConstant, crc32_of, pieces, release_memory
from runtime.target import Target
from tests.runtime.graphs import GraphMaker

BLOBS = [np.random.default_rng(5).bytes(size) for size in (5000, 1, 70_000)]


def laid_out() -> tuple[LaidOutData, bytes]:
    """The blobs, one of them made when it is read, and the bytes that they are."""
    data, packed = LaidOutData(), np.frombuffer(BLOBS[0][:4800], np.float32).reshape(40, 30).T
    constants = [PackedConstant(packed, np.float32, 4), *(np.frombuffer(blob, np.uint8) for blob in BLOBS)]
    starts = [data.append(constant) for constant in constants]
    contents = [packed.tobytes() + bytes(16), *BLOBS]
    assert starts == [0, 4864, 9920, 9984]
    return data, b"".join(content.ljust(align(len(content)), b"\0") for content in contents)


def test_constants_lie_one_behind_the_other() -> None:
    data, expected = laid_out()
    assert (bytes(data), len(data), crc32_of(data)) == (expected, len(expected), zlib.crc32(expected))
    assert len(list(pieces(data))) > 4
    for start, stop in (
        (0, 1),
        (0, len(expected)),
        (4864, 9920),
        (70, 9930),
        (len(expected) - 3, len(expected)),
        (5, 5),
    ):
        assert data[start:stop] == expected[start:stop]


def test_a_file_is_written_where_it_holds_something_else(tmp_path: Path) -> None:
    (content, expected), path = laid_out(), tmp_path / "net.data"
    write_changed(path, content)
    first = path.stat().st_ino
    write_changed(path, content)
    assert path.read_bytes() == expected
    assert path.stat().st_ino == first
    path.write_bytes(expected[:-1] + bytes([expected[-1] ^ 1]))
    write_changed(path, content)
    assert path.read_bytes() == expected


def test_packed_constants_are_compared() -> None:
    values = np.random.default_rng(5).standard_normal((40, 30)).astype(np.float32)
    changed = values.copy()
    changed[7, 7] += 1
    first, same, other = (PackedConstant(each, np.float32, 4) for each in (values, values.copy(), changed))
    assert first.sample() == same.sample() == other.sample()
    assert first.is_same(same) and not first.is_same(other)
    assert PackedConstant(values, np.float16, 4).sample() != first.sample()


def test_constants_beyond_the_first_lie_in_files_and_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    monkeypatch.setattr(plan_data, "LEAST_KEPT", 1024)
    monkeypatch.setattr(plan_data, "SEGMENT", 4 * mmap.PAGESIZE)
    spool, drawn = ConstantSpool(), np.random.default_rng(5)
    given = [
        drawn.standard_normal(shape).astype(np.float32) for shape in ((32, 32), (3, 700), (200,), (5000,), (2000,))
    ]
    kept = [spool.keep(array) for array in given]
    assert [array is other for array, other in zip(given, kept, strict=True)] == [True, False, True, False, False]
    for _ in range(2):  # after the memory was let go, too
        for array, other in zip(given, kept, strict=True):
            np.testing.assert_array_equal(array, other)
            release_memory(other)


def test_a_full_folder_of_constants_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    monkeypatch.setattr(plan_data.os, "posix_fallocate", full)
    with pytest.raises(NoRoomError, match="no room for a plan's weights: No space left on device"):
        ConstantSpool().keep(np.zeros(plan_data.LEAST_KEPT, np.uint8))


def test_a_plan_whose_weights_are_packed_later_is_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    maker, target = GraphMaker(seed=5), Target(soc="x", abi="x", memory="cpu")
    graph = maker.finish(maker.conv(maker.conv(maker.input(1, 3, 8, 8), 16), 24))
    in_memory = lower(graph, target)
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 64)
    monkeypatch.setattr(assembly, "MOST_IN_MEMORY", 64)
    monkeypatch.setattr(plan_data, "LEAST_KEPT", 256)
    plan = lower(graph, target)
    assert isinstance(plan.data, LaidOutData)
    assert bytes(plan.data) == in_memory.data
    assert encode_plan(plan) == encode_plan(in_memory)


def test_packing_takes_the_memory_of_one_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    maker, width, layers = GraphMaker(seed=5), 512, 6
    x = maker.input(1, width)
    for _ in range(layers):
        x = maker.add("FullyConnected", x, maker.weights(width, width))
    graph = maker.finish(x)
    for name in [name for name in graph.constants if len(graph.shape(name)) == 2]:  # as the transposed ones of MatMul
        graph.constants[name] = np.asfortranarray(graph.constants[name])
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    monkeypatch.setattr(assembly, "MOST_IN_MEMORY", 4096)
    tracemalloc.start()
    try:
        plan = lower(graph, Target(soc="x", abi="x", memory="cpu"))
        assert sum(map(len, pieces(plan.data))) > layers * width * width * 4
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * width * width * 4


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[None], lambda x: x.reshape(700, 2, 1000).swapaxes(0, 1)])
def test_what_has_to_be_copied_comes_in_parts(view: Callable[[Array], Array]) -> None:
    """So a large constant is written in a little memory."""
    values = (np.arange(2000 * 700, dtype=np.float32) % 999).reshape(2000, 700)
    turned = view(values.T)
    parts = list(contiguous_parts(turned, np.float16))
    assert np.array_equal(np.concatenate([part.reshape(-1) for part in parts]), turned.astype(np.float16).reshape(-1))
    assert len(parts) > 1 and sum(part.nbytes for part in parts) == turned.size * 2
    (whole,) = contiguous_parts(values, np.float32)
    assert np.shares_memory(whole, values)
