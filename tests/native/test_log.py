"""farmrt's log: on standard error, off by default, and never among the answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from farm.toolchain import environment

LINES = "probe opencl=/nonexistent\nlog level=%s\nprobe opencl=/nonexistent\nquit\n"


def serve(program: Path, *words: str, level: str = "off", **variables: str) -> tuple[list[bool], str]:
    """Whether each answer is good, and what was said on standard error."""
    done = subprocess.run(
        [program, *words, "serve"], input=LINES % level, capture_output=True, text=True, env=environment() | variables
    )
    return [json.loads(line)["ok"] for line in done.stdout.splitlines()], done.stderr


def test_it_is_off_unless_it_is_asked_for(farmrt_program: Path) -> None:
    assert serve(farmrt_program) == ([True] * 4, "")


@pytest.mark.parametrize("how", ["option", "environment", "command"])
def test_it_is_asked_for(farmrt_program: Path, how: str) -> None:
    words = ["--log=info"] if how == "option" else []
    variables = {"FARMRT_LOG": "info"} if how == "environment" else {}
    oks, said = serve(farmrt_program, *words, level="info", **variables)
    assert oks == [True] * 4
    lines = said.splitlines()
    assert all(line.startswith("farmrt: info: ") for line in lines)
    assert sum("probe: ok after" in line for line in lines) == (1 if how == "command" else 2)


def test_debug_says_more_than_info(farmrt_program: Path) -> None:
    _, said = serve(farmrt_program, level="debug")
    assert "farmrt: debug: OpenCL library /nonexistent: not there, or no library\n" in said


def test_an_unknown_level(farmrt_program: Path) -> None:
    assert serve(farmrt_program, level="loud")[0] == [True, False, True, True]
    assert serve(farmrt_program, FARMRT_LOG="loud") == ([True] * 4, "")
    done = subprocess.run([farmrt_program, "--log=loud", "serve"], capture_output=True, text=True)
    assert done.returncode == 2 and "--log=off|info|debug" in done.stderr
