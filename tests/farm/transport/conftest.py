"""What the tests of several transports need."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import require


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    (tmp_path / "disk").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path / "disk"], capture_output=True)
    require("root", mounted.stderr.decode())
    yield tmp_path / "disk"
    subprocess.run(["umount", tmp_path / "disk"], check=True)
