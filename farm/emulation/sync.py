"""The phone's service `sync:` copies files both ways and lists attributes and folders, in both request versions.

A request is four letters, a length and a path; numbers are little-endian. Version 2 tells more of a file (64-bit sizes,
an error number) and takes flags; compression is not offered.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from farm.emulation.faults import Fault, FaultMonitor
from farm.emulation.filesystem import map_path
from farm.emulation.streams import AdbStream, StreamClosed

WORD = struct.Struct("<4sI")
STAT = struct.Struct("<4s3I")  # mode, size, modification time
STAT2 = struct.Struct("<4sIQQIIIIQqqq")  # error, device, inode, mode, links, user, group, size, three times
FLAGS = struct.Struct("<4sII")  # of SND2: mode, flags
FLAGS_RECEIVE = struct.Struct("<4sI")
ENTRY_END = struct.Struct("<I")  # length of the name that follows
DATA_BYTES = 64 * 1024
MAX_PATH_BYTES = 1024
MAX_SIZE = 2**32 - 1
SHELL_ID = 2000

MonitorTransfer = Callable[[str, str, Callable[[Fault], None]], FaultMonitor]


class SyncError(Exception):
    """An error whose text is sent to the peer with FAIL."""


class SyncService:
    """Serves one stream of requests.

    Args:
        root: the phone's private folder.
        monitor_transfer: starts monitoring a request for faults.
        free_bytes: tells how many bytes can still be written; None without a limit.
        modern: whether version 2 of the requests is known.
    """

    def __init__(
        self, root: Path, monitor_transfer: MonitorTransfer, free_bytes: Callable[[], int | None], modern: bool = True
    ) -> None:
        self._root, self._monitor_transfer, self._free_bytes, self._modern = root, monitor_transfer, free_bytes, modern

    async def serve(self, stream: AdbStream) -> None:
        """Answers requests until QUIT, the stream's end or a failed request, after which adb opens a new stream."""
        try:
            while await self._answer(stream):
                pass
        except SyncError as error:
            await _fail(stream, str(error))
        except OSError as error:
            await _fail(stream, (error.strerror or str(error)))

    async def _answer(self, stream: AdbStream) -> bool:
        request, size = WORD.unpack(await stream.read_exactly(WORD.size))
        if request == b"QUIT":
            return False
        if size > MAX_PATH_BYTES:
            raise SyncError("path too long")
        path = os.fsdecode(await stream.read_exactly(size))
        if request in (b"SND2", b"RCV2", b"STA2", b"LST2", b"LIS2") and not self._modern:
            raise SyncError("unknown request")
        match request:
            case b"SEND" | b"SND2":
                await self._receive_file(stream, path, request)
            case b"RECV" | b"RCV2":
                await self._send_file(stream, path, request)
            case b"STAT" | b"STA2" | b"LST2":
                await self._send_attributes(stream, path, request)
            case b"LIST" | b"LIS2":
                await self._list(stream, path, request)
            case _:
                raise SyncError("unknown request")
        return True

    async def _receive_file(self, stream: AdbStream, path: str, request: bytes) -> None:
        if request == b"SND2":
            _, mode, flags = FLAGS.unpack(await stream.read_exactly(FLAGS.size))
            _refuse_flags(flags)
        else:
            path, _, digits = path.rpartition(",")
            mode = int(digits) if digits.isdigit() else 0o644
        incoming = _IncomingFile(stream)
        try:
            with self._monitor_transfer("push", path, _ignore_fault) as monitor:
                await self._store(incoming, map_path(path, self._root), mode, path.endswith("/"), monitor)
        except OSError as error:
            await _fail(stream, error.strerror or str(error))
            with contextlib.suppress(StreamClosed, SyncError):
                while await incoming.next():  # until the peer has noticed
                    pass
            raise StreamClosed("failed") from error
        await stream.write(WORD.pack(b"OKAY", 0))

    async def _store(
        self, incoming: _IncomingFile, target: Path, mode: int, is_folder: bool, monitor: FaultMonitor
    ) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_folder or target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target.unlink(missing_ok=True)
        if stat.S_ISLNK(mode):
            target.symlink_to(os.fsdecode((await incoming.next()).rstrip(b"\0")))
            await incoming.next()
            return
        try:
            with target.open("wb") as file:
                await self._fill(file, incoming, monitor)
        except (OSError, StreamClosed):  # while a link that breaks leaves what arrived
            target.unlink(missing_ok=True)
            raise
        target.chmod(_mode_for_all(mode))
        os.utime(target, (incoming.modified_s, incoming.modified_s))

    async def _fill(self, file: BinaryIO, incoming: _IncomingFile, monitor: FaultMonitor) -> None:
        free_bytes = self._free_bytes()
        while data := await incoming.next():
            written = monitor.transform(data)
            if free_bytes is not None:
                free_bytes -= len(written)
                if free_bytes < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            file.write(written)

    async def _send_file(self, stream: AdbStream, path: str, request: bytes) -> None:
        if request == b"RCV2":
            _, flags = FLAGS_RECEIVE.unpack(await stream.read_exactly(FLAGS_RECEIVE.size))
            _refuse_flags(flags)
        with (
            map_path(path, self._root).open("rb") as file,
            self._monitor_transfer("pull", path, _ignore_fault) as monitor,
        ):
            while chunk := file.read(stream.payload_bytes // (DATA_BYTES + WORD.size) * DATA_BYTES or DATA_BYTES):
                await stream.write(_framed(monitor.transform(chunk)))
        await stream.write(WORD.pack(b"DONE", 0))

    async def _send_attributes(self, stream: AdbStream, path: str, request: bytes) -> None:
        with self._monitor_transfer("stat", path, _ignore_fault):
            await stream.write(_packed_attributes(request, map_path(path, self._root), follow=request == b"STA2"))

    async def _list(self, stream: AdbStream, folder_path: str, request: bytes) -> None:
        kind, layout = (b"DNT2", STAT2) if request == b"LIS2" else (b"DENT", STAT)
        folder = map_path(folder_path, self._root)
        with self._monitor_transfer("list", folder_path, _ignore_fault), contextlib.suppress(OSError):
            for path in sorted(folder.iterdir()):
                name = os.fsencode(path.name)
                await stream.write(_packed_attributes(kind, path, follow=False) + ENTRY_END.pack(len(name)) + name)
        await stream.write(b"DONE" + bytes(layout.size - 4 + ENTRY_END.size))


class _IncomingFile:
    """A file that the peer sends: DATA packets, then DONE with the modification time."""

    def __init__(self, stream: AdbStream) -> None:
        self._stream = stream
        self.modified_s = 0

    async def next(self) -> bytes:
        """Reads the next piece; empty after the last."""
        while True:
            kind, size = WORD.unpack(await self._stream.read_exactly(WORD.size))
            if kind == b"DONE":
                self.modified_s = size
                return b""
            if kind != b"DATA" or size > DATA_BYTES:
                raise SyncError(f"{kind.decode(errors='replace')} of {size} bytes while a file was expected")
            if size:
                return await self._stream.read_exactly(size)


def _packed_attributes(kind: bytes, path: Path, follow: bool) -> bytes:
    """Packs a file's attributes in the layout of that kind of answer."""
    version_2 = kind in (b"STA2", b"LST2", b"DNT2")
    try:
        status = path.stat() if follow else path.lstat()
    except OSError as error:
        if version_2:
            return STAT2.pack(kind, error.errno or errno.EIO, *[0] * 10)
        return STAT.pack(kind, 0, 0, 0)
    if not version_2:
        return STAT.pack(kind, status.st_mode, min(status.st_size, MAX_SIZE), int(status.st_mtime) & MAX_SIZE)
    times = (int(status.st_atime), int(status.st_mtime), int(status.st_ctime))
    owner = (SHELL_ID, SHELL_ID)
    return STAT2.pack(
        kind, 0, status.st_dev, status.st_ino, status.st_mode, status.st_nlink, *owner, status.st_size, *times
    )


def _framed(data: bytes) -> bytes:
    pieces = (data[start : start + DATA_BYTES] for start in range(0, len(data), DATA_BYTES))
    return b"".join(WORD.pack(b"DATA", len(piece)) + piece for piece in pieces)


def _mode_for_all(mode: int) -> int:
    """Gives everyone the owner's permissions, as Android's adbd does."""
    owner = mode >> 6 & 7
    return owner << 6 | owner << 3 | owner


def _refuse_flags(flags: int) -> None:
    if flags:
        raise SyncError(f"flags {flags:#x} (compression) are not offered")


async def _fail(stream: AdbStream, reason: str) -> None:
    text = reason.encode(errors="surrogateescape")
    await stream.write(WORD.pack(b"FAIL", len(text)) + text)


def _ignore_fault(fault: Fault) -> None:
    """A command's fault cannot happen to a file."""
