"""What the tests of several transports need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.farm.disks import disk_at


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with disk_at(tmp_path / "disk", 1) as disk:
        yield disk


@pytest.fixture(scope="module")
def port(adb_port: int) -> int:
    return adb_port
