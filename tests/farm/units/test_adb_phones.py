"""`farm devices` and the choice of units, with a stock adb server and emulated phones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from farm import cli
from farm.config.adb_address import AdbAddress
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone
from farm.emulation.phone_unit import private_adb_server
from farm.transport.adb_server import AdbServer
from farm.units import lookup
from farm.units.selection import Selection

pytestmark = pytest.mark.slow

CONNECT_S = 60.0
List = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.chdir(tmp_path)
    with private_adb_server(tmp_path) as found:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(found))
        yield found


@pytest.fixture
def plug(port: int) -> Iterator[Callable[..., EmulatedPhone]]:
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


def test_phones_are_found_without_being_listed(plug: Any, listed: List) -> None:
    plug(soc="sdm845", model="MI 8")
    plug(soc="sm8150", android=10)
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


def test_devices_yml_names_and_restricts_the_phones(plug: Any, listed: List) -> None:
    named, other = plug(soc="sdm845"), plug(soc="sdm845")
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


@pytest.mark.parametrize("shell_v2", [True, False])
def test_a_phone_that_adb_lists_twice_is_one_unit(port: int, plug: Any, listed: List, shell_v2: bool) -> None:
    phone, other = plug(soc="sdm845", shell_v2=shell_v2), plug(soc="sdm845", serial="shared")
    AdbServer(AdbAddress(port=port)).connect(f"localhost:{phone.port}", time.monotonic() + CONNECT_S)
    first, second = f"127.0.0.1:{phone.port}", f"localhost:{phone.port}"
    found = {each["serial"]: each["aliases"] for each in listed() if each["transport"] == "adb"}
    assert found in ({first: [second], f"127.0.0.1:{other.port}": []}, {second: [first], f"127.0.0.1:{other.port}": []})
    Path("devices.yml").write_text(f"devices: {{mi8: {{transport: adb, address: localhost, port: {phone.port}}}}}\n")
    for name in ("mi8", first, second):
        assert [(each["name"], each["aliases"]) for each in listed("--device", name)] == [("mi8", [first])]
    assert cli.call(["devices", "--device", "mi8"]) == 0


def test_an_absent_phone_shows_its_cached_facts(port: int, plug: Any, listed: List) -> None:
    phone = plug(soc="sdm845")
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


def test_an_unauthorized_phone_says_what_to_do(plug: Any, listed: List) -> None:
    plug("unauthorized", soc="sdm845")
    (phone,) = (each for each in listed() if each["transport"] == "adb")
    assert (phone["state"], phone["soc"]) == ("unauthorized", "unknown")
    assert "screen" in phone["reason"]


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


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_properties_are_shown_as_a_line_of_plain_text(
    plug: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    phone = plug(f"property:{HOSTILE[name]}", soc="sdm845")
    for arguments in (["devices"], ["devices", "--json"], ["devices", "--soc", "sdm660"]):
        cli.call(arguments)
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert len(text) < 5000 and "Traceback" not in text
        assert all(line.isprintable() for line in text.splitlines())
    assert [unit.soc for unit in lookup.chosen_units(Selection(devices=(f"127.0.0.1:{phone.port}",)))] == ["sdm845"]
    assert all(path.resolve().is_relative_to(Path.cwd()) for path in Path("build").rglob("*"))
