from __future__ import annotations

import pytest

from farm.config.adb_address import LOCAL, AdbAddress, parse_adb_address


@pytest.mark.parametrize(
    ("text", "address", "place"),
    [
        ("5038", AdbAddress(port=5038), "port 5038"),
        ("localhost:5038", AdbAddress(port=5038), "port 5038"),
        ("127.0.0.1", LOCAL, "port 5037"),
        ("bench7", AdbAddress("bench7"), "bench7:5037"),
        ("bench7:5038", AdbAddress("bench7", 5038), "bench7:5038"),
        ("[::1]:5038", AdbAddress("::1", 5038), "::1:5038"),
        ("ssh://bench7", AdbAddress(ssh="bench7"), "port 5037 of bench7"),
        ("ssh://me@bench7:22/5038", AdbAddress(port=5038, ssh="me@bench7:22"), "port 5038 of me@bench7:22"),
    ],
)
def test_every_form_names_one_server(text: str, address: AdbAddress, place: str) -> None:
    found = parse_adb_address(text)
    assert found == address
    assert found.at(found.port or 5037) == place
    assert found.is_local == ("port" in place and " of " not in place)


@pytest.mark.parametrize(
    "text",
    ["", "0", "65536", "bench7:0", "-oProxyCommand=x", "ssh://", "ssh://-x", "ssh://a/b", "a b", "a:b:c", "tcp://a"],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no adb server|no port"):
        parse_adb_address(text)
