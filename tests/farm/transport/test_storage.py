"""What a unit's storage has room for, and the error where it has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.transport import storage
from farm.transport.local import LocalTransport
from runtime.errors import DeviceError


@pytest.mark.parametrize(
    ("line", "free"),
    [
        ("/dev/root 1000 600 400 60% /", 400 * 1024),
        ("/dev/block/by-name/user data 1000 1000 0 100% /data", 0),
        ("/dev/sda1 1000 600 400 60% /media/pi/My 64 GB 10 stick", 400 * 1024),
        ("                 1000 600 400 60% /a line that df broke", 400 * 1024),
        ("none 0 0 0 - /proc", 0),
        ("/dev/root 1000 600 some 60% /", None),
        ("/dev/root 1000 600 -4 60% /", None),
        ("df: no such folder", None),
        ("", None),
    ],
)
def test_the_free_bytes_are_those_of_df(line: str, free: int | None) -> None:
    assert storage.free_bytes(line) == free


def test_files_need_whole_blocks() -> None:
    assert storage.space_needed([1, 4096, 4097, 0]) == (1 + 1 + 2) * 4096


def test_there_is_no_error_where_files_fit_or_nobody_knows() -> None:
    assert storage.no_space_error("pixel: /data", 4096, 4096) is None
    assert storage.no_space_error("pixel: /data", 4096, None) is None


def test_a_full_disk_of_this_machine_is_told_in_figures(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(3_000_000))
    opened = LocalTransport(small_disk / "unit")
    with pytest.raises(DeviceError, match=r"\S+/disk/unit: no space left: 3.0 MB needed, 1.0 MB free"):
        opened.push({"large": tmp_path / "large"})
    assert list((small_disk / "unit").iterdir()) == []
