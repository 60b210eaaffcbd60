"""The adb programs that tests run with: adbutils' for all, and Debian's as well where phones are lost and return.

Debian's is of 2019 (29.0.6) and what `apt install adb` gives. FARM_DEBIAN_ADB names it where it is not in /usr/bin.
"""

import importlib.util
import os
from pathlib import Path

import pytest

ADBUTILS, DEBIAN = "adbutils", "debian"
NAMES = (ADBUTILS, DEBIAN)


def path_of(name: str) -> Path | None:
    """The program; None where this machine has none."""
    if name == DEBIAN:
        path = Path(os.environ.get("FARM_DEBIAN_ADB", "/usr/bin/adb"))
    else:
        spec = importlib.util.find_spec("adbutils")
        path = Path(*(spec.submodule_search_locations or () if spec else ())[:1], "binaries", "adb")
    return path if os.access(path, os.X_OK) else None


def missing(name: str) -> str:
    """Why tests with that program cannot run here; empty where they can."""
    return "" if name == ADBUTILS or path_of(name) else "no adb of Debian's on this machine (apt install adb)"


def search_path(program: Path) -> str:
    """A PATH on which that program's folder comes first."""
    return os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)])


def use(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the program the one that farm finds; `folder` is empty and gets nothing else, since /usr/bin has more."""
    program = path_of(name)
    if program:
        (folder / "adb").symlink_to(program)
        monkeypatch.setenv("PATH", search_path(folder / "adb"))
