from __future__ import annotations

from pathlib import Path

import pytest

from farm import inventory
from farm.inventory import HOST, Unit
from runtime.errors import ConfigError, NoUnitError

PHONE = Unit(name="pixel", transport="adb", soc="sdm845", model="Pixel 3", abis=("arm64-v8a", "armeabi-v7a"))

REFUSALS = {
    "adb": (
        "transport: adb",
        "devices.yml:3: devices.unit.transport: 'adb' is not supported yet; only transport: local",
    ),
    "misspelt": ("transport: locl", "devices.yml:3: devices.unit.transport: unknown transport, did you mean 'local'?"),
    "none": ("tags: []", "devices.yml:2: devices.unit.transport: this key is missing"),
    "address": (
        "transport: local\n    address: 10.0.0.1",
        "devices.yml:4: devices.unit.address: not supported yet; it belongs to transport: ssh",
    ),
    "serial": (
        "transport: local\n    serial: 0123",
        "devices.yml:4: devices.unit.serial: not supported yet; it belongs",
    ),
    "unknown": ("transport: local\n    adress: x", "devices.yml:4: devices.unit.adress: unknown key"),
}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "devices.yml"
    path.write_text(text)
    return path


def test_reads_units_in_order(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "devices:\n"
        "  b: {transport: local, target_abis: host, target_socs: HOST, models: My Server, tags: lab}\n"
        "  a:\n    transport: local\n    target_abis: [arm64, armhf]\n    target_socs: [rk3399]\n",
    )
    assert inventory.load(path) == [
        Unit(name="b", transport="local", soc="host", model="My Server", abis=("host",), tags=("lab",)),
        Unit(name="a", transport="local", soc="rk3399", model="a", abis=("arm64", "armhf")),
    ]


def test_without_the_file_there_is_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert inventory.load() == [HOST]
    write(tmp_path, "devices: {box: {transport: local, target_abis: host, target_socs: host}}")
    assert [unit.name for unit in inventory.load()] == ["box"]


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"devices.yml: cannot be read: No such file"):
        inventory.load(tmp_path / "devices.yml")


def test_the_projects_own_file_is_the_host() -> None:
    assert inventory.load(Path(__file__).parents[2] / "devices.yml") == [HOST]


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_with_file_line_and_key(tmp_path: Path, name: str) -> None:
    lines, message = REFUSALS[name]
    path = write(tmp_path, f"devices:\n  unit:\n    {lines}\n    target_abis: host\n    target_socs: host\n")
    with pytest.raises(ConfigError) as caught:
        inventory.load(path)
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message)


def test_two_socs_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "devices: {a: {transport: local, target_abis: host, target_socs: [a, b]}}")
    with pytest.raises(ConfigError, match=r"devices.a.target_socs: a unit has one SoC"):
        inventory.load(path)


def test_selection_by_soc_and_name() -> None:
    units = [HOST, PHONE]
    assert inventory.select(units) == units
    assert inventory.select(units, soc="SDM845") == [PHONE]
    assert inventory.select(units, device="host") == [HOST]
    assert inventory.select(units, soc="host", device="host") == [HOST]


@pytest.mark.parametrize(("soc", "device"), [("sdm660", None), (None, "mi8"), ("host", "pixel")])
def test_no_match_says_what_there_is_and_how_to_add(soc: str | None, device: str | None) -> None:
    with pytest.raises(NoUnitError) as caught:
        inventory.select([HOST, PHONE], soc=soc, device=device)
    message = str(caught.value)
    assert (soc or "") in message
    assert (device or "") in message
    assert "SoCs host, sdm845 (units host, pixel)" in message
    assert "devices.yml" in message
    assert caught.value.exit_status == 3
