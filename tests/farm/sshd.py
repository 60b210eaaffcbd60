"""A real sshd on a free loopback port, run as the test's user, with keys and settings in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import require

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
START_S = 10.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@contextmanager
def running_sshd(folder: Path, authorized: str, *options: str) -> Iterator[tuple[int, str]]:
    """Yields its port and its public host key; options such as `MaxSessions=1`. Skips where there is no sshd."""
    require("sshd", "" if SSHD and shutil.which("ssh-keygen") else "no sshd and ssh-keygen on this machine")
    assert SSHD
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
        f"ListenAddress=127.0.0.1:{port}",
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
        wait_for_port(port)
        yield port, (folder / "host_key.pub").read_text()
    finally:
        server.terminate()
        server.wait()


def wait_for_port(port: int) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as link:
                if link.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        assert time.monotonic() < end, "sshd does not answer"
        time.sleep(0.02)
