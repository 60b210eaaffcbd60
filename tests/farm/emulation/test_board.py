"""The emulated board without root: what is refused and what its files say; tests/integration runs one."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from farm.emulation import board as boards
from farm.emulation import debian_root, namespace
from farm.emulation.board import Board
from runtime.errors import ConfigError, DeadlineError, JobError

MIRROR = ("http://127.0.0.1:1/debian", "bookworm")


def silent(_: str) -> None:
    pass


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "board", 8022)


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs run without namespaces, so that no root is needed."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespace, "require_namespaces", lambda: None)
    monkeypatch.setattr(namespace, "unregister_handler", lambda handler: None)
    monkeypatch.setattr(namespace, "command_in_namespace", lambda handler, argv, root=None: list(argv))


@pytest.fixture
def made(board: Board, as_root: None) -> Board:
    host_key = board.root / f"{debian_root.HOST_KEY}.pub"
    host_key.parent.mkdir(parents=True)
    host_key.write_text("ssh-ed25519 AAAA board\n")
    board.key_file.write_text("private")
    return board


def replace_sshd(monkeypatch: pytest.MonkeyPatch, *command: str) -> None:
    monkeypatch.setattr(namespace, "command_in_namespace", lambda handler, argv, root=None: list(command))


def test_a_user_other_than_root_is_refused(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for action in (lambda: boards.make(board, silent), lambda: boards.start(board, silent)):
        with pytest.raises(ConfigError, match="needs root: sudo"):
            action()
    assert not boards.stop(board)
    boards.remove(board)
    assert not board.folder.exists()


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespace.shutil, "which", lambda tool: None if "qemu" in tool else tool)
    with pytest.raises(ConfigError, match=r"apt install qemu-user-static$"):
        namespace.require_namespaces()


def test_a_machine_without_namespaces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespace.shutil, "which", lambda tool: tool)
    refused = SimpleNamespace(returncode=1, stderr="unshare: Operation not permitted\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(ConfigError, match=r"does not let root make namespaces \(unshare: Operation not permitted\)"):
        namespace.require_namespaces()


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("http://m/debian-security bookworm-security main Debian\nhttp://m/debian bookworm main Debian\n", "bookworm"),
        ("https://other/linux/debian bookworm stable Other\n", None),
        ("", None),
    ],
)
def test_the_mirror_comes_from_apts_sources(listed: str, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=listed))
    if found:
        assert debian_root.apt_mirror() == ("http://m/debian", found)
    else:
        with pytest.raises(ConfigError, match="name one: --mirror URL --suite bookworm"):
            debian_root.apt_mirror()


def test_a_folder_mounted_noexec_is_refused(board: Board, as_root: None, monkeypatch: pytest.MonkeyPatch) -> None:
    full: dict[str, Any] = {"f_bavail": 1 << 30, "f_frsize": 4096}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC, **full))
    with pytest.raises(ConfigError, match="noexec or nodev; name another: --folder PATH"):
        boards.make(board, silent, MIRROR)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=0, f_bavail=1, f_frsize=4096))
    with pytest.raises(ConfigError, match="needs 1500 MiB of free storage"):
        boards.make(board, silent, MIRROR)


def test_a_failed_make_shows_the_logs_end_and_keeps_whole_packages(
    board: Board, as_root: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = board.root.with_name("root.partial") / debian_root.ARCHIVES.strip("/")
    (archives / "partial").mkdir(parents=True)
    (archives / "whole.deb").write_bytes(b"1")
    (archives / "partial" / "cut.deb").write_bytes(b"1")
    monkeypatch.setattr(debian_root, "_mmdebstrap", lambda *_: ["sh", "-c", "echo E: no such host; exit 25"])
    with pytest.raises(JobError, match=r"sh: ended with exit status 25: E: no such host \(all in .*log\)"):
        boards.make(board, silent, MIRROR)
    assert not board.exists
    assert [path.name for path in (board.folder / "packages").iterdir()] == ["whole.deb"]


@pytest.mark.slow
def test_a_program_that_never_ends_is_killed(tmp_path: Path, as_root: None) -> None:
    with pytest.raises(DeadlineError, match=r"sleep: did not end within 0\.2 s"):
        namespace.run("handler", ["sleep", "100"], tmp_path / "log", 0.2)


def test_a_second_command_for_a_board_is_refused(board: Board, as_root: None) -> None:
    with boards._locked(board), pytest.raises(ConfigError, match="another command is making or starting this board"):
        boards.make(board, silent, MIRROR)


SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        link = server.accept()[0]
        link.sendall(b"SSH-2.0-test\\r\\n")
        link.close()
"""


def test_a_board_is_started_and_stopped(made: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board, said = Board(made.folder, boards._free_port()), []
    replace_sshd(monkeypatch, sys.executable, "-c", SERVER, str(board.port))
    boards.start(board, said.append)
    boards.start(board, said.append)
    try:
        assert len(said) == 1 and said[0].endswith(" s  starting sshd")
        assert boards.running(Board(made.folder, 1)) and boards.running_port(Board(made.folder, 1)) == board.port
        assert board.known_hosts.read_text() == f"[127.0.0.1]:{board.port} ssh-ed25519 AAAA\n"
        assert yaml.safe_load(board.devices_file.read_text()) == {"devices": {"board": board.entry}}
    finally:
        assert boards.stop(board)
    assert boards.running(board) is None and not boards.stop(board)


def test_a_board_that_ends_at_its_start_shows_the_log(made: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(made.folder, boards._free_port())
    replace_sshd(monkeypatch, "sh", "-c", "echo 'no hostkeys available'; exit 1")
    with pytest.raises(JobError, match="the board ended at its start: no hostkeys available"):
        boards.start(board, silent)


def test_a_port_in_use_is_refused(made: Board) -> None:
    with socket.create_server((boards.ADDRESS, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 is in use; name another: --port NUMBER"):
            boards.start(Board(made.folder, port), silent)


def test_remove_keeps_the_packages_unless_told(made: Board) -> None:
    (made.folder / "packages").mkdir()
    boards.remove(made)
    assert [path.name for path in made.folder.iterdir()] == ["packages"]
    boards.remove(made, packages=True)
    assert not made.folder.exists()
