"""The command line, as the tests call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from farm import cli

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def farm(capsys: pytest.CaptureFixture[str]) -> Say:
    """Calls `farm` with these arguments; returns exit status, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.call(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a new folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
