"""Copies files to and from a phone by adb's sync service (Android's SYNC.TXT): all files over one connection.

The client of adbutils opens a connection a file, sends 4 KiB at a time and waits for each answer: to an emulated phone
that takes 2.6 times as long for 64 MB, 120 times as long for 200 files of 20 kB (`benchmarks/transfer.py --link adb`).
"""

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from farm.transport import storage
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, JobError

ENTRY = struct.Struct("<4sI")
DATA_BYTES = 64 * 1024  # the most that the protocol allows in a piece
PIECE_BYTES = ENTRY.size + DATA_BYTES
PIECES = 16  # pieces that are joined into one write
MAX_TEXT_BYTES = 64 * 1024
POLL_S = 1.0
REGULAR = 0o100000


class SyncClient:
    """A client of the sync service.

    Args:
        connection: the socket on which the service was opened.
        name: the unit's name, for errors.
        check_alive: called while nothing moves; raises DeviceLostError when the phone no longer answers.
    """

    def __init__(self, connection: socket.socket, name: str, check_alive: Callable[[], None]) -> None:
        connection.setblocking(False)
        self._connection, self._name, self._check_alive = connection, name, check_alive
        self._received = bytearray()

    def send(self, files: Sequence[tuple[Path, str]], deadline: float) -> None:
        """Copies local files to absolute paths on the phone, and reads its answers while the next files are sent.

        Raises DeviceError (refused, full storage), DeviceLostError, DeadlineError.
        """
        answers = 0
        for block in _blocks(files):
            self._write(block, deadline)
            answers += self._take_answers()
        while answers < len(files):
            self._wait(deadline, writing=False)
            answers += self._take_answers()

    def receive(self, path: str, file: BinaryIO, deadline: float) -> None:
        """Copies the content of a file on the phone."""
        self._write(_request(b"RECV", path.encode()), deadline)
        while True:
            kind, size = ENTRY.unpack(self._read_exactly(ENTRY.size, deadline))
            if kind == b"DONE":
                return
            if kind == b"DATA" and size <= DATA_BYTES:
                file.write(self._read_exactly(size, deadline))
            else:
                raise self._refused(kind, self._read_exactly(min(size, MAX_TEXT_BYTES), deadline))

    def _take_answers(self) -> int:
        """Removes the answers that have arrived and counts them; raises DeviceError for one that is not OKAY."""
        self._read()
        count = 0
        while len(self._received) >= ENTRY.size:
            kind, size = ENTRY.unpack_from(self._received)
            if kind != b"OKAY":
                raise self._refused(kind, self._answer_text(size))
            del self._received[: ENTRY.size]
            count += 1
        return count

    def _answer_text(self, size_bytes: int) -> bytes:
        deadline = time.monotonic() + POLL_S
        text_bytes = min(size_bytes, MAX_TEXT_BYTES)
        while len(self._received) < ENTRY.size + text_bytes and time.monotonic() < deadline:
            self._wait(deadline, writing=False)
            self._read()
        return bytes(self._received[ENTRY.size : ENTRY.size + text_bytes])

    def _refused(self, kind: bytes, text: bytes) -> DeviceError:
        reason = " ".join(text.decode(errors="replace").split()) if kind == b"FAIL" else f"sync answer {kind!r}"
        return storage.refusal_error(f"{self._name}: {reason or 'the phone refuses the file'}")

    def _write(self, data: bytes | memoryview, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._connection.send(rest) :]
            except BlockingIOError:
                self._wait(deadline, writing=True)
            except OSError as error:
                self._raise_refusal()
                raise self._lost(error.strerror or str(error)) from None

    def _raise_refusal(self) -> None:
        """Raises the refusal that a phone sends before it closes the connection, if there is one."""
        self._take_answers()

    def _read_exactly(self, size_bytes: int, deadline: float) -> bytes:
        while len(self._received) < size_bytes:
            self._wait(deadline, writing=False)
            self._read()
        taken = bytes(self._received[:size_bytes])
        del self._received[:size_bytes]
        return taken

    def _read(self) -> None:
        try:
            chunk = self._connection.recv(4 * DATA_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from None
        if not chunk:
            raise self._lost("the phone closed the connection")
        self._received += chunk

    def _wait(self, deadline: float, writing: bool) -> None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlineError(f"{self._name}: the transfer takes too long")
        writers = [self._connection] if writing else []
        readable, writable, _ = select.select([self._connection], writers, [], min(remaining, POLL_S))
        if not readable and not writable:
            self._check_alive()
        elif writing and readable and not writable:
            self._receive_and_wait()

    def _receive_and_wait(self) -> None:
        """Reads what arrived while nothing could be sent, then waits for room, so that the caller does not spin."""
        self._read()
        select.select([], [self._connection], [], POLL_S)

    def _lost(self, why: str) -> DeviceLostError:
        return DeviceLostError(f"{self._name}: the connection to it was lost during a transfer: {why}")


class _Block:
    """A part of the stream: entries one after another, and pieces of files read to where they belong."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(PIECES * PIECE_BYTES))
        self._end = 0

    @property
    def is_full(self) -> bool:
        """Whether there may be no room for another request and a piece."""
        return self._end + 2 * PIECE_BYTES > len(self._memory)

    def put(self, entry: bytes) -> None:
        """Adds an entry that is complete."""
        self._memory[self._end : self._end + len(entry)] = entry
        self._end += len(entry)

    def read(self, file: FileIO, most_bytes: int) -> int:
        """Adds the file's next piece; returns its size, 0 at the end."""
        start = self._end + ENTRY.size
        size = file.readinto(self._memory[start : start + min(DATA_BYTES, most_bytes)])
        if size:
            self.put(ENTRY.pack(b"DATA", size))
            self._end += size
        return size

    def take(self) -> memoryview:
        """What was added, which is valid until more is."""
        taken, self._end = self._memory[: self._end], 0
        return taken


def _blocks(files: Sequence[tuple[Path, str]]) -> Iterator[memoryview]:
    """Encodes the files as a stream, in blocks large enough that many small files need few writes."""
    block = _Block()
    for local, path in files:
        mode = REGULAR | (0o755 if os.access(local, os.X_OK) else 0o644)
        block.put(_request(b"SEND", f"{path},{mode}".encode(errors="surrogateescape")))
        try:
            with local.open("rb", buffering=0) as file:
                left_bytes = os.fstat(file.fileno()).st_size  # of a file that grows, what it had
                while size := block.read(file, left_bytes):
                    left_bytes -= size
                    if block.is_full:
                        yield block.take()
        except OSError as error:
            raise JobError(f"{local}: cannot be read: {error.strerror}") from None
        block.put(ENTRY.pack(b"DONE", int(time.time())))
        if block.is_full:
            yield block.take()
    yield block.take()


def _request(kind: bytes, content: bytes) -> bytes:
    return ENTRY.pack(kind, len(content)) + content
