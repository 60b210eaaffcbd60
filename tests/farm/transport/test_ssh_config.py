"""What ssh's files say of a host is what `ssh -G` says; without ssh, only what paramiko understands is read."""

import shutil
from pathlib import Path

import pytest

from farm.transport import ssh_config
from farm.transport.ssh_config import NO_FILE, SshTarget
from runtime.errors import ConfigError
from tests.conftest import require


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    return tmp_path


@pytest.fixture
def openssh() -> None:
    require("sshd", "" if shutil.which("ssh") else "no ssh on this machine")


def resolved(home: Path, text: str, address: str = "me@lab") -> SshTarget:
    (home / ".ssh/config").write_text(text)
    return ssh_config.resolve_host("board", address)


@pytest.mark.usefixtures("openssh")
@pytest.mark.parametrize(
    ("value", "files"),
    [
        ("none", [NO_FILE]),
        ("/dev/null", [NO_FILE]),
        ('"/my hosts/a" /b', [Path("/my hosts/a"), Path("/b")]),
        ("/hosts/%h /hosts/%n.%p", [Path("/hosts/10.0.0.7"), Path("/hosts/lab.22")]),
    ],
)
def test_files_of_host_keys_as_ssh_has_them(home: Path, value: str, files: list[Path]) -> None:
    target = resolved(home, f"Host lab\n  HostName 10.0.0.7\n  UserKnownHostsFile {value}\n")
    assert list(target.known_hosts[: len(files)]) == files
    assert Path("/etc/ssh/ssh_known_hosts") in target.known_hosts[len(files) :]


@pytest.mark.usefixtures("openssh")
def test_what_nobody_configured_is_sshs_default(home: Path) -> None:
    (home / ".ssh/id_rsa").touch()
    target = ssh_config.resolve_host("board", "lab")
    assert (target.host, target.port, target.jump) == ("lab", 22, None)
    assert (target.known_hosts[0], target.key_files) == (home / ".ssh/known_hosts", (home / ".ssh/id_rsa",))
    assert (target.known_hosts_name, target.agent, target.only_key_files) == ("lab", "/run/agent", False)


@pytest.mark.usefixtures("openssh")
def test_keys_and_agent_as_ssh_has_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".ssh/10.0.0.7 key").touch()
    text = 'Host lab\n  HostName 10.0.0.7\n  HostKeyAlias rack\n  IdentitiesOnly yes\n  IdentityFile "~/.ssh/%h key"\n'
    target = resolved(home, text, "lab:99")
    assert (target.key_files, target.known_hosts_name) == ((home / ".ssh/10.0.0.7 key",), "rack")
    assert target.only_key_files
    monkeypatch.setenv("MY_AGENT", "/run/mine")
    agents = {"none": "", "/run/other": "/run/other", "$MY_AGENT": "/run/mine", "SSH_AUTH_SOCK": "/run/agent"}
    assert {value: resolved(home, f"IdentityAgent {value}\n").agent for value in agents} == agents


@pytest.mark.usefixtures("openssh")
def test_conditions_and_canonical_names_are_sshs_to_judge(home: Path) -> None:
    assert resolved(home, "CanonicalizeHostname yes\n", "127.0.0.1").host == "127.0.0.1"
    assert resolved(home, "Match final all\n  Port 99\n").port == 99
    text = "Match user me\n  Port 77\nMatch exec false\n  ProxyJump %h\n"
    assert (resolved(home, text).port, resolved(home, text).jump) == (77, None)


def test_without_ssh_plain_files_are_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (home / ".ssh/key").touch()
    target = resolved(
        home, 'Host lab\n  HostName 10.0.0.7\n  IdentityFile ~/.ssh/key\n  UserKnownHostsFile ~/a "~/b c"\n'
    )
    assert (target.host, target.key_files) == ("10.0.0.7", (home / ".ssh/key",))
    assert target.known_hosts == (home / "a", home / "b c", Path("/etc/ssh/ssh_known_hosts"))
    assert resolved(home, "Host *\n  HostKeyAlias x\n").known_hosts[0] == home / ".ssh/known_hosts"
    for text in ("Match final all\n  Port 99\n", "Include more\n", "CanonicalizeHostname yes\n"):
        with pytest.raises(ConfigError, match=r"config: (Match|Include|Can\w+) is read by `ssh` only"):
            resolved(home, text)
