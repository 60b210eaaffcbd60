"""farmrt hashes files while they arrive."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest


def started(program: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [program, "arriving", *words], stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, text=True, bufsize=1
    )


def test_files_are_hashed_while_they_grow(farmrt_program: Path, tmp_path: Path) -> None:
    contents = {"large": os.urandom(700_001), "empty": b"", "pro gram": b"#!/bin/sh\n"}
    words = [word for name, content in contents.items() for word in (str(len(content)), name)]
    with started(farmrt_program, tmp_path, *words) as process:
        for name, content in contents.items():
            with (tmp_path / name).open("wb", buffering=0) as file:
                for start in range(0, len(content), 200_000):
                    file.write(content[start : start + 200_000])
                    time.sleep(0.01)
        (tmp_path / "pro gram").chmod(0o755)
        answer, errors = process.communicate("sent\n")
    modes = {"large": "-", "empty": "-", "pro gram": "x"}
    expected = [f"file {modes[name]} {hashlib.sha256(content).hexdigest()}" for name, content in contents.items()]
    assert (answer.splitlines(), errors, process.returncode) == (expected, "", 0)


def test_all_files_are_told_of_in_one_write(farmrt_program: Path, tmp_path: Path) -> None:
    names = [f"file{number}" for number in range(9)]
    for name in names:
        (tmp_path / name).write_text(name)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # keeps writes apart
    with ours, theirs:
        words = [word for name in names for word in (str(len(name)), name)]
        command = [farmrt_program, "arriving", *words]
        subprocess.run(command, input=b"sent\n", stdout=theirs, cwd=tmp_path, check=True)
        ours.setblocking(False)
        answer = ours.recv(65536).decode().splitlines()
        with pytest.raises(BlockingIOError):
            ours.recv(65536)
    assert answer == [f"file - {hashlib.sha256(name.encode()).hexdigest()}" for name in names]


def test_what_follows_the_line_is_left_for_others(farmrt_program: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    script = '"$1" arriving 1 a; cat'
    done = subprocess.run(
        ["sh", "-c", script, "sh", farmrt_program], input="sent\nnext\n", capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == f"file - {hashlib.sha256(b'x').hexdigest()}\nnext\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["9", "three"], "three: has another size"),
        (["2", "three"], "three: has another size"),
        (["1", "gone"], "gone: No such file or directory"),
        (["1", "."], ".: Is a directory"),
    ],
)
def test_files_that_are_not_whole_are_named(farmrt_program: Path, tmp_path: Path, words: list[str], error: str) -> None:
    (tmp_path / "three").write_bytes(b"abc")
    with started(farmrt_program, tmp_path, *words) as process:
        assert process.communicate("sent\n") == ("", f"farmrt: {error}\n")
    assert process.returncode == 1


def test_a_sender_that_goes_away_ends_the_wait(farmrt_program: Path, tmp_path: Path) -> None:
    with started(farmrt_program, tmp_path, "9", "never") as process:
        assert process.communicate("", timeout=30)[0] == ""
    assert process.returncode == 1


@pytest.mark.parametrize("words", [[], ["1"], ["1", "a", "2"], ["-1", "a"], ["x", "a"], ["1x", "a"], ["", "a"]])
def test_words_that_are_no_pairs_are_refused(farmrt_program: Path, words: list[str]) -> None:
    done = subprocess.run([farmrt_program, "arriving", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: farmrt probe" in done.stderr
