"""The content of a data file, and what it is made of: in memory while it is small. Large constants are made of the
graph's when they are written, or lie in mapped files without a name, so that a plan takes little memory."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator

import numpy as np
from numpy.typing import DTypeLike

from runtime.errors import NoRoomError
from runtime.graph import Array, contiguous_parts
from runtime.plan.container import align

MOST_IN_MEMORY = 32 * 1024**2
SEGMENT = 64 * 1024**2  # of a file of constants
LEAST_KEPT = 1024**2  # bytes of a constant that is worth a place in one


class PackedConstant:
    """A constant as it will lie in memory, which is made of an array of the graph when it is needed."""

    def __init__(self, source: Array, dtype: DTypeLike, slack: int) -> None:
        """`source`: a view of the elements in the order of the memory; `slack`: zeros behind them."""
        self._source, self._dtype, self._slack = source, np.dtype(dtype), slack
        self.nbytes = (source.size + slack) * self._dtype.itemsize

    def parts(self) -> Iterator[Array]:
        """The content in order."""
        yield from contiguous_parts(self._source, self._dtype)
        yield np.zeros(self._slack, self._dtype)

    def sample(self) -> Hashable:
        """What equal ones have in common, and few others."""
        some = self._source[tuple(slice(None, None, max(size - 1, 1)) for size in self._source.shape)]
        return self._source.shape, self._dtype.str, some.tobytes()

    def is_same(self, other: PackedConstant) -> bool:
        """Whether another one of the same sample has the same content."""
        return self._source is other._source or np.array_equal(self._source, other._source)


Constant = Array | PackedConstant


class LaidOutData:
    """The constants of a data file, aligned, one behind the other; packed ones are made at each reading."""

    def __init__(self) -> None:
        self._constants: list[Constant] = []
        self._starts: list[int] = []
        self._size = 0
        self._crc32: int | None = None

    @classmethod
    def beginning_with(cls, data: PlanData) -> LaidOutData:
        """Further constants may follow those of `data`, which stays as it is."""
        made = cls()
        for constant in [np.frombuffer(data, np.uint8)] if isinstance(data, bytes) else data._constants:
            made.append(constant)
        return made

    def append(self, constant: Constant) -> int:
        """Adds to the end; returns where it begins."""
        start = self._size
        self._constants.append(constant)
        self._starts.append(start)
        self._size += align(constant.nbytes)
        return start

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces())

    def __getitem__(self, part: slice) -> bytes:
        """The bytes from part.start to part.stop."""
        first = bisect_right(self._starts, part.start) - 1
        end = bisect_left(self._starts, part.stop)
        found = b"".join(piece for index in range(first, end) for piece in self._pieces_of(index))
        return found[part.start - self._starts[first] : part.stop - self._starts[first]]

    def pieces(self) -> Iterator[bytes | memoryview]:
        """All bytes in order, a little of what has to be copied in memory at a time."""
        checksum = 0
        for index in range(len(self._constants)):
            for piece in self._pieces_of(index):
                checksum = zlib.crc32(piece, checksum)
                yield piece
        self._crc32 = checksum

    def _pieces_of(self, index: int) -> Iterator[bytes | memoryview]:
        constant = self._constants[index]
        yield from (part.data.cast("B") for part in _parts(constant))
        yield bytes(align(constant.nbytes) - constant.nbytes)
        if not isinstance(constant, PackedConstant):
            release_memory(constant)

    @property
    def crc32(self) -> int:
        """The checksum, by the last time that all was read."""
        if self._crc32 is None:
            for _ in self.pieces():
                pass
        assert self._crc32 is not None
        return self._crc32


def _parts(constant: Constant) -> Iterator[Array]:
    if isinstance(constant, PackedConstant):
        return constant.parts()
    return contiguous_parts(constant, constant.dtype)


PlanData = bytes | LaidOutData


class ConstantSpool:
    """Keeps constants until they are read: after the first MOST_IN_MEMORY bytes, large ones lie in mapped files.

    Each file holds several, since a process may have few files open.
    """

    def __init__(self) -> None:
        self._kept = 0
        self._segment: mmap.mmap | None = None
        self._used = 0

    def is_in_memory(self, size: int) -> bool:
        """Whether a further constant of so many bytes stays in memory."""
        return self._kept + size <= MOST_IN_MEMORY or size < LEAST_KEPT

    @contextlib.contextmanager
    def made(self, shape: tuple[int, ...], dtype: DTypeLike) -> Iterator[Array]:
        """Zeros to be written within the context; behind it they may take no memory until they are read.

        Raises NoRoomError on a full disk.
        """
        count = math.prod(shape)
        size = count * np.dtype(dtype).itemsize
        is_kept = self.is_in_memory(size)
        self._kept += size
        if is_kept:
            yield np.zeros(shape, dtype)
            return
        if self._segment is None or self._used + size > len(self._segment):
            self._segment, self._used = _new_segment(max(size, SEGMENT)), 0
        made = np.frombuffer(self._segment, dtype, count, self._used).reshape(shape)
        self._used += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        yield made
        release_memory(made)


def release_memory(content: Array | None) -> None:
    """Lets go of the memory of an array that a ConstantSpool keeps on disk; of any other, does nothing."""
    base: object = content
    while isinstance(base, np.ndarray):
        base = base.base
    segment = base.obj if isinstance(base, memoryview) else base
    if content is not None and isinstance(segment, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = content.ctypes.data - np.frombuffer(segment, np.uint8).ctypes.data
        segment.madvise(mmap.MADV_DONTNEED, start, content.nbytes)


def _new_segment(size: int) -> mmap.mmap:
    """A mapped file of so many bytes that are reserved: a full disk would kill the process later."""
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise _no_room(error) from None


def _no_room(error: OSError) -> NoRoomError:
    where = tempfile.gettempdir()
    return NoRoomError(f"{where}: no room for a plan's weights: {error.strerror}; TMPDIR=DIR names another folder")


def pieces(data: PlanData) -> Iterator[bytes | memoryview]:
    """The content in order."""
    return iter((data,)) if isinstance(data, bytes) else data.pieces()


def crc32_of(data: PlanData) -> int:
    """The checksum of the content."""
    return zlib.crc32(data) if isinstance(data, bytes) else data.crc32
