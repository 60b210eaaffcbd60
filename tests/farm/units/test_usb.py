"""USB devices that may be phones, from sysfs."""

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


def test_only_a_device_with_adbs_interface_counts_as_a_phone(tmp_path: Path) -> None:
    assert not may_have_phone(tmp_path, "linux")
    plug(tmp_path, "1-1:1.0", interface="03 01 01")
    plug(tmp_path, "1-2:1.0", interface="ff 42 03")  # fastboot
    (tmp_path / "1-3:1.0").mkdir()
    assert not may_have_phone(tmp_path, "linux")
    plug(tmp_path, "1-4:1.1", interface="ff 42 01")
    assert may_have_phone(tmp_path, "linux")


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_systems_without_sysfs_may_always_have_a_phone(tmp_path: Path, system: str) -> None:
    assert may_have_phone(tmp_path, system)
