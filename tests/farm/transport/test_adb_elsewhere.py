"""Phones of an adb server on another machine: here a real sshd on the loopback interface, and the server behind it."""

import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest

from benchmarks.loopback import free_port
from farm import transport as transports
from farm.cli.trust import trust_device
from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.transport import adb, adb_reconnect, ssh, ssh_tunnel
from farm.transport.adb_server import AdbServer
from farm.units import lookup
from runtime.errors import DeviceError, DeviceLostError
from tests.farm.transport.contract import DEADLINE_S, PosixContract
from tests.farm.transport.openssh_server import running_sshd

Sshd = Callable[..., str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user whose only key is the one that the sshd of the tests knows; connections end with the test."""
    folder = tmp_path / "user" / ".ssh"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    made: dict[str, ssh_tunnel._Tunnel] = {}
    monkeypatch.setattr(ssh_tunnel, "_tunnel", lambda machine: made.setdefault(machine, ssh_tunnel._Tunnel(machine)))
    yield folder
    for tunnel in made.values():
        if tunnel._connection:
            tunnel._connection.close()


@pytest.fixture
def sshd(tmp_path: Path, home: Path) -> Iterator[Sshd]:
    """Starts an sshd with options; returns the machine `host:port`, whose host key is trusted."""
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(home / "id_ecdsa"))
    running = []

    def start(*options: str, trusted: bool = True) -> str:
        server = running_sshd(tmp_path / "sshd", f"{key.get_name()} {key.get_base64()}\n", *options)
        port, _ = server.__enter__()
        running.append(server)
        machine = f"127.0.0.1:{port}"
        if trusted:
            ssh.trust(ssh.host_key_of_machine(machine))
        return machine

    yield start
    for server in running:
        server.__exit__(None, None, None)


class TestPhoneBehindSsh(PosixContract):
    @pytest.fixture
    def transport(self, sshd: Sshd, adb_port: int) -> Iterator[transports.Transport]:
        server = AdbAddress(port=adb_port, ssh=sshd())
        with EmulatedPhone(PhoneSettings()) as phone:
            opened = transports.connect(unit_of(phone, server))
            yield opened
            opened.close()


def unit_of(phone: EmulatedPhone, server: AdbAddress) -> Unit:
    return Unit("mi8", "adb", "sdm845", "MI 8", ("host",), serial=f"127.0.0.1:{phone.port}", adb_server=server)


def devices(address: AdbAddress) -> list[str]:
    return [device.serial for device in AdbServer(address).devices(time.monotonic() + DEADLINE_S)]


@pytest.mark.slow
def test_phones_of_another_machine_are_listed_under_its_server(sshd: Sshd, adb_port: int, tmp_path: Path) -> None:
    machine = sshd()
    with EmulatedPhone(PhoneSettings()) as phone:
        serial = f"127.0.0.1:{phone.port}"
        server = AdbServer(AdbAddress(port=adb_port, ssh=machine))
        server.connect(serial, time.monotonic() + DEADLINE_S)
        assert serial in devices(server.address)


@pytest.mark.slow
def test_a_connection_that_broke_is_made_anew(sshd: Sshd, adb_port: int) -> None:
    address = AdbAddress(port=adb_port, ssh=sshd())
    devices(address)
    tunnel = ssh_tunnel._tunnel(address.ssh)
    assert tunnel._connection
    first = tunnel._connection
    first.close()
    devices(address)
    assert tunnel._connection is not first


@pytest.mark.slow
def test_a_stream_ends_on_both_sides_when_either_closes(sshd: Sshd) -> None:
    machine = sshd()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        for closes_first in ("user", "machine"):
            near = ssh_tunnel.open_stream(machine, "127.0.0.1", port, time.monotonic() + DEADLINE_S)
            far, _ = listener.accept()
            ends = (near, far) if closes_first == "user" else (far, near)
            near.sendall(b"ping")
            assert far.recv(4) == b"ping"
            ends[0].close()
            ends[1].settimeout(DEADLINE_S)
            assert ends[1].recv(1) == b""
            ends[1].close()


@pytest.mark.slow
def test_no_server_there_is_said_with_what_to_do(sshd: Sshd) -> None:
    with pytest.raises(DeviceLostError, match=r"port \d+ of 127.0.0.1:\d+: none runs there; start it there"):
        devices(AdbAddress(port=free_port(), ssh=sshd()))


@pytest.mark.slow
def test_a_machine_that_allows_no_tunnel_is_named(sshd: Sshd, adb_port: int) -> None:
    address = AdbAddress(port=adb_port, ssh=sshd("AllowTcpForwarding=no"))
    with pytest.raises(DeviceError, match="allows no tunnel: set AllowTcpForwarding yes"):
        devices(address)


@pytest.mark.slow
def test_the_key_of_a_machine_is_accepted_as_that_of_a_board(
    sshd: Sshd, adb_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = sshd(trusted=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "devices.yml").write_text(
        f"adb: {{server: 'ssh://{machine}/{adb_port}'}}\ndevices: {{here: {{transport: local}}}}\n"
    )
    address = AdbAddress(port=adb_port, ssh=machine)
    with pytest.raises(DeviceError, match=f"farm devices trust {machine}"):
        devices(address)
    assert trust_device(machine, yes=True, as_json=False) == 0
    assert f"{machine}: [127.0.0.1]" in capsys.readouterr().out
    devices(address)


@pytest.mark.slow
def test_a_server_in_the_network_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(DeviceLostError, match=r"127.0.0.2:\d+: none runs there"):
        devices(AdbAddress("127.0.0.2", free_port()))


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
    monkeypatch.setattr(lookup, "RETURN_S", 0.5)
    with serving(RecordingServer(listening, cures=(), forgetful=1000)) as server:
        assert [(phone.serial, phone.state) for phone in lookup.adb_phones(server.address)] == [(listening, "offline")]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "nowhere:", "::x"])
def test_an_address_where_nothing_listens_is_left_to_the_server(address: str) -> None:
    recording = RecordingServer(address, cures=())
    with serving(recording) as server:
        assert not adb_reconnect.reconnect(server, address, time.monotonic() + 5)
    assert recording.asked == []
