"""Phones of an adb server on another machine: here a real sshd on the loopback interface, and the server behind it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from benchmarks.loopback import free_port
from farm import transport as transports
from farm.cli.trust import trust_device
from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.emulation.phone_unit import private_adb_server
from farm.transport import ssh, ssh_tunnel
from farm.transport.adb_server import AdbServer
from runtime.errors import DeviceError, DeviceLostError
from tests.farm.transport.contract import DEADLINE_S, PosixContract
from tests.farm.transport.openssh_server import running_sshd

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def adb_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with private_adb_server(tmp_path_factory.mktemp("adb")) as port:
        yield port


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


def test_phones_of_another_machine_are_listed_under_its_server(sshd: Sshd, adb_port: int, tmp_path: Path) -> None:
    machine = sshd()
    with EmulatedPhone(PhoneSettings()) as phone:
        serial = f"127.0.0.1:{phone.port}"
        server = AdbServer(AdbAddress(port=adb_port, ssh=machine))
        server.connect(serial, time.monotonic() + DEADLINE_S)
        assert serial in devices(server.address)


def test_a_connection_that_broke_is_made_anew(sshd: Sshd, adb_port: int) -> None:
    address = AdbAddress(port=adb_port, ssh=sshd())
    devices(address)
    tunnel = ssh_tunnel._tunnel(address.ssh)
    assert tunnel._connection
    first = tunnel._connection
    first.close()
    devices(address)
    assert tunnel._connection is not first


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


def test_no_server_there_is_said_with_what_to_do(sshd: Sshd) -> None:
    with pytest.raises(DeviceLostError, match=r"port \d+ of 127.0.0.1:\d+: none runs there; start it there"):
        devices(AdbAddress(port=free_port(), ssh=sshd()))


def test_a_machine_that_allows_no_tunnel_is_named(sshd: Sshd, adb_port: int) -> None:
    address = AdbAddress(port=adb_port, ssh=sshd("AllowTcpForwarding=no"))
    with pytest.raises(DeviceError, match="allows no tunnel: set AllowTcpForwarding yes"):
        devices(address)


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


def test_a_server_in_the_network_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(DeviceLostError, match=r"127.0.0.2:\d+: none runs there"):
        devices(AdbAddress("127.0.0.2", free_port()))
