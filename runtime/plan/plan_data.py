"""The content of a data file: in memory while it is small, else in a file without a name that is mapped, so that a plan
which is kept takes no memory of the process."""

from __future__ import annotations

import mmap
import tempfile
import zlib
from collections.abc import Iterator
from typing import cast

from runtime.errors import NoRoomError

PlanData = bytes | mmap.mmap

MOST_IN_MEMORY = 32 * 1024**2
PIECE = 16 * 1024**2


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
            where = tempfile.gettempdir()
            raise NoRoomError(
                f"{where}: no room for a plan's weights: {error.strerror}; TMPDIR=DIR names another folder"
            ) from None

    def content(self) -> PlanData:
        """All that was added; nothing is added afterwards."""
        size = self._file.seek(0, 2)
        if size <= MOST_IN_MEMORY:
            self._file.seek(0)
            return self._file.read()
        self._file.flush()
        return mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)


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
