"""The content of a large data file lies in a file without a name, and is what it would be in memory."""

from __future__ import annotations

import errno
import mmap
import zlib
from pathlib import Path

import numpy as np
import pytest

from farm.jobs.fleet.plan_files import write_changed
from runtime.errors import NoRoomError
from runtime.lowering.lower import lower
from runtime.plan import plan_data
from runtime.plan.encode import encode_plan
from runtime.plan.plan_data import ConstantSpool, DataSpool, crc32_of, pieces, release_memory
from runtime.target import Target
from tests.runtime.blocked_executor import BlockedExecutor
from tests.runtime.graphs import GraphMaker

BLOBS = [np.random.default_rng(5).bytes(size) for size in (5000, 1, 70_000)]


def mapped(monkeypatch: pytest.MonkeyPatch) -> mmap.mmap:
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    monkeypatch.setattr(plan_data, "PIECE", mmap.ALLOCATIONGRANULARITY)
    with DataSpool() as spool:
        for blob in BLOBS:
            spool.append(blob)
        content = spool.content()
    assert isinstance(content, mmap.mmap)
    return content


def test_a_small_content_is_in_memory() -> None:
    with DataSpool() as spool:
        spool.append(b"abc")
        spool.append(memoryview(b"de"))
        assert spool.content() == b"abcde"


def test_a_large_content_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    content, expected = mapped(monkeypatch), b"".join(BLOBS)
    assert (content[:], len(content), crc32_of(content)) == (expected, len(expected), zlib.crc32(expected))
    assert len(list(pieces(content))) > 1


def test_a_file_is_written_where_it_holds_something_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content, path = mapped(monkeypatch), tmp_path / "net.data"
    write_changed(path, content)
    first = path.stat().st_ino
    write_changed(path, content)
    assert path.read_bytes() == content[:]
    assert path.stat().st_ino == first
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    write_changed(path, content)
    assert path.read_bytes() == content[:]


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


def test_a_full_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    told = "no room for a plan's weights: No space left on device; TMPDIR=DIR names"
    with DataSpool() as spool:
        monkeypatch.setattr(spool._file, "write", full)
        with pytest.raises(NoRoomError, match=told):
            spool.append(b"abc")


def test_a_plan_with_mapped_weights_is_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    maker, target = GraphMaker(seed=5), Target(soc="x", abi="x", memory="cpu")
    graph = maker.finish(maker.conv(maker.conv(maker.input(1, 3, 8, 8), 16), 24))
    in_memory = lower(graph, target)
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    plan = lower(graph, target)
    assert isinstance(plan.data, mmap.mmap)
    assert plan.data[:] == in_memory.data
    assert encode_plan(plan) == encode_plan(in_memory)
    inputs = maker.noise()
    found, expected = (BlockedExecutor(each).run(inputs) for each in (plan, in_memory))
    np.testing.assert_array_equal(found[graph.outputs[0]], expected[graph.outputs[0]])
