"""The units that a deployment file is for."""

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm import cli
from farm.config import deployment
from farm.config.adb_address import LOCAL, AdbAddress
from farm.config.inventory import HOST, Unit
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone
from farm.emulation.phone_unit import private_adb_server
from farm.transport.adb_server import AdbServer, parse_device, strip_length_prefix
from farm.units import lookup
from farm.units.lookup import may_have_phone, merge_duplicates, read_identities
from farm.units.selection import SelectableUnit, Selection
from farm.units.survey import AdbPhone, UnitEntry
from runtime.errors import DeviceError
from tests.farm.model.tiny_model import deployment_text


def phone(name: str, state: str = "ready") -> SelectableUnit:
    return SelectableUnit(Unit(name, "adb", "sdm845", name, ("arm64-v8a",), serial=name), state)


@pytest.mark.parametrize(("socs", "chosen"), [("all", "abc"), ("sdm845", "abc"), ("random", "c")])
def test_all_and_random_mean_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socs: str, chosen: str
) -> None:
    """Of `random` one unit is left to chance, of those that are ready; a unit that the user names goes before it."""
    drawn: list[Any] = []
    monkeypatch.setattr(random, "choice", lambda units: drawn.extend(units) or units[-1])
    path = tmp_path / "net.yml"
    path.write_text(deployment_text().replace("target_abis: [host]", f"target_abis: [arm64-v8a]\ntarget_socs: {socs}"))
    source = deployment.load(path)
    there = [phone("a"), phone("b", "busy"), phone("c")]
    assert "".join(unit.name for unit in lookup.units_among(there, source)) == chosen
    assert [candidate.unit.name for candidate in drawn] == (["a", "c"] if socs == "random" else [])
    assert [unit.name for unit in lookup.units_among(there, source, Selection(devices=("b",)))] == ["b"]


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
    monkeypatch.setattr(lookup, "_read_identity", lambda key: key[1].encode())
    assert read_identities({LOCAL: phones}) == {(LOCAL, serial): serial.encode() for serial in asked}


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


CONNECT_S = 60.0
List = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.chdir(tmp_path)
    with private_adb_server(tmp_path) as found:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(found))
        yield found


@pytest.fixture
def plug_phone(port: int) -> Iterator[Callable[..., EmulatedPhone]]:
    """Starts a phone and lets the server connect to it."""
    with ExitStack() as stack:

        def start(*faults: str, **settings: Any) -> EmulatedPhone:
            phone = stack.enter_context(EmulatedPhone(PhoneSettings(**settings)))
            for fault in faults:
                phone.inject(fault)
            AdbServer(AdbAddress(port=port)).connect(f"127.0.0.1:{phone.port}", time.monotonic() + CONNECT_S)
            return phone

        yield start


@pytest.fixture
def listed(capsys: pytest.CaptureFixture[str]) -> List:
    def call(*arguments: str) -> list[dict[str, Any]]:
        assert cli.call(["devices", "--json", *arguments]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["devices"]
        return found

    return call


@pytest.mark.slow
def test_phones_are_found_without_being_listed(plug_phone: Any, listed: List) -> None:
    plug_phone(soc="sdm845", model="MI 8")
    plug_phone(soc="sm8150", android=10)
    host, *phones = listed()
    by_soc = {phone["soc"]: phone for phone in phones}
    mi8 = by_soc["sdm845"]
    assert host["name"] == "host" and set(by_soc) == {"sdm845", "sm8150"}
    assert mi8["name"] == f"MI_8-{mi8['serial'].replace(':', '-')}"
    assert (mi8["model"], mi8["abis"], mi8["os"], mi8["state"]) == ("MI 8", ["host"], "Android 14 (API 34)", "ready")
    assert mi8["temperature_c"] > 0 and 0 < mi8["battery_percent"] <= 100 and not mi8["listed"]
    assert [each["name"] for each in listed("--soc", "SDM845")] == [mi8["name"]]
    assert [each["soc"] for each in listed("--soc", "msmnile")] == ["sm8150"]
    assert [unit.soc for unit in lookup.chosen_units(Selection(devices=(mi8["serial"],)))] == ["sdm845"]


@pytest.mark.slow
def test_devices_yml_names_and_restricts_the_phones(plug_phone: Any, listed: List) -> None:
    named, other = plug_phone(soc="sdm845"), plug_phone(soc="sdm845")
    entry = f"  emulated: {{transport: adb, address: 127.0.0.1, port: {named.port}, tags: lab, models: My phone}}\n"
    Path("devices.yml").write_text(f"devices:\n{entry}")
    emulated, found = listed()
    assert (emulated["name"], emulated["model"], emulated["soc"], emulated["listed"]) == (
        "emulated",
        "My phone",
        "sdm845",
        True,
    )
    assert found["serial"] == f"127.0.0.1:{other.port}"
    assert len(listed("--soc", "sdm845", "--one-per-soc")) == 1
    Path("devices.yml").write_text(f"adb: {{discover: listed}}\ndevices:\n{entry}")
    assert [each["name"] for each in listed()] == ["emulated"]


@pytest.mark.slow
@pytest.mark.parametrize("shell_v2", [True, False])
def test_a_phone_that_adb_lists_twice_is_one_unit(port: int, plug_phone: Any, listed: List, shell_v2: bool) -> None:
    phone, other = plug_phone(soc="sdm845", shell_v2=shell_v2), plug_phone(soc="sdm845", serial="shared")
    AdbServer(AdbAddress(port=port)).connect(f"localhost:{phone.port}", time.monotonic() + CONNECT_S)
    first, second = f"127.0.0.1:{phone.port}", f"localhost:{phone.port}"
    found = {each["serial"]: each["aliases"] for each in listed() if each["transport"] == "adb"}
    assert found in ({first: [second], f"127.0.0.1:{other.port}": []}, {second: [first], f"127.0.0.1:{other.port}": []})
    Path("devices.yml").write_text(f"devices: {{mi8: {{transport: adb, address: localhost, port: {phone.port}}}}}\n")
    for name in ("mi8", first, second):
        assert [(each["name"], each["aliases"]) for each in listed("--device", name)] == [("mi8", [first])]
    assert cli.call(["devices", "--device", "mi8"]) == 0


@pytest.mark.slow
def test_an_absent_phone_shows_its_cached_facts(port: int, plug_phone: Any, listed: List) -> None:
    phone = plug_phone(soc="sdm845")
    Path("devices.yml").write_text(
        f"devices: {{emulated: {{transport: adb, address: 127.0.0.1, port: {phone.port}}}}}\n"
    )
    assert listed()[0]["state"] == "ready"
    phone.inject("disconnect:away=60")
    end_s = time.monotonic() + CONNECT_S
    while (emulated := listed()[0])["state"] == "ready":
        assert time.monotonic() < end_s
    assert (emulated["soc"], emulated["abis"]) == ("sdm845", ["host"])
    assert emulated["state"] in ("offline", "unreachable") and emulated["reason"]


@pytest.mark.slow
def test_an_unauthorized_phone_says_what_to_do(plug_phone: Any, listed: List) -> None:
    plug_phone("unauthorized", soc="sdm845")
    (phone,) = (each for each in listed() if each["transport"] == "adb")
    assert (phone["state"], phone["soc"]) == ("unauthorized", "unknown")
    assert "screen" in phone["reason"]


@pytest.mark.slow
def test_a_missing_usb_phone_says_so(port: int, listed: List) -> None:
    Path("devices.yml").write_text("devices: {emulated: {serial: 0123456789}}\n")
    (emulated,) = listed()
    assert emulated["state"] == "not connected" and "0123456789" in emulated["reason"]


HOSTILE = {
    "escapes": r"name=ro.product.model,value=\x1b]0;owned\x07\x1b[2J",
    "lines": r"name=ro.product.model,value=a\nb\rc",
    "long": "name=ro.product.model,value=x,length=1000000",
    "a path": "name=ro.soc.model,value=../../../etc/passwd",
    "other bytes": r"name=ro.soc.model,value=\xff\xfe",
    "an ABI": "name=ro.product.cpu.abilist,value=$(reboot);../host",
    "no ABI": "name=ro.product.cpu.abilist,value=",
    "nothing": "name=ro.build.version.release",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_properties_are_shown_as_a_line_of_plain_text(
    plug_phone: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    phone = plug_phone(f"property:{HOSTILE[name]}", soc="sdm845")
    for arguments in (["devices"], ["devices", "--json"], ["devices", "--soc", "sdm660"]):
        cli.call(arguments)
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert len(text) < 5000 and "Traceback" not in text
        assert all(line.isprintable() for line in text.splitlines())
    assert [unit.soc for unit in lookup.chosen_units(Selection(devices=(f"127.0.0.1:{phone.port}",)))] == ["sdm845"]
    assert all(path.resolve().is_relative_to(Path.cwd()) for path in Path("build").rglob("*"))
