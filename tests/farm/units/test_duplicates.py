"""A phone that adb lists twice is one unit: which of its entries stays, and that only possible duplicates are asked."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from farm.config.adb_address import LOCAL
from farm.config.inventory import HOST, Unit
from farm.units import duplicates
from farm.units.duplicates import merge_duplicates, read_identities
from farm.units.survey import AdbPhone, UnitEntry


def entry(serial: str, listed: bool = False, name: str = "") -> UnitEntry:
    return UnitEntry(Unit(name or serial, "adb", "unknown", "x", (), serial=serial), listed=listed)


def kept(entries: Sequence[UnitEntry], *same: str) -> list[tuple[str, tuple[str, ...]]]:
    """Name and aliases of what is left where these serials are one phone."""
    identities = {(LOCAL, serial): b"one" for serial in same}
    return [(each.unit.name, each.unit.aliases) for each in merge_duplicates(entries, identities)]


MDNS = "adb-0123-x (2)._adb-tls-connect._tcp"


def test_one_phone_by_usb_and_mdns_is_one_unit() -> None:
    assert kept([entry(MDNS), entry("0123")], MDNS, "0123") == [("0123", (MDNS,))]


@pytest.mark.parametrize("order", list(itertools.permutations(["emulator-5554", "127.0.0.1:5555", "other"])))
def test_the_entry_that_is_not_in_the_network_stays(order: tuple[str, ...]) -> None:
    found = kept([entry(serial) for serial in order], "emulator-5554", "127.0.0.1:5555")
    assert sorted(found) == [("emulator-5554", ("127.0.0.1:5555",)), ("other", ())]


def test_the_entry_of_devices_yml_stays_and_the_others_are_its_aliases() -> None:
    entries = [UnitEntry(HOST), entry("10.0.0.5:5555", True, "wifi"), entry("0123", True, "usb"), entry("a:1")]
    found = kept(entries, "10.0.0.5:5555", "0123", "a:1")
    assert found == [("host", ()), ("wifi", ("usb", "0123", "a:1"))]


def test_phones_that_do_not_say_what_they_are_stay() -> None:
    assert [name for name, _ in kept([entry("emulator-5554"), entry("127.0.0.1:5555")])] == [
        "emulator-5554",
        "127.0.0.1:5555",
    ]


@pytest.mark.parametrize(
    ("phones", "asked"),
    [
        ([AdbPhone("0123", model="A"), AdbPhone("4567", model="A")], []),
        ([AdbPhone("0123", model="A"), AdbPhone("b:1", model="B")], []),
        ([AdbPhone("0123", model="A"), AdbPhone("b:1", "offline", model="A")], []),
        ([AdbPhone("0123", model="A"), AdbPhone("b:1", model="A"), AdbPhone("c", model="C")], ["0123", "b:1"]),
        ([AdbPhone("usb:1-1", model="A"), AdbPhone("usb:1-2", model="A")], []),
        ([AdbPhone("0123", model="A"), AdbPhone(MDNS, model="A")], ["0123", MDNS]),
    ],
)
def test_only_phones_that_may_be_the_same_are_asked(
    phones: list[AdbPhone], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "_read_identity", lambda key: key[1].encode())
    assert read_identities({LOCAL: phones}) == {(LOCAL, serial): serial.encode() for serial in asked}
