"""devices.yml: every key is read, and every mistake is an error with file, line and key."""

from pathlib import Path

import pytest

from farm.config import engine_file, inventory
from farm.config.adb_address import LOCAL, AdbAddress, parse_adb_address
from farm.config.inventory import HOST, Limits, Unit
from runtime.errors import ConfigError

REFUSALS = {
    "misspelt": ("transport: locl", "3: devices.unit.transport: unknown transport, did you mean 'local'?"),
    "none": ("tags: []", "2: devices.unit.transport: this key is missing (local, ssh or adb)"),
    "local address": (
        "transport: local\n    address: 10.0.0.1",
        "4: devices.unit.address: does not belong to transport: local, but to transport: adb or ssh",
    ),
    "ssh serial": (
        "serial: 0123\n    transport: ssh",
        "3: devices.unit.serial: does not belong to transport: ssh, but to transport: adb",
    ),
    "adb user": ("serial: 0123\n    username: me", "4: devices.unit.username: does not belong to transport: adb"),
    "ssh without address": ("transport: ssh", "2: devices.unit.address: this key is missing; transport: ssh needs it"),
    "adb nowhere": ("transport: adb", "2: devices.unit.address: transport: adb needs a serial (see `adb devices`)"),
    "adb twice": ("serial: a\n    address: b\n    transport: adb", "4: devices.unit.address: transport: adb needs"),
    "adb port": ("serial: a\n    port: 5555", "4: devices.unit.port: belongs to an address; adb_server is"),
    "unknown": ("transport: local\n    adress: x", "4: devices.unit.adress: unknown key, did you mean 'address'?"),
    "password": ("address: pi\n    password: hunter2", "4: devices.unit.password: passwords are not kept in files"),
    "password in the address": ("address: pi:hunter2@10.0.0.1", "3: devices.unit.address: this is no host name or IP"),
    "address as an option": ("address: -oProxyCommand=x", "3: devices.unit.address: this is no host name"),
    "jump with a password": ("address: pi\n    jump: me:hunter2@gate", "4: devices.unit.jump: this is no [user@]host"),
    "user": ("address: pi\n    username: me;reboot", "4: devices.unit.username: this is no user name"),
    "port": ("address: pi\n    port: 65536", "4: devices.unit.port: '65536' is not accepted"),
    "serial as an option": ("serial: -s", "3: devices.unit.serial: this is no serial"),
    "serial of two lines": ('serial: "a\\nb"', "3: devices.unit.serial: this is no serial"),
    "folder": ("address: pi\n    folder: ~/a/../..", "4: devices.unit.folder: a folder of the unit's own is needed"),
    "whole disk": ("address: pi\n    folder: /", "4: devices.unit.folder: a folder of the unit's own is needed"),
    "temperature": (
        "address: pi\n    max_start_temp_c: warm",
        "4: devices.unit.max_start_temp_c: 'warm' is not accepted",
    ),
    "not a number": ("address: pi\n    max_start_temp_c: nan", "4: devices.unit.max_start_temp_c: 'nan' is not"),
    "battery": ("serial: a\n    min_battery_percent: 101", "4: devices.unit.min_battery_percent: '101' is not"),
    "storage": ("serial: a\n    free_storage_mb: 1.5", "4: devices.unit.free_storage_mb: '1.5' is not accepted"),
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
    assert inventory.load_inventory(path).units == (
        Unit(name="b", transport="local", soc="host", model="My Server", abis=("host",), tags=("lab",)),
        Unit(name="a", transport="local", soc="rk3399", model="a", abis=("arm64", "armhf")),
    )


def test_without_the_file_the_inventory_holds_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert inventory.load_inventory().units == (HOST,)
    write(tmp_path, "devices: {box: {transport: local, target_abis: host, target_socs: host}}")
    assert [unit.name for unit in inventory.load_inventory().units] == ["box"]


def test_a_link_into_nowhere_is_no_missing_file(own_folder: Path) -> None:
    """The lab's file on a share that is away: all phones and this machine would be measured instead."""
    Path("devices.yml").symlink_to("/lab/devices.yml")
    Path("engines.yml").symlink_to("/lab/engines.yml")
    for load in (inventory.load_inventory, engine_file.load_engine_file):
        with pytest.raises(ConfigError, match=r"^(devices|engines).yml: a link to /lab/\1.yml, where no file is$"):
            load()


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"devices.yml: no such file"):
        inventory.load_inventory(tmp_path / "devices.yml")


def test_the_projects_own_file_lists_the_host() -> None:
    assert inventory.load_inventory(Path(__file__).parents[3] / "devices.yml").units == (HOST,)


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_with_line_key_and_reason(tmp_path: Path, name: str) -> None:
    lines, message = REFUSALS[name]
    path = write(tmp_path, f"devices:\n  unit:\n    {lines}\n    target_abis: host\n    target_socs: host\n")
    with pytest.raises(ConfigError) as caught:
        inventory.load_inventory(path)
    assert str(caught.value).startswith(f"{path}:{message}")
    assert "hunter2" not in str(caught.value)


def test_maces_own_file_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        devices:
          nanopi:
            target_abis: [arm64, armhf]
            target_socs: RK3399
            models: FriendlyElec Nanopi M4
            address: 10.0.0.0
            username: user
          raspberry:
            target_abis: [armv7l]
            target_socs: BCM2837
            models: Raspberry Pi 3 Model B Plus Rev 1.3
            address: 10.0.0.1
            username: user
        """,
    )
    nanopi, raspberry = inventory.load_inventory(path).units
    assert nanopi == Unit(
        name="nanopi",
        transport="ssh",
        soc="rk3399",
        model="FriendlyElec Nanopi M4",
        abis=("arm64", "armhf"),
        address="10.0.0.0",
        username="user",
    )
    assert (raspberry.soc, raspberry.abis) == ("bcm2837", ("armhf",))


def test_what_a_board_and_a_phone_may_say_themselves_is_optional(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        adb: {discover: listed, server: 5040}
        devices:
          board: {address: "fe80::1%eth0", port: 2222, key_file: keys/id, jump: me@gate:22, folder: /srv/farm unit}
          usb: {serial: 0123, adb_server: 5041}
          wifi: {transport: adb, address: phone.lan, max_start_temp_c: 38.5, min_battery_percent: 30,
                 free_storage_mb: 500, wait_s: 60, store_mb: 300}
        """,
    )
    found = inventory.load_inventory(path)
    assert (found.discover_adb, found.adb_server.port) == (False, 5040)
    board, usb, wifi = found.units
    assert board == Unit(
        name="board",
        transport="ssh",
        soc="unknown",
        model="board",
        abis=(),
        address="fe80::1%eth0",
        port=2222,
        key_file=tmp_path / "keys/id",
        jump="me@gate:22",
        folder="/srv/farm unit",
    )
    assert (usb.serial, usb.adb_server.port) == ("0123", 5041)
    assert (wifi.serial, wifi.adb_server.port) == ("phone.lan:5555", 5040)
    assert wifi.limits == Limits(
        max_start_temp_c=38.5, min_battery_percent=30, free_storage_mb=500, wait_s=60, store_mb=300
    )
    with pytest.raises(ConfigError, match="board: what it runs is not known; name it as target_abis"):
        assert board.abi


def test_two_names_for_one_phone_are_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "devices:\n  a: {serial: 10.0.0.5:5555}\n  b: {serial: other}\n  c: {transport: adb, address: 10.0.0.5}\n",
    )
    with pytest.raises(ConfigError, match=r"devices.yml:4: devices.c: the same phone as 'a'"):
        inventory.load_inventory(path)


@pytest.mark.parametrize("discover", ["some", ""])
def test_discovery_is_all_or_listed(tmp_path: Path, discover: str) -> None:
    path = write(tmp_path, f"adb:\n  discover: {discover}\ndevices: {{a: {{transport: local}}}}\n")
    with pytest.raises(ConfigError, match=r"devices.yml:2: adb.discover: 'all' or 'listed' is expected"):
        inventory.load_inventory(path)


def test_a_model_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = write(tmp_path, 'devices: {a: {transport: local, models: "My\\e[31m\\nphone"}}')
    assert inventory.load_inventory(path).units[0].model == r"My\x1b[31m phone"


def test_two_socs_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "devices: {a: {transport: local, target_abis: host, target_socs: [a, b]}}")
    with pytest.raises(ConfigError, match=r"devices.a.target_socs: a unit has one SoC"):
        inventory.load_inventory(path)


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
