"""Makes an adb server connect anew to a phone that it keeps `offline`.

A server tries a phone that it lost again by itself: a new one within a second or two, adb 29 (Debian's) every ten
seconds, and only for a while. Until then it answers `connect` with "already connected". What helps in every version
since 29 is to disconnect an address first; `reconnect` is for phones on USB, and makes the server forget an address.
"""

import contextlib
import socket
import time

from farm.transport.adb_server import TRANSPORT, USB, AdbServer
from runtime.errors import JobError

OFFLINE = "offline"
DIAL_S = 1.0
POLL_S = 0.1


def reconnect(server: AdbServer, serial: str, deadline: float) -> bool:
    """Makes the server connect anew to a phone that it lists as offline; returns whether there was anything to try.

    Args:
        deadline: until when the server may try (monotonic clock); how it ended shows in the phone's state.
    """
    with contextlib.suppress(JobError):
        if not is_address(serial):
            server.reconnect(serial, deadline)
            return True
        if not server.address.is_local or _takes_connections(serial):
            _connect_anew(server, serial, deadline)
            return True
    return False


def is_address(serial: str) -> bool:
    """Whether a serial is `address:port`, adb's name of a phone in the network that somebody connected to."""
    return ":" in serial and not serial.startswith((USB, TRANSPORT))


def is_in_network(serial: str) -> bool:
    """Whether a phone is reached over the network: by its address, or by a name that mDNS found."""
    return is_address(serial) or serial.endswith(("._tcp", "._tcp."))


def _connect_anew(server: AdbServer, address: str, deadline: float) -> None:
    """Looks again under the server's lock: another process may have done it, and uses the new connection already."""
    with server.lock(deadline):
        if _state(server, address, deadline) == OFFLINE:
            server.disconnect(address, deadline)
            _connect(server, address, deadline)


def _connect(server: AdbServer, address: str, deadline: float) -> None:
    """Asks until the server has a new connection: adb 29 forgets the old one a moment after it said that it did."""
    while not server.connect(address, deadline).startswith("connected"):
        if _state(server, address, deadline) not in (None, OFFLINE) or time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)


def _state(server: AdbServer, address: str, deadline: float) -> str | None:
    return next((phone.state for phone in server.devices(deadline) if phone.serial == address), None)


def _takes_connections(address: str) -> bool:
    """Whether anything listens there. Before that, disconnecting would only make the server forget the address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), DIAL_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
