"""Runs the program that makes an engine's form of a model, on this machine."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from farm import safe_text
from runtime.errors import DeviceError, UnsupportedError

DEADLINE_S = 900.0
WORDS = 300


def run_converter(engine: str, command: Sequence[str], made: Path) -> None:
    """Runs a command that writes `made`; UnsupportedError with its last words where it does not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise DeviceError(f"{engine}: its converter did not end within {DEADLINE_S:g} s") from None
    if done.returncode or not made.is_file():
        said = safe_text.word(f"{done.stdout} {done.stderr}".strip()[-WORDS:], WORDS)
        raise UnsupportedError(f"{engine} does not convert the model: {said}")
