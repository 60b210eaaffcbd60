"""What scripts print on units, in the shells that units have."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from pathlib import Path

import pytest

from farm.transport.posix_scripts import INSPECT, PathStatus, parse_inspection
from tests.farm.transport.unit_shells import SHELLS, shell_environment


@pytest.mark.parametrize("shell", SHELLS)
def test_an_inspection_is_one_write(tmp_path: Path, shell: str) -> None:
    """Each would be a packet of adb's that is answered."""
    environment, folder = shell_environment(shell, tmp_path / "programs"), tmp_path / "unit"
    folder.mkdir()
    for name in ("a", "b", "back\\slash"):
        (folder / name).write_text(name)
    (folder / "b").chmod(0o755)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # keeps writes apart
    with ours, theirs:
        names = ["./a", "./new/folder/c", "./b", "./back\\slash", "."]
        subprocess.run(["sh", "-c", INSPECT, "sh", "", *names], stdout=theirs, cwd=folder, env=environment, check=True)
        ours.setblocking(False)
        lines = ours.recv(65536).splitlines()
        with pytest.raises(BlockingIOError):
            ours.recv(65536)
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b", "back\\slash")}
    assert parse_inspection(lines, len(names)) == [
        PathStatus(state=(False, hashes["a"])),
        PathStatus(missing=2),
        PathStatus(state=(True, hashes["b"])),
        PathStatus(state=(False, hashes["back\\slash"])),
        PathStatus(is_folder=True),
    ]
