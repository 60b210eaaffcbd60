"""Reads devices.yml: which units there are, and selects those that a job asks for.

    devices:
      host:                     # the unit's name
        transport: local        # how it is reached
        target_abis: [host]     # what it runs, preferred first
        target_socs: host       # the SoC key that --soc names
        models: My build server # optional: the device model, which names the artifacts
        tags: [lab, quiet]      # optional

Without the file there is one unit: the machine itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, field_validator

from farm import yaml_source
from farm.fields import Abi, Abis, SafeName, SocKey, Text, as_list, not_empty
from farm.suggestion import suggestion
from farm.yaml_source import Section, Source
from runtime.errors import NoUnitError

DEFAULT_FILE = Path("devices.yml")
TRANSPORTS = ("local",)
TRANSPORTS_NOT_YET = ("adb", "ssh")


@dataclasses.dataclass(frozen=True)
class Unit:
    """One device: its name in devices.yml, how it is reached, and what it is."""

    name: str
    transport: str
    soc: str
    model: str
    abis: tuple[Abi, ...]
    tags: tuple[str, ...] = ()

    @property
    def abi(self) -> Abi:
        """The ABI that the unit prefers."""
        return self.abis[0]


HOST = Unit(name="host", transport="local", soc="host", model="host", abis=("host",))


class _Device(Section):
    """One entry of the file."""

    not_yet: ClassVar = {
        key: f"it belongs to transport: {transport}, and only transport: local works"
        for transport, keys in {"ssh": ("address", "username", "port", "key_file"), "adb": ("serial",)}.items()
        for key in keys
    } | {"max_start_temp_c": "the temperature of a unit is not read yet"}

    transport: str
    target_abis: Abis
    target_socs: Annotated[tuple[SocKey, ...], BeforeValidator(as_list), AfterValidator(not_empty)]
    models: Text | None = None
    tags: Annotated[tuple[SafeName, ...], BeforeValidator(as_list)] = ()

    @field_validator("transport")
    @classmethod
    def _known_transport(cls, value: str) -> str:
        if value in TRANSPORTS_NOT_YET:
            raise ValueError(f"{value!r} is not supported yet; only transport: local works")
        if value not in TRANSPORTS:
            raise ValueError(f"unknown transport{suggestion(value, TRANSPORTS)}")
        return value

    @field_validator("target_socs")
    @classmethod
    def _one_soc(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) > 1:
            raise ValueError("a unit has one SoC")
        return value


class _DevicesFile(Section):
    devices: Annotated[dict[SafeName, _Device], AfterValidator(not_empty)]


def load(path: Path | None = None) -> list[Unit]:
    """Units of the file, in its order; without a path `./devices.yml`, or only the host where there is none."""
    if path is None and not DEFAULT_FILE.exists():
        return [HOST]
    return _units(yaml_source.load(path or DEFAULT_FILE))


def select(units: Sequence[Unit], soc: str | None = None, device: str | None = None) -> list[Unit]:
    """Units that have the SoC and the name, where given; raises NoUnitError that says what there is."""
    wanted_soc = soc.lower() if soc else None
    chosen = [unit for unit in units if wanted_soc in (None, unit.soc) and device in (None, unit.name)]
    if not chosen:
        raise NoUnitError(_no_unit(units, wanted_soc, device))
    return chosen


def _units(source: Source) -> list[Unit]:
    devices = source.validate(_DevicesFile).devices
    return [
        Unit(
            name=name,
            transport=device.transport,
            soc=device.target_socs[0],
            model=device.models or name,
            abis=device.target_abis,
            tags=device.tags,
        )
        for name, device in devices.items()
    ]


def _no_unit(units: Sequence[Unit], soc: str | None, device: str | None) -> str:
    wanted = [f"SoC {soc!r}"] if soc else []
    wanted += [f"name {device!r}"] if device else []
    socs = _listed(unit.soc for unit in units)
    names = _listed(unit.name for unit in units)
    return (
        f"no unit with {' and '.join(wanted) or 'any SoC'}; there are the SoCs {socs} (units {names}); "
        f"to add one, write an entry with its transport, target_abis and target_socs into {DEFAULT_FILE}"
    )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words))) or "none"
