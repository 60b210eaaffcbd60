"""Text is UTF-8 whatever the locale: files, names, tables."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.cli import standard_streams
from tests.conftest import require
from tests.farm.model.tiny_model import write_deployment

FARM = [sys.executable, "-c", "from farm.cli import main; main()"]


def farm(*arguments: str, **settings: str) -> tuple[int, bytes, bytes]:
    """Exit status and outputs in a process with a locale of its own, where Python's ways around it are off."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    environ = kept | {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"} | settings
    done = subprocess.run([*FARM, *arguments], env=environ, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_names_and_files_are_utf8_in_every_locale(own_folder: Path, locale: str) -> None:
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.replace("iso8859", "ISO-8859-")
    require("locales", "" if locale in known.split() else f"without {locale} this is the locale C once more")
    text = write_deployment(own_folder, runtime="cpu").read_text()
    (own_folder / "größe.yml").write_text(text.replace("tiny.onnx", "größe.onnx"), encoding="utf-8")
    status, _, errors = farm("inspect", "größe.yml", LC_ALL=locale)
    assert status == 2 and "größe.onnx" in errors.decode("utf-8")
    (own_folder / "tiny.onnx").rename(own_folder / "größe.onnx")
    status, output, errors = farm("inspect", "größe.yml", LC_ALL=locale)
    assert (status, errors) == (0, b"") and b"tiny" in output


@pytest.mark.slow
def test_what_a_stream_cannot_hold_is_an_escape(own_folder: Path) -> None:
    status, _, errors = farm("jobs", "show", "größe", "--cluster", "größe", LC_ALL="C.UTF-8", PYTHONIOENCODING="latin2")
    assert status == 2 and "größe".encode("latin2") in errors
    status, _, errors = farm("jobs", "show", "€", "--cluster", "€", LC_ALL="C.UTF-8", PYTHONIOENCODING="latin2")
    assert status == 2 and b"\\u20ac" in errors


def test_a_process_starts_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were UTF-8 mode not in force after that either, it would do so for ever."""
    started: list[list[str]] = []
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    monkeypatch.setattr(os, "execv", lambda program, words: started.append(words))
    monkeypatch.setenv("PYTHONUTF8", "0")
    standard_streams.ensure_utf8()
    assert len(started) == 1 and started[0][1:3] == ["-X", "utf8"] and os.environ["PYTHONUTF8"] == "1"
