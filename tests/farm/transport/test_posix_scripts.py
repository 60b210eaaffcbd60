"""What scripts print on units, in the shells that units have."""

from __future__ import annotations

import hashlib
import shlex
import socket
import subprocess
from pathlib import Path
from typing import IO

import pytest

from farm.transport.posix_scripts import INSPECT, SERVE, PathStatus, parse_inspection
from runtime.native.build import build_farmrt
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


@pytest.mark.parametrize("shell", SHELLS)
def test_one_program_serves_pushes_one_after_another(tmp_path: Path, shell: str) -> None:
    environment, folder = shell_environment(shell, tmp_path / "programs"), tmp_path / "unit"
    folder.mkdir()
    (folder / "farmrt").symlink_to(build_farmrt("host"))
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", SERVE], stdin=pipe, stdout=pipe, cwd=folder, env=environment) as program:
        assert program.stdin and program.stdout
        for number, name in enumerate(("it's", "$HOME `id` \\n", "*")):
            _tell(program.stdin, "inspect", "./farmrt", f"./{name}")
            assert program.stdout.readline() == b"none 0\n"
            part = folder / f"push-{number}" / "0" / name
            push, arriving = f"push-{number}", f"./push-{number}/0/{name}"
            _tell(program.stdin, "receive", "./farmrt", push, f"./{push}/0", ".", "--", "5", arriving)
            part.parent.mkdir(parents=True)
            part.write_bytes(b"bytes")
            program.stdin.write(b"sent\n")
            program.stdin.flush()
            assert program.stdout.readline() == f"file - {hashlib.sha256(b'bytes').hexdigest()}\n".encode()
            _tell(program.stdin, "install")
            assert program.stdout.readline() == b"installed\n"
        program.stdin.close()
        assert program.wait(60) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(["it's", "$HOME `id` \\n", "*", "farmrt"])


def _tell(pipe: IO[bytes], *words: str) -> None:
    pipe.write(shlex.join(words).encode() + b"\n")
    pipe.flush()
