from __future__ import annotations

from pathlib import Path

import pytest

from farm.units.usb import may_have_phone


def plug(sysfs: Path, name: str, *, interface: str) -> None:
    folder = sysfs / name
    folder.mkdir(parents=True)
    files = ("bInterfaceClass", "bInterfaceSubClass", "bInterfaceProtocol")
    for file, value in zip(files, interface.split(), strict=True):
        (folder / file).write_text(f"{value}\n")


def test_a_phone_is_told_from_a_keyboard(tmp_path: Path) -> None:
    assert not may_have_phone(tmp_path, "linux")
    plug(tmp_path, "1-1:1.0", interface="03 01 01")
    plug(tmp_path, "1-2:1.0", interface="ff 42 03")  # fastboot
    (tmp_path / "1-3:1.0").mkdir()
    assert not may_have_phone(tmp_path, "linux")
    plug(tmp_path, "1-4:1.1", interface="ff 42 01")
    assert may_have_phone(tmp_path, "linux")


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_where_nobody_tells_there_may_be_one(tmp_path: Path, system: str) -> None:
    assert may_have_phone(tmp_path, system)
