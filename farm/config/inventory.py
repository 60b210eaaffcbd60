"""Reads devices.yml, the list of units.

    adb:                        # optional
      discover: all             # every phone that is plugged in is a unit (default); `listed`: only those named below
      server: 5037              # the adb server: a port of this machine, host:port, or ssh://host

    devices:
      host:                     # the unit's name
        transport: local        # how it is reached: local, ssh (default where there is an address) or adb (a serial)
        target_abis: [host]     # what it runs, preferred first; phones and boards are asked where this is missing
        target_socs: host       # the SoC key that --soc names; they are asked for it too
        models: My build server # optional: the device model, which names the artifacts
        tags: [lab, quiet]      # optional

docs/devices.md lists all keys. Without the file the machine itself is the only unit that is listed.
"""

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from farm import host_system, safe_text, soc
from farm.config import yaml_source
from farm.config.adb_address import LOCAL, AdbAddress, parse_adb_address
from farm.config.fields import Abi, Abis, SafeName, SocKey, Text, as_list, not_empty, split_text
from farm.config.suggestion import suggestion
from farm.config.transports import TRANSPORTS, Given, TransportKind, key_fault, meant_transport, transport_kind
from farm.config.yaml_source import YamlSection, YamlSource
from runtime.errors import ConfigError

DEFAULT_FILE = Path("devices.yml")
DEFAULT_WAIT_S = 600.0
DEFAULT_STORE_MB = 2000

# What Debian and uname call the ABIs, as MACE's files do.
OTHER_ABI_NAMES = {"armv7l": "armhf", "aarch64": "arm64"}
PASSWORDS = ("password", "passwd", "passphrase", "pin", "secret")


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a unit must fulfil before a job starts, how long the job waits for that, and what a job may do there."""

    max_start_temp_c: float | None = None
    min_battery_percent: int | None = None
    free_storage_mb: int | None = None
    wait_s: float = DEFAULT_WAIT_S
    store_mb: int = DEFAULT_STORE_MB
    keep_awake: bool = True


@dataclasses.dataclass(frozen=True)
class LabgridPlace:
    """A place that a labgrid coordinator (host:port) gives to one user at a time."""

    coordinator: str
    name: str


@dataclasses.dataclass(frozen=True)
class Unit:
    """One device: its name in devices.yml, how it is reached, and what it is.

    Attributes:
        soc: the SoC key; where the file gives none, `unknown` until the unit was asked.
        model: the device model; the unit's name where it is not known.
        abis: preferred first; where the file gives none, empty until the unit was asked.
        serial: adb's name of the unit, `address:port` for one in the network.
        address, port, username, key_file, jump: for ssh; None or empty where ~/.ssh/config decides.
        folder: the unit's own folder there; empty for the transport's default.
        adb_server: the server that knows the phone.
        aliases: other names and serials under which the same phone is listed.
        labgrid: the place that is acquired with the unit's lease.
    """

    name: str
    transport: str
    soc: str
    model: str
    abis: tuple[Abi, ...]
    tags: tuple[str, ...] = ()
    serial: str = ""
    address: str = ""
    port: int | None = None
    username: str = ""
    key_file: Path | None = None
    jump: str = ""
    folder: str = ""
    adb_server: AdbAddress = LOCAL
    limits: Limits = Limits()
    aliases: tuple[str, ...] = ()
    labgrid: LabgridPlace | None = None

    @property
    def kind(self) -> TransportKind:
        """What holds of all units of its transport."""
        return transport_kind(self.transport)

    @property
    def abi(self) -> Abi:
        """The ABI that the unit prefers; raises ConfigError where it is not known."""
        if not self.abis:
            raise ConfigError(f"{self.name}: what it runs is not known; name it as target_abis in {DEFAULT_FILE}")
        return self.abis[0]


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The units of the file, in its order, and whether the phones of an adb server are added."""

    units: tuple[Unit, ...]
    discover_adb: bool = True
    adb_server: AdbAddress = LOCAL


HOST = Unit(name="host", transport="local", soc="host", model="host", abis=("host",))


def _matching_text(pattern: str, what: str, value: str) -> str:
    """Requires text to match a pattern; the error does not repeat the text, since it may hold a password by mistake."""
    if not re.fullmatch(pattern, value):
        raise ValueError(f"this is no {what}")
    return value


def _abi_names(value: Any) -> Any:
    names = split_text(value)
    return [OTHER_ABI_NAMES.get(name, name) for name in names] if isinstance(names, list) else names


def _folder(value: str) -> str:
    if not value.isprintable() or ".." in value.split("/") or not value.strip("/~. "):
        raise ValueError("a folder of the unit's own is needed, such as ~/.farm-unit, without '..'")
    return value


HOST_WORD = r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]{0,252}"
USER_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
COORDINATOR = r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]+\]):\d{1,5}"
Address = Annotated[
    str,
    AfterValidator(
        functools.partial(
            _matching_text, HOST_WORD, "host name or IP address; the user and the port are keys of their own"
        )
    ),
]
Username = Annotated[str, AfterValidator(functools.partial(_matching_text, USER_WORD, "user name"))]
Jump = Annotated[
    str, AfterValidator(functools.partial(_matching_text, f"({USER_WORD}@)?{HOST_WORD}", "[user@]host[:port]"))
]
Serial = Annotated[
    str,
    AfterValidator(
        functools.partial(
            _matching_text, r"[^\s\x00-\x1f\x7f-\x9f-](?:[ -~]{0,126}[!-~])?", "serial that `adb devices` lists"
        )
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]
AdbServer = Annotated[AdbAddress, BeforeValidator(lambda value: parse_adb_address(str(value)))]


class _LabgridSection(YamlSection):
    """The unit's place in labgrid."""

    coordinator: Annotated[str, AfterValidator(functools.partial(_matching_text, COORDINATOR, "host:port"))]
    place: Annotated[str, AfterValidator(functools.partial(_matching_text, r"[\w.][\w.-]{0,99}", "name of a place"))]


class _DeviceSection(YamlSection):
    """One entry of the file."""

    refused: ClassVar = dict.fromkeys(
        PASSWORDS,
        "passwords are not kept in files; log in with a key (key_file, or ssh-agent): ssh-copy-id brings it there",
    ) | {"adb_server_port": "is called adb_server: a port, host[:port] or ssh://[user@]host"}

    transport: str = ""
    target_abis: Annotated[Abis, BeforeValidator(_abi_names)] | None = None
    target_socs: Annotated[tuple[SocKey, ...], BeforeValidator(as_list), AfterValidator(not_empty)] | None = None
    models: Text | None = None
    tags: Annotated[tuple[SafeName, ...], BeforeValidator(as_list)] = ()
    serial: Serial | None = None
    address: Address | None = None
    port: Port | None = None
    username: Username | None = None
    key_file: Text | None = None
    jump: Jump | None = None
    folder: Annotated[str, AfterValidator(_folder)] | None = None
    adb_server: AdbServer | None = None
    labgrid: _LabgridSection | None = None
    max_start_temp_c: Annotated[float, Field(ge=0, le=150)] | None = None
    min_battery_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    free_storage_mb: Annotated[int, Field(ge=0, le=10**7)] | None = None
    wait_s: Annotated[float, Field(ge=0, le=86_400)] = DEFAULT_WAIT_S
    store_mb: Annotated[int, Field(ge=1, le=10**7)] = DEFAULT_STORE_MB
    keep_awake: bool = True

    @field_validator("transport")
    @classmethod
    def _known_transport(cls, value: str) -> str:
        if value not in TRANSPORTS:
            raise ValueError(f"unknown transport{suggestion(value, TRANSPORTS)}")
        return value

    @field_validator("target_socs")
    @classmethod
    def _one_soc(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value and len(value) > 1:
            raise ValueError("a unit has one SoC")
        return value


class _AdbSection(YamlSection):
    refused: ClassVar = {"server_port": "is called server: a port, host[:port] or ssh://[user@]host"}

    discover: Literal["all", "listed"] = "all"
    server: AdbServer = LOCAL


class _DevicesFile(YamlSection):
    adb: _AdbSection = _AdbSection()
    devices: Annotated[dict[SafeName, _DeviceSection], AfterValidator(not_empty)]


_read: list[Path] = []  # the files that commands name in place of devices.yml, the last one in force


@contextlib.contextmanager
def read_from(path: Path) -> Iterator[None]:
    """Units are those of another file than devices.yml, as long as the block runs."""
    _read.append(path)
    try:
        yield
    finally:
        _read.pop()


def load_inventory(path: Path | None = None) -> Inventory:
    """Reads the file at `path`, by default `./devices.yml`; without either the inventory holds only the host."""
    named = path or (_read[-1] if _read else None)
    if named is None and not os.path.lexists(DEFAULT_FILE):  # a link into nowhere is a mistake
        return Inventory((HOST,))
    source = yaml_source.load(named or DEFAULT_FILE)
    file = source.validate(_DevicesFile)
    units = tuple(_unit(source, name, device, file.adb) for name, device in file.devices.items())
    _refuse_duplicates(source, units)
    return Inventory(units, file.adb.discover == "all", file.adb.server)


def _unit(source: YamlSource, name: str, device: _DeviceSection, adb: _AdbSection) -> Unit:
    given = _given(device)
    transport = _transport(source, name, device, given)
    kind = transport_kind(transport)
    return Unit(
        name=name,
        transport=transport,
        soc=device.target_socs[0] if device.target_socs else HOST.soc if kind.is_local else soc.UNKNOWN,
        model=safe_text.word(device.models) if device.models else name,
        abis=device.target_abis or (HOST.abis if kind.is_local else ()),
        tags=device.tags,
        serial=kind.serial(given),
        address=device.address or "",
        port=device.port,
        username=device.username or "",
        key_file=_key_file(source, name, device),
        jump=device.jump or "",
        folder=device.folder or "",
        adb_server=(device.adb_server or adb.server) if kind.has_adb_server else LOCAL,
        labgrid=LabgridPlace(device.labgrid.coordinator, device.labgrid.place) if device.labgrid else None,
        limits=Limits(**{field.name: getattr(device, field.name) for field in dataclasses.fields(Limits)}),
    )


def _given(device: _DeviceSection) -> Given:
    """The keys that say where the unit is, those of any transport."""
    keys = {key for kind in TRANSPORTS.values() for key in kind.keys}
    return {key: value for key in keys if (value := getattr(device, key)) is not None}


def _transport(source: YamlSource, name: str, device: _DeviceSection, given: Given) -> str:
    """The unit's transport, for which all keys are right."""
    transport = device.transport or meant_transport(given)
    if not transport:
        *others, last = reversed(TRANSPORTS)
        raise source.error(("devices", name, "transport"), f"this key is missing ({', '.join(others)} or {last})")
    if fault := key_fault(transport, given):
        key, reason = fault
        raise source.error(("devices", name, key), reason)
    return transport


def _key_file(source: YamlSource, name: str, device: _DeviceSection) -> Path | None:
    """The key file's path, relative to the file that names it."""
    try:
        return source.path.parent / host_system.expanded_path(device.key_file) if device.key_file else None
    except ConfigError as error:
        raise source.error(("devices", name, "key_file"), str(error)) from None


def _refuse_duplicates(source: YamlSource, units: tuple[Unit, ...]) -> None:
    """Refuses two names for one phone, which would let two jobs run on it at once."""
    first_names: dict[tuple[str, AdbAddress], str] = {}
    for unit in units:
        first = first_names.setdefault((unit.serial, unit.adb_server), unit.name) if unit.serial else unit.name
        if first != unit.name:
            raise source.error(("devices", unit.name), f"the same phone as {first!r}; a unit has one name")
