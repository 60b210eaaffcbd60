"""Phones that are there: the adb server's list is parsed, whatever its size and content, and USB is asked by sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.transport.adb_server import parse_device, strip_length_prefix
from farm.units.discovery import may_have_phone
from runtime.errors import DeviceError


@pytest.mark.parametrize("size", [0, 1, 0xFFFF, 0x10000, 2**20])
def test_a_list_of_any_size_is_read(size: int) -> None:
    """A list above 64 KiB has more than four digits of length."""
    assert strip_length_prefix(b"%04x" % size + b"x" * size) == b"x" * size


@pytest.mark.parametrize("answer", [b"", b"0002x", b"zzzz", b"0001xx", b"HTTP/1.1 400"])
def test_a_list_without_its_length_is_refused(answer: bytes) -> None:
    with pytest.raises(DeviceError, match="cannot be read"):
        strip_length_prefix(answer)


@pytest.mark.slow
@given(st.text())
def test_any_line_of_the_list_is_a_device_or_none(line: str) -> None:
    found = parse_device(line)
    assert found is None or (found.serial and found.state)


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
