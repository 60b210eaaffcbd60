"""A client of an adb server; it starts this machine's where none runs, and never stops one.

A request is a length in four hexadecimal digits and a service's name; the answer is `OKAY`, or `FAIL` and a text
(Android's SERVICES.TXT and protocol.txt). Every version of the server understands the requests made here. So a running
server of another version is used as it is, where the `adb` program would end it together with everyone's connections.
adbutils' client knows no server's refusal from a phone's, and no deadline but that of a single read.
"""

import collections
import contextlib
import dataclasses
import errno
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from farm.config.adb_address import LOCAL, THIS_MACHINE, AdbAddress
from runtime.errors import ConfigError, DeadlineError, DeviceError, DeviceLostError, FarmError, farm_error

STANDARD_PORT = 5037
START_S = 30.0
DIAL_S = 1.0
MAX_SERVICE_BYTES = 0xFFFF
MAX_LIST_BYTES = 16 * 1024**2
NO_SERIAL = "(no serial number)"
USB, TRANSPORT = "usb:", "transport_id:"  # how paths to phones begin that no serial tells apart
# A line of `adb devices -l`: a serial may hold blanks, and words `key:value` end the line.
_LINE = re.compile(
    r"(?P<serial>\S.*?)\s+(?P<state>device|offline|unauthorized|authorizing|connecting|recovery|sideload|rescue|host"
    r"|bootloader|detached|no permissions\b.*?)(?P<keys>(?:\s+[a-z_]+:\S*)*)"
)


class AdbRefusedError(DeviceError):
    """The server or the device answered FAIL; the message is the text that came with it."""


@dataclasses.dataclass(frozen=True)
class AdbDevice:
    """A device as the adb server lists it.

    Attributes:
        serial: its name for the server; its path where it has no serial number, or shares it with another device.
        state: the server's own word, `device` for a usable one.
        path: `usb:1-1` where it is plugged in, or `transport_id:3`, which ends with its connection.
        shared: the serial number that it shares with others.
    """

    serial: str
    state: str
    model: str = ""
    path: str = dataclasses.field(default="", compare=False)
    shared: str = ""


class AdbServer:
    """The server at an address; without a port on adb's standard one or, for this machine's, where the variables of
    the adb program say: ADB_SERVER_SOCKET, ANDROID_ADB_SERVER_ADDRESS and ANDROID_ADB_SERVER_PORT.

    Attributes:
        place: where it is, for people.
    """

    def __init__(self, address: AdbAddress = LOCAL) -> None:
        self.address = address = _default_address() if address == LOCAL else address
        self.port = address.port or STANDARD_PORT
        self.place = address.at(self.port)

    def open(self, service: str, deadline: float, serial: str = "") -> socket.socket:
        """Connects to a service of the server or, with a serial, of a device; the socket blocks, with a timeout.

        Raises:
            Refused: the server knows no such device, or the device refuses.
            DeviceLostError: the server went away, or cannot be started.
            DeadlineError: no answer until `deadline` (monotonic clock).
        """
        connection = self._connected(deadline)
        try:
            if serial:
                by_id = serial.startswith(TRANSPORT)
                device = f"transport-id:{serial.removeprefix(TRANSPORT)}" if by_id else f"transport:{serial}"
                self._request(connection, f"host:{device}", deadline)
            self._request(connection, service, deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def query(self, service: str, deadline: float) -> str:
        """Asks a service of the server; returns its answer."""
        with self.open(service, deadline) as connection:
            return self._read_text(connection, deadline)

    def shell_output(self, command: str, serial: str, deadline: float) -> bytes:
        """Runs a short command in a device's shell; returns what it prints, on old devices with CR LF."""
        with self.open(f"shell:{command}", deadline, serial) as connection:
            return self._read_all(connection, deadline)

    def devices(self, deadline: float) -> list[AdbDevice]:
        """Lists all devices that the server knows."""
        with self.open("host:devices-l", deadline) as connection:
            lines = strip_length_prefix(self._read_all(connection, deadline)).decode(errors="replace").split("\n")
        return _told_apart([device for line in lines if (device := parse_device(line))])

    def query_device(self, serial: str, service: str, deadline: float) -> str:
        """Asks a service of the server about a device."""
        by_id = serial.startswith(TRANSPORT)
        device = f"transport-id:{serial.removeprefix(TRANSPORT)}" if by_id else f"serial:{serial}"
        return self.query(f"host-{device}:{service}", deadline)

    def connect(self, address: str, deadline: float) -> str:
        """Makes the server connect to a device in the network; returns the server's message."""
        return self.query(f"host:connect:{address}", deadline)

    def disconnect(self, address: str, deadline: float) -> None:
        """Makes the server forget a device in the network."""
        self.query(f"host:disconnect:{address}", deadline)

    def reconnect(self, serial: str, deadline: float) -> None:
        """Makes the server reset its connection to a device on USB."""
        self.query_device(serial, "reconnect", deadline)

    def version(self, deadline: float) -> int:
        """The server's internal version, say 41."""
        answer = self.query("host:version", deadline)
        try:
            return int(answer, 16)
        except ValueError:
            raise DeviceError(f"{self.place} is no adb server: its version is {answer!r}") from None

    def is_running(self) -> bool:
        """Whether a server listens there."""
        try:
            self._connect(time.monotonic() + DIAL_S).close()
        except (OSError, DeviceError):
            return False
        return True

    def _connected(self, deadline: float) -> socket.socket:
        try:
            return self._connect(deadline)
        except ConnectionRefusedError:
            self._start(deadline)
        except OSError as error:
            raise self._lost(error) from None
        try:
            return self._connect(deadline)
        except OSError as error:
            raise self._lost(error) from None

    def _connect(self, deadline: float) -> socket.socket:
        if self.address.ssh:
            from farm.transport import ssh_tunnel  # paramiko takes a third of a second to import

            return ssh_tunnel.open_stream(self.address.ssh, self.address.host, self.port, deadline)
        connection = socket.create_connection((self.address.host, self.port), _remaining(deadline))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    @contextlib.contextmanager
    def lock(self, deadline: float) -> Iterator[None]:
        """Keeps this user's other processes from starting the server or connecting its phones anew meanwhile."""
        lock = FileLock(Path(tempfile.gettempdir(), f"farm-{os.getuid()}-adb-{_file_word(self.place)}.lock"))
        try:
            lock.acquire(timeout=_remaining(deadline))
        except Timeout:
            raise DeadlineError(f"adb server on {self.place}: somebody else's start of it takes too long") from None
        try:
            yield
        finally:
            lock.release()

    def _start(self, deadline: float) -> None:
        if not self.address.is_local:
            raise DeviceLostError(f"adb server on {self.place}: none runs there; start it there (adb start-server)")
        with self.lock(deadline):
            if not self.is_running():
                _start_server(self.port, min(_remaining(deadline), START_S))

    def _request(self, connection: socket.socket, service: str, deadline: float) -> None:
        request = service.encode(errors="surrogateescape")
        if len(request) > MAX_SERVICE_BYTES:
            raise DeviceError(f"adb: a request of {len(request)} bytes is too long")
        try:
            connection.settimeout(_remaining(deadline))
            connection.sendall(b"%04x" % len(request) + request)
            answer = self._read_exactly(connection, 4, deadline)
        except TimeoutError:
            raise DeadlineError(f"adb server on {self.place}: no answer to {service[:60]!r}") from None
        except OSError as error:
            raise self._lost(error) from None
        if answer == b"FAIL":
            raise AdbRefusedError(self._read_text(connection, deadline))
        if answer != b"OKAY":
            raise DeviceError(f"{self.place} is no adb server: it answers {answer!r}")

    def _read_text(self, connection: socket.socket, deadline: float) -> str:
        try:
            size = int(self._read_exactly(connection, 4, deadline), 16)
            return self._read_exactly(connection, size, deadline).decode(errors="replace")
        except ValueError:
            raise DeviceError(f"{self.place} is no adb server: its answer has no length") from None
        except TimeoutError:
            raise DeadlineError(f"adb server on {self.place}: its answer does not end") from None
        except OSError as error:
            raise self._lost(error) from None

    def _read_all(self, connection: socket.socket, deadline: float) -> bytes:
        """Reads until the server closes the connection."""
        received = bytearray()
        try:
            while len(received) < MAX_LIST_BYTES:
                connection.settimeout(_remaining(deadline))
                if not (chunk := connection.recv(65536)):
                    break
                received += chunk
        except TimeoutError:
            raise DeadlineError(f"adb server on {self.place}: its answer does not end") from None
        except OSError as error:
            raise self._lost(error) from None
        return bytes(received)

    def _read_exactly(self, connection: socket.socket, size_bytes: int, deadline: float) -> bytes:
        received = bytearray()
        while len(received) < size_bytes:
            connection.settimeout(_remaining(deadline))
            chunk = connection.recv(size_bytes - len(received))
            if not chunk:
                raise ConnectionResetError("it closed the connection")
            received += chunk
        return bytes(received)

    def _lost(self, error: OSError) -> FarmError:
        """A server that went away; what this machine lacks is no fault of a phone."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return farm_error(error)
        return DeviceLostError(f"adb server on {self.place}: {error.strerror or error}")


def find_adb() -> str:
    """The path of `adb`: from PATH, else from the adbutils package; raises ConfigError where there is none."""
    program = shutil.which("adb")
    spec = importlib.util.find_spec("adbutils")
    for location in spec.submodule_search_locations or () if spec else ():
        bundled = Path(location, "binaries", "adb")
        program = program or (str(bundled) if os.access(bundled, os.X_OK) else None)
    if not program:
        raise ConfigError("adb: there is no such program here; install Android's platform tools (apt install adb)")
    return program


def strip_length_prefix(answer: bytes) -> bytes:
    """Removes the length before a list of devices; raises DeviceError where there is none.

    The length has four hexadecimal digits, and more for a list above 64 KiB, which one phone's long name can cause.
    """
    for digits in range(4, 9):
        with contextlib.suppress(ValueError):
            if int(answer[:digits], 16) == len(answer) - digits:
                return answer[digits:]
    raise DeviceError(f"adb server: its list of devices cannot be read: {answer[:40]!r}")


def parse_device(line: str) -> AdbDevice | None:
    """Parses a line of `host:devices-l`: serial, state (one or more words), `key:value` words; None for no device."""
    if match := _LINE.fullmatch(line.strip()):
        serial, state, words = match["serial"], match["state"], match["keys"].split()
    else:  # a state that is not known here
        serial, _, rest = line.strip().partition(" ")
        state, *words = rest.split() or [""]
    if not serial or not state:
        return None
    keys = {key: value for key, _, value in (word.partition(":") for word in words)}
    path = next((f"{key}:{keys[key]}" for key in (USB[:-1], TRANSPORT[:-1]) if key in keys), "")
    state = "no permissions" if state.startswith("no permissions") else state
    return AdbDevice(serial, state, keys.get("model", ""), path)


def _told_apart(devices: list[AdbDevice]) -> list[AdbDevice]:
    """Names devices by their paths where their serial numbers do not tell them apart: cheap phones share one."""
    count = collections.Counter(device.serial for device in devices)
    return [
        dataclasses.replace(device, serial=device.path, shared="" if device.serial == NO_SERIAL else device.serial)
        if device.path and (device.serial == NO_SERIAL or count[device.serial] > 1)
        else device
        for device in devices
    ]


def _start_server(port: int, timeout_s: float) -> None:
    command = [find_adb(), "-P", str(port), "start-server"]
    try:
        completed = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise DeadlineError(f"adb server on port {port}: did not start within {timeout_s:.0f} s") from None
    except OSError as error:
        raise DeviceLostError(f"adb server on port {port}: {command[0]}: {error.strerror}") from None
    if completed.returncode:
        message = " ".join(completed.stderr.decode(errors="replace").split())
        raise DeviceLostError(f"adb server on port {port}: cannot be started: {message}")


def _default_address() -> AdbAddress:
    """The server that the variables of the adb program name, by its rules."""
    name, value = "ADB_SERVER_SOCKET", os.environ.get("ADB_SERVER_SOCKET", "")
    host = ""
    if value:
        host, _, port = value.removeprefix("tcp:").rpartition(":")
        port = port if value.startswith("tcp:") else ""
    else:
        host = os.environ.get("ANDROID_ADB_SERVER_ADDRESS", "")
        name, value = "ANDROID_ADB_SERVER_PORT", os.environ.get("ANDROID_ADB_SERVER_PORT", "")
        port = value or str(STANDARD_PORT)
    if not (port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"{name}: {value!r} is no port" + (" (tcp:[host:]port)" if name.endswith("SOCKET") else ""))
    return AdbAddress(THIS_MACHINE if host in ("", "localhost") else host.strip("[]"), int(port))


def _file_word(place: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", place)


def _remaining(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
