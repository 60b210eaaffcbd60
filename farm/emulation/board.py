"""An emulated ARM64 board: a Debian root under qemu-user with a real sshd and a real OpenCL driver (PoCL).

    FOLDER/root/          Debian; made once
    FOLDER/packages/      what was downloaded for it
    FOLDER/key, key.pub   the only key that its sshd accepts
    FOLDER/known_hosts    its host key, for one port
    FOLDER/devices.yml    its entry for devices.yml
    FOLDER/running.json   the process of a running board
    FOLDER/log

sshd listens on 127.0.0.1 only. Everything that runs on the board ends with it.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml
from filelock import FileLock, Timeout

from farm import atomic_file
from farm.emulation import debian_root, namespace
from farm.emulation.debian_root import HOST_KEY, SSHD, USER, USER_KEY, Say
from runtime.errors import ConfigError, DeadlineError, JobError

ADDRESS = "127.0.0.1"
DEFAULT_FOLDER = Path("build/board")
DEFAULT_PORT = 8022
START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 20.0
POLL_S = 0.1


@dataclasses.dataclass(frozen=True)
class Board:
    """One board: its folder on this machine and the port of its sshd."""

    folder: Path = DEFAULT_FOLDER
    port: int = DEFAULT_PORT

    @property
    def root(self) -> Path:
        """The Debian root."""
        return self.folder / "root"

    @property
    def key_file(self) -> Path:
        """The private key to log in with."""
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        """The known_hosts file with the board's host key."""
        return self.folder / "known_hosts"

    @property
    def devices_file(self) -> Path:
        """A devices.yml that lists the board."""
        return self.folder / "devices.yml"

    @property
    def log(self) -> Path:
        """The log of making and running the board."""
        return self.folder / "log"

    @property
    def exists(self) -> bool:
        """Whether the board's root and keys have been made."""
        return self.root.is_dir() and self.key_file.is_file()

    @property
    def entry(self) -> dict[str, Any]:
        """The unit as devices.yml lists it."""
        return {
            "transport": "ssh",
            "address": ADDRESS,
            "port": self.port,
            "username": USER,
            "key_file": str(self.key_file.resolve()),
            "target_abis": ["arm64"],
            "target_socs": debian_root.SOC,
            "models": debian_root.MODEL,
        }

    @property
    def handler(self) -> str:
        """The name of the board's emulator in binfmt_misc, different for every board's folder."""
        return f"farm-board-{hashlib.sha256(os.fsencode(self.folder.resolve())).hexdigest()[:12]}"

    @property
    def state_file(self) -> Path:
        """The file that holds process and port of a running board."""
        return self.folder / "running.json"


def make(board: Board, say: Say, mirror: tuple[str, str] | None = None) -> None:
    """Makes the board unless it exists.

    Raises ConfigError where this machine cannot (not root, programs missing, no mirror), JobError where making fails.
    """
    namespace.require_namespaces()
    with _locked(board):
        if not board.exists:
            shutil.rmtree(board.root, ignore_errors=True)
            chosen = mirror or debian_root.apt_mirror()
            debian_root.make(board.root, board.folder / "packages", board.log, board.handler, chosen, say)
            _move_keys_out(board)


def start(board: Board, say: Say, mirror: tuple[str, str] | None = None) -> None:
    """Makes the board if needed, starts it, and waits until its sshd answers; port 0 stands for any free one."""
    board = dataclasses.replace(board, port=board.port or _free_port())  # before the making: it names the emulator
    make(board, say, mirror)
    with _locked(board):
        if running(board) is None:
            _check_port(board.port)
            began = time.monotonic()
            _wait_for_sshd(board, _launch(board))
            say(f"{time.monotonic() - began:6.1f} s  starting sshd")


def stop(board: Board) -> bool:
    """Ends all processes of the board; False when it was not running."""
    process = running(board)
    if not _state(board):
        return False
    namespace.require_root()
    if process:
        processes = [process, *process.children(recursive=True)]
        process.kill()  # the first process of the board dies with it, and the kernel kills the rest
        _, alive = psutil.wait_procs(processes, STOP_DEADLINE_S)
        if alive:
            raise DeadlineError(f"the board's process {alive[0].pid} did not end within {STOP_DEADLINE_S:g} s")
    namespace.unregister_handler(board.handler)
    board.state_file.unlink(missing_ok=True)
    return process is not None


def remove(board: Board, packages: bool = False) -> None:
    """Stops and deletes the board; with `packages` also the packages that were downloaded for it."""
    if not board.folder.is_dir():
        return
    namespace.require_root()
    stop(board)
    with _locked(board):
        for path in board.folder.iterdir():
            if path.is_dir() and (packages or path.name != "packages"):
                shutil.rmtree(path)
            elif path.is_file():
                path.unlink()
    with contextlib.suppress(OSError):
        board.folder.rmdir()


def running(board: Board) -> psutil.Process | None:
    """The board's first process; None when it does not run."""
    state = _state(board)
    with contextlib.suppress(psutil.Error, KeyError):
        process = psutil.Process(state["pid"])
        if process.create_time() == state["created"] and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def running_port(board: Board) -> int:
    """The port of a running board, which may differ from that of `board`."""
    return int(_state(board).get("port", board.port))


def _state(board: Board) -> dict[str, Any]:
    try:
        state = json.loads(board.state_file.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _move_keys_out(board: Board) -> None:
    """Moves the user's key pair out of the root, and gives it to the user who called sudo."""
    owner = int(os.environ.get("SUDO_UID", "0")), int(os.environ.get("SUDO_GID", "0"))
    for suffix in (".pub", ""):
        source, target = board.root / f"{USER_KEY}{suffix}", board.key_file.with_suffix(suffix)
        shutil.move(source, target)
        os.chown(target, *owner)


def _launch(board: Board) -> psutil.Process:
    """Writes known_hosts and devices.yml, starts sshd, and notes its process."""
    public = (board.root / f"{HOST_KEY}.pub").read_text().split()
    atomic_file.write(board.known_hosts, f"[{ADDRESS}]:{board.port} {public[0]} {public[1]}\n".encode())
    entry = {"devices": {"board": board.entry}}
    atomic_file.write(board.devices_file, yaml.safe_dump(entry, sort_keys=False).encode())
    command = namespace.command_in_namespace(board.handler, [SSHD, "-D", "-e", "-p", str(board.port)], board.root)
    output = (os.POSIX_SPAWN_OPEN, 1, board.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), output, (os.POSIX_SPAWN_DUP2, 1, 2)]
    pid = os.posix_spawnp(command[0], command, namespace.ENVIRONMENT, file_actions=files, setsid=True)
    process = psutil.Process(pid)
    state = {"pid": process.pid, "created": process.create_time(), "port": board.port}
    atomic_file.write(board.state_file, json.dumps(state).encode())
    return process


def _wait_for_sshd(board: Board, process: psutil.Process) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while not _answers(board.port):
        if running(board) is None:
            raise JobError(f"the board ended at its start: {namespace.log_tail(board.log)}")
        if time.monotonic() > deadline:
            process.kill()
            raise DeadlineError(f"the board's sshd did not answer within {START_DEADLINE_S:g} s; see {board.log}")
        time.sleep(POLL_S)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((ADDRESS, port), timeout=START_DEADLINE_S) as link:
        return link.recv(4) == b"SSH-"
    return False


def _free_port() -> int:
    with socket.create_server((ADDRESS, 0)) as server:
        return int(server.getsockname()[1])


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            raise ConfigError(f"port {port} of {ADDRESS} is in use; name another: --port NUMBER") from None


@contextlib.contextmanager
def _locked(board: Board) -> Iterator[None]:
    board.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(board.folder / "lock", timeout=0):
            yield
    except Timeout:
        raise ConfigError(f"{board.folder}: another command is making or starting this board") from None
