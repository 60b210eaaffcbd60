"""The content of a data file, and what it is made of: in memory while it is small, else in files without a name that
are mapped, so that a plan which is made or kept takes little memory of the process."""

from __future__ import annotations

import mmap
import os
import tempfile
import zlib
from collections.abc import Iterator
from typing import cast

import numpy as np

from runtime.errors import NoRoomError
from runtime.graph import Array

PlanData = bytes | mmap.mmap

MOST_IN_MEMORY = 32 * 1024**2
PIECE = 16 * 1024**2
SEGMENT = 64 * 1024**2  # of a file of constants
LEAST_KEPT = 1024**2  # bytes of a constant that is worth a place in one


class DataSpool:
    """Takes the blobs of a data file one after another; NoRoomError where the folder of temporary files is full.

    A context: what was not asked for by its end is dropped.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MOST_IN_MEMORY)  # noqa: SIM115, the context closes it

    def __enter__(self) -> DataSpool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, content: bytes | memoryview) -> None:
        """Adds to the end."""
        try:
            self._file.write(content)
        except OSError as error:
            raise _no_room(error) from None

    def content(self) -> PlanData:
        """All that was added; nothing is added afterwards."""
        size = self._file.seek(0, 2)
        if size <= MOST_IN_MEMORY:
            self._file.seek(0)
            return self._file.read()
        self._file.flush()
        return mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)


class ConstantSpool:
    """Keeps constants until they are read: after the first MOST_IN_MEMORY bytes, large ones lie in mapped files.

    Each file holds several, since a process may have few files open.
    """

    def __init__(self) -> None:
        self._kept = 0
        self._segment: mmap.mmap | None = None
        self._used = 0

    def keep(self, content: Array) -> Array:
        """The same array, or an equal one that takes no memory until it is read; NoRoomError on a full disk."""
        self._kept += content.nbytes
        if self._kept <= MOST_IN_MEMORY or content.nbytes < LEAST_KEPT:
            return content
        if self._segment is None or self._used + content.nbytes > len(self._segment):
            self._segment, self._used = _new_segment(max(content.nbytes, SEGMENT)), 0
        kept = np.frombuffer(self._segment, content.dtype, content.size, self._used).reshape(content.shape)
        kept[...] = content
        self._used += -(-content.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        release_memory(kept)
        return kept


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
    """The content in order; of a mapped one no more than a piece is in memory at a time."""
    if isinstance(data, bytes):
        yield data
        return
    for start in range(0, len(data), PIECE):
        with memoryview(cast(bytes, data)) as whole, whole[start : start + PIECE] as piece:
            yield piece
        if hasattr(mmap, "MADV_DONTNEED"):
            data.madvise(mmap.MADV_DONTNEED, start, min(PIECE, len(data) - start))


def crc32_of(data: PlanData) -> int:
    """The checksum of the content."""
    checksum = 0
    for piece in pieces(data):
        checksum = zlib.crc32(piece, checksum)
    return checksum
