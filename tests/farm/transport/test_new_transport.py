"""A transport that farm has never heard of is planted, and taken from devices.yml to the row of a job."""

import ast
from pathlib import Path

import pytest

import farm as farm_api
from farm import transport
from farm.config import transports
from farm.config.inventory import Unit, load_inventory
from farm.config.transports import TransportKind
from farm.lease.host_lock import connection_key
from farm.transport.base import Transport
from farm.transport.interruption import Interruption
from farm.transport.local import LocalTransport
from farm.transport.ssh_backoff import Patience
from farm.units.survey import adb_servers
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import write_deployment

FARM = Path(farm_api.__file__).parent
SERIAL_LINE = TransportKind(
    keys=("address", "folder"),
    needs=("address",),
    fault=lambda given: None if given["address"].startswith("tty") else ("address", "this is no serial line"),
    driver_advice="solder one in",
)
BOARD = "devices: {board: {transport: serial, target_abis: host, target_socs: mine, address: ttyS0}}\n"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> list[str]:
    """The addresses that were connected to; a unit is a folder of this machine, since no line is here."""
    addresses: list[str] = []

    def connect(unit: Unit, _: Path, interruption: Interruption | None, __: Patience | None) -> Transport:
        addresses.append(unit.address)
        return LocalTransport(own_folder / "units" / unit.address, interruption=interruption)

    monkeypatch.setitem(transports.TRANSPORTS, "serial", SERIAL_LINE)
    monkeypatch.setitem(transport.LINKS, "serial", connect)
    return addresses


def devices(text: str) -> None:
    Path("devices.yml").write_text(text)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ("{transport: serial}", r"devices.yml:\d+: .*address: this key is missing; transport: serial needs it"),
        ("{transport: serial, address: eth0}", r"devices.yml:\d+: .*address: this is no serial line"),
        (
            "{transport: serial, address: ttyS0, jump: here}",
            "does not belong to transport: serial, but to transport: ssh",
        ),
        ("{transport: local, folder: x}", "but to transport: adb or ssh or serial"),
        ("{transport: serious}", "unknown transport, did you mean 'serial'"),
        ("{tags: [lab]}", r"this key is missing \(serial, local, ssh or adb\)"),
    ],
)
def test_its_keys_are_checked_as_it_says(opened: list[str], keys: str, reason: str) -> None:
    devices(f"devices: {{board: {keys}}}\n")
    with pytest.raises(ConfigError, match=reason):
        load_inventory()


def test_its_unit_is_what_the_transport_says(opened: list[str]) -> None:
    devices(BOARD)
    inventory = load_inventory()
    (unit,) = inventory.units
    assert unit.kind is SERIAL_LINE and not unit.kind.is_local
    assert (unit.transport, unit.serial, unit.soc, unit.abis) == ("serial", "", "mine", ("host",))
    assert connection_key(unit).startswith("serial ") and "ttyS0" in connection_key(unit)
    assert adb_servers(inventory) == {inventory.adb_server}, "no adb server is asked for it"


@pytest.mark.slow
def test_a_job_runs_on_its_unit(opened: list[str], own_folder: Path) -> None:
    devices("adb: {discover: listed}\n" + BOARD)
    model = write_deployment(own_folder, runtime="cpu")
    (row,) = farm_api.run(model, ["board"], rounds=1, validate=True)
    assert (row.status, row.reason, row.unit, row.soc) == ("ok", "", "board", "mine")
    assert opened and set(opened) == {"ttyS0"}


def _compares_transport(node: ast.AST) -> bool:
    """Whether a transport's name is compared, as in `unit.transport == "adb"`."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    constants = [each for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)]
    names = [ast.unparse(side) for side in sides if isinstance(side, ast.Attribute | ast.Name)]
    is_transport = any(name.rpartition(".")[2] == "transport" for name in names)
    return is_transport and any(isinstance(each.value, str) for each in constants)


COMPARISONS = {
    "a.transport != 'adb'": 1,
    "'ssh' == transport": 1,
    "transport in ('adb', 'ssh')": 1,
    "transport is None": 0,
}


@pytest.mark.parametrize("text", COMPARISONS)
def test_a_planted_comparison_is_found(text: str) -> None:
    assert _compares_transport(ast.parse(text, mode="eval").body) == COMPARISONS[text]


def test_nobody_asks_a_transport_by_its_name() -> None:
    for path in FARM.rglob("*.py"):
        lines = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if _compares_transport(node)]
        assert not lines, f"{path}: lines {lines} compare a transport's name; say it in farm/config/transports.py"
