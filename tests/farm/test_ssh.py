"""SSH against a server in this process, and against a real sshd where there is one; and what breaks between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from farm import transport as transports
from farm.inventory import Unit
from farm.transport import ssh
from farm.transport.base import Transport
from farm.transport.ssh_link import Patience
from tests.farm.ssh_server import SshServer
from tests.farm.sshd import running_sshd
from tests.farm.transport_contract import TransportContract

SHORT = Patience(connect_s=10.0, idle_s=0.1, dead_s=0.5)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this machine's user without keys, agent or configuration."""
    folder = tmp_path / "user"
    (folder / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture
def key(tmp_path: Path) -> paramiko.PKey:
    made = paramiko.ECDSAKey.generate()
    made.write_private_key_file(str(tmp_path / "key"))
    return made


@pytest.fixture
def server(tmp_path: Path, key: paramiko.PKey) -> Iterator[SshServer]:
    with SshServer(tmp_path / "board", key) as running:
        yield running


def unit_at(port: int, key_file: Path, jump: str = "") -> Unit:
    return Unit(
        name="board",
        transport="ssh",
        soc="rk3399",
        model="board",
        abis=("arm64",),
        address="127.0.0.1",
        port=port,
        key_file=key_file,
        jump=jump,
    )


def trusted(unit: Unit) -> Unit:
    """The unit, after `farm devices trust` for it and all jump hosts before it."""
    while (shown := ssh.host_key_of(unit)).state != "known":
        ssh.trust(shown)
    return unit


@pytest.fixture
def board(server: SshServer, tmp_path: Path) -> Unit:
    return trusted(unit_at(server.port, tmp_path / "key"))


class TestServer(TransportContract):
    @pytest.fixture
    def transport(self, board: Unit) -> Iterator[Transport]:
        opened = transports.connect(board)
        yield opened
        opened.close()


class TestSshd(TransportContract):
    @pytest.fixture
    def transport(self, tmp_path: Path, key: paramiko.PKey) -> Iterator[Transport]:
        with running_sshd(tmp_path / "sshd", f"{key.get_name()} {key.get_base64()}\n") as (port, _):
            opened = transports.connect(trusted(unit_at(port, tmp_path / "key")))
            yield opened
            opened.close()
