"""The adb server's list of devices is parsed, whatever its size and content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.transport.adb_server import parse_device, strip_length_prefix
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
