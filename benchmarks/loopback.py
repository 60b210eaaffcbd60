"""Units on this machine: a real sshd with keys, settings and a home of its own; an emulated phone, an adb server."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.transport.adb_server import find_adb

ADDRESS = "127.0.0.1"
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MISSING = "" if SSHD and shutil.which("ssh-keygen") else "no sshd and ssh-keygen on this machine"
START_S = 10.0


def free_port() -> int:
    with socket.create_server((ADDRESS, 0)) as server:
        return int(server.getsockname()[1])


def make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@contextmanager
def running_sshd(folder: Path, authorized: str, *options: str) -> Iterator[tuple[int, str]]:
    """Yields its port and its public host key.

    Args:
        folder: is made.
        authorized: public keys that may log in, a line each.
        options: beside ours, such as `MaxSessions=1`.
    """
    assert SSHD, MISSING
    home = folder / "home"
    home.mkdir(mode=0o700, parents=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    host_key = make_key(folder / "host_key")
    (folder / "authorized_keys").write_text(authorized)
    port = free_port()
    settings = [
        f"HostKey={host_key}",
        f"AuthorizedKeysFile={folder / 'authorized_keys'}",
        f"ListenAddress={ADDRESS}:{port}",
        "PidFile=none",
        "StrictModes=no",
        "UsePAM=no",
        "PasswordAuthentication=no",
        "Subsystem=sftp internal-sftp",
        f"SetEnv=HOME={home}",
        *options,
    ]
    arguments = [argument for setting in settings for argument in ("-o", setting)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", "/dev/null", *arguments], stderr=log)
    try:
        _wait_for(port)
        yield port, (folder / "host_key.pub").read_text()
    finally:
        server.terminate()
        server.wait()


@contextmanager
def running_phone() -> Iterator[str]:
    """Address of an emulated phone in a process of its own."""
    argv = [sys.executable, "-c", "from farm.cli import main; main()", "emulate", "phone", "--port", "0", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield str(json.loads(process.stdout.readline())["address"])
        finally:
            process.terminate()


@contextmanager
def running_adb_server(folder: Path) -> Iterator[int]:
    """Port of an adb server with keys and log in `folder`."""
    port = free_port()
    adb = [find_adb(), "-P", str(port)]
    environment = os.environ | {"HOME": str(folder), "TMPDIR": str(folder), "ADB_MDNS": "0"}
    subprocess.run([*adb, "start-server"], env=environment, check=True, capture_output=True)
    try:
        yield port
    finally:
        subprocess.run([*adb, "kill-server"], env=environment, check=True, capture_output=True)


def _wait_for(port: int) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            with socket.create_connection((ADDRESS, port), 1) as link:
                if link.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        assert time.monotonic() < end, "sshd does not answer"
        time.sleep(0.02)
