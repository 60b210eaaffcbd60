"""Runs one command on a phone over an adb connection: by shell protocol 2, or by `exec:` on phones before Android 7.

A shell of adbutils gives a program no input, keeps all of its output in memory until it ends, and times single reads
of the socket, so that it passes neither those tests of the transports' contract nor those of its deadlines.
"""

import contextlib
import select
import shlex
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable

from farm.transport import base
from runtime.errors import DeviceError, DeviceLostError

CHUNK_BYTES = 256 * 1024
FRAME = struct.Struct("<BI")
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
MAX_FRAME_BYTES = base.MAX_OUTPUT_BYTES + 1
LOOK_S = 1.0
QUICK_ACKNOWLEDGEMENT: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux; holds for a while only
READ_AHEAD_PADDING = b"\n" * 4096  # toybox's and busybox's `head -c` take up to so many bytes more than they print

CheckAlive = Callable[[], None]


class _SocketChannel(ABC):
    """Base of both channels: a non-blocking socket with a buffer of what is not sent yet.

    Args:
        check_alive: called while nothing arrives; raises DeviceLostError when the phone no longer answers.
    """

    def __init__(self, connection: socket.socket, name: str, check_alive: CheckAlive) -> None:
        connection.setblocking(False)
        _acknowledge_at_once(connection)
        self._connection, self._name, self._check_alive = connection, name, check_alive
        self._unsent = bytearray()
        self._received = bytearray()
        self._status: int | None = None
        self._input_ended = False

    @property
    def exit_status(self) -> int | None:
        """See Channel.exit_status."""
        return self._status

    @property
    def exhausted(self) -> bool:
        """See Channel.exhausted: the phone sends the exit status after all output."""
        return self._status is not None

    def wait(self, timeout_s: float, writing: bool) -> None:
        """See Channel.wait."""
        self._flush()
        writers = [self._connection] if writing or self._unsent else []
        readable, writable, _ = select.select([self._connection], writers, [], min(timeout_s, LOOK_S))
        if not readable and not writable:
            self._check_alive()

    def receive(self) -> tuple[bytes, bytes]:
        """See Channel.receive."""
        self._flush()
        if self._status is not None:
            return b"", b""
        try:
            chunk = self._connection.recv(CHUNK_BYTES)
            _acknowledge_at_once(self._connection)
        except BlockingIOError:
            return b"", b""
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from None
        if not chunk:
            raise self._lost("the connection ended before the program")
        self._received += chunk
        return self._take_output()

    def send(self, data: memoryview) -> int:
        """See Channel.send."""
        if self._status is not None:
            raise BrokenPipeError
        self._flush()
        if self._unsent:
            return 0
        accepted = data[:CHUNK_BYTES]
        self._unsent += self._framed(bytes(accepted))
        self._flush()
        return len(accepted)

    def end_input(self) -> None:
        """See Channel.end_input."""
        if not self._input_ended:
            self._input_ended = True
            self._unsent += self._end_of_input()
            self._flush()

    def close(self) -> None:
        """See Channel.close."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError as error:
            if self._status is None:
                raise self._lost(error.strerror or str(error)) from None

    def _lost(self, why: str) -> DeviceLostError:
        return DeviceLostError(f"{self._name}: the connection to it was lost: {why}")

    @abstractmethod
    def _framed(self, data: bytes) -> bytes:
        """Encodes a piece of the command's input for the wire."""

    @abstractmethod
    def _end_of_input(self) -> bytes:
        """Encodes the end of the command's input for the wire."""

    @abstractmethod
    def _take_output(self) -> tuple[bytes, bytes]:
        """Decodes what was received into stdout and stderr, and notes the exit status when it has come."""


def _acknowledge_at_once(connection: socket.socket) -> None:
    """Has the next packet acknowledged without delay, where the system can: Linux waits up to 40 ms for data to send
    along, and the adb server holds a second small packet back until the first is acknowledged.
    """
    if QUICK_ACKNOWLEDGEMENT is not None and connection.family != socket.AF_UNIX:
        with contextlib.suppress(OSError):  # that the link broke is told by what reads
            connection.setsockopt(socket.IPPROTO_TCP, QUICK_ACKNOWLEDGEMENT, 1)


class ShellV2Channel(_SocketChannel):
    """Shell protocol 2: every frame is a kind, a length and content (Android's shell_protocol.h)."""

    def _framed(self, data: bytes) -> bytes:
        return FRAME.pack(STDIN, len(data)) + data

    def _end_of_input(self) -> bytes:
        return FRAME.pack(CLOSE_STDIN, 0)

    def _take_output(self) -> tuple[bytes, bytes]:
        outputs = {STDOUT: bytearray(), STDERR: bytearray()}
        while len(self._received) >= FRAME.size and self._status is None:
            kind, size = FRAME.unpack_from(self._received)
            if size > MAX_FRAME_BYTES:
                raise DeviceError(f"{self._name}: the phone announces {size} bytes at once")
            if len(self._received) < FRAME.size + size:
                break
            content = self._received[FRAME.size : FRAME.size + size]
            del self._received[: FRAME.size + size]
            if kind in outputs:
                outputs[kind] += content
            elif kind == EXIT:
                self._status = content[0] if content else 0
        return bytes(outputs[STDOUT]), bytes(outputs[STDERR])


class LegacyShellChannel(_SocketChannel):
    """`exec:` of phones before Android 7, which has one stream in each direction; see `legacy_command_line`.

    The stream carries stdout, then the unguessable marker, then the exit status, the length of stderr, and stderr
    itself, which the phone's shell has kept in a file until then.
    """

    def __init__(self, connection: socket.socket, name: str, check_alive: CheckAlive, marker: str) -> None:
        super().__init__(connection, name, check_alive)
        self._marker = marker.encode()
        self._ended = False

    def _framed(self, data: bytes) -> bytes:
        return b"%d\n" % len(data) + data + READ_AHEAD_PADDING

    def _end_of_input(self) -> bytes:
        return b"0\n"

    def _take_output(self) -> tuple[bytes, bytes]:
        stdout = b"" if self._ended else self._before_marker()
        return stdout, self._trailer() if self._ended else b""

    def _before_marker(self) -> bytes:
        at = self._received.find(self._marker)
        self._ended = at >= 0
        size = at if self._ended else len(self._received) - self._partial_marker_bytes()
        stdout = bytes(self._received[:size])
        del self._received[: size + (len(self._marker) if self._ended else 0)]
        return stdout

    def _partial_marker_bytes(self) -> int:
        """How many of the last received bytes may be the beginning of the marker."""
        lengths = range(min(len(self._marker) - 1, len(self._received)), 0, -1)
        return next((length for length in lengths if self._received.endswith(self._marker[:length])), 0)

    def _trailer(self) -> bytes:
        """stderr once all of it has come (and notes the exit status); empty before."""
        line, line_end, stderr = self._received.partition(b"\n")
        if not line_end:
            return b""
        status, _, size = line.strip().partition(b" ")
        if not (status.isdigit() and size.isdigit() and int(size) <= MAX_FRAME_BYTES):
            raise DeviceError(f"{self._name}: the shell's answer cannot be read: {bytes(line[:60])!r}")
        if len(stderr) < int(size):
            return b""
        self._status = int(status)
        return bytes(stderr[: int(size)])


def legacy_command_line(line: str, marker: str, folder: str) -> str:
    """Wraps a command line for a service that has no exit status, no stderr and no end of input.

    Input is sent in pieces: the length in a line, the bytes, then empty lines as padding; a length of 0 ends it. The
    shell prints the exit status while the pipeline's first part still waits for input, which ends with the connection.
    """
    errors = shlex.quote(f"{folder.rstrip('/')}.{marker}")
    feed = 'while read -r n; do case $n in "") ;; 0) break ;; *) head -c "$n" ;; esac; done'
    limited = (
        f"{{ {{ ( {line} ) 2>&1 >&4 3>&- 4>&-; echo $? >&3; }} | head -c {base.MAX_OUTPUT_BYTES + 1} >{errors}; }}"
    )
    run = f"exec 4>&1; status=$({limited} 3>&1); exec 4>&-"
    tell = f"printf '%s%s %s\\n' {marker} $status $(($(wc -c <{errors}))); cat {errors}; rm -f {errors}"
    return f"{{ {feed}; }} | {{ {run}; {tell}; }}"
