"""What is asked of an adb server to get an offline phone back: a server that records the questions."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.transport import adb, adb_reconnect
from farm.transport.adb_server import AdbServer
from farm.units import discovery


class RecordingServer:
    """An adb server with one phone, which any of the given requests makes usable.

    The first `forgetful` times that it is asked to connect, it says that it is connected, and then forgets the phone.
    """

    def __init__(self, serial: str, cures: tuple[str, ...], forgetful: int = 0) -> None:
        self.serial, self.cures, self.state = serial, cures, "offline"
        self.asked: list[str] = []
        self.forgetful = forgetful

    def answer(self, service: str) -> bytes:
        if service == "host:devices-l":
            return f"{self.serial} {self.state}\n".encode() if self.state else b""
        self.asked.append(service)
        if service.startswith("host:connect:") and self.forgetful:
            self.forgetful, self.state = self.forgetful - 1, ""
            return f"already connected to {self.serial}".encode()
        if service in self.cures:
            self.state = "device"
            return f"connected to {self.serial}".encode()
        return b"done"


@contextmanager
def serving(recording: RecordingServer) -> Iterator[AdbServer]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            if size := self.rfile.read(4):
                text = recording.answer(self.rfile.read(int(size, 16)).decode())
                self.wfile.write(b"OKAY%04x" % len(text) + text)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield AdbServer(AdbAddress(port=server.server_address[1]))
        server.shutdown()


@pytest.fixture
def listening() -> Iterator[str]:
    """The address of something that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.slow
def test_a_phone_on_usb_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adb, "RECONNECT_S", 0.1)
    recording = RecordingServer("0123", cures=("host-serial:0123:reconnect",))
    with serving(recording) as server:
        unit = Unit("mi8", "adb", "sdm845", "MI 8", ("host",), serial="0123", adb_server=AdbAddress(port=server.port))
        adb.connect(unit)
    assert recording.asked == ["host-serial:0123:reconnect", "host-serial:0123:features"]


def test_a_phone_in_the_network_is_disconnected_and_connected(listening: str) -> None:
    recording = RecordingServer(listening, cures=(f"host:connect:{listening}",))
    with serving(recording) as server:
        assert adb_reconnect.reconnect(server, listening, time.monotonic() + 5)
        assert adb_reconnect.reconnect(server, listening, time.monotonic() + 5), "it is back: nothing is disconnected"
    assert recording.asked == [f"host:disconnect:{listening}", f"host:connect:{listening}"]


@pytest.mark.slow
def test_a_server_that_then_forgets_the_phone_is_asked_again(listening: str) -> None:
    """adb 29 may still list the old connection when it is asked for a new one."""
    recording = RecordingServer(listening, cures=(f"host:connect:{listening}",), forgetful=2)
    with serving(recording) as server:
        assert adb_reconnect.reconnect(server, listening, time.monotonic() + 5)
    assert recording.state == "device"
    assert recording.asked == [f"host:disconnect:{listening}", *[f"host:connect:{listening}"] * 3]


@pytest.mark.slow
def test_a_phone_that_cannot_be_connected_stays_in_the_list(listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "RETURN_S", 0.5)
    with serving(RecordingServer(listening, cures=(), forgetful=1000)) as server:
        assert [(phone.serial, phone.state) for phone in discovery.adb_phones(server.address)] == [
            (listening, "offline")
        ]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "nowhere:", "::x"])
def test_an_address_where_nothing_listens_is_left_to_the_server(address: str) -> None:
    recording = RecordingServer(address, cures=())
    with serving(recording) as server:
        assert not adb_reconnect.reconnect(server, address, time.monotonic() + 5)
    assert recording.asked == []
