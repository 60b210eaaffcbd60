"""What each transport is, for all who have to do with a unit: one entry says it, and nobody compares names.

`farm/transport/__init__.py` has the links themselves, by the same names; a name that is not here has no link.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

DEFAULT_NETWORK_ADB_PORT = 5555

Given = Mapping[str, Any]  # the keys of a unit in devices.yml that say where it is


@dataclasses.dataclass(frozen=True)
class TransportKind:
    """What holds of every unit of a transport.

    Attributes:
        keys: those of devices.yml that say where the unit is.
        needs: those without which it is not found.
        meant_by: a key that means this transport where the file names none; empty for none.
        fault: the key that is wrong beside the others, and why; None where all are right.
        serial: the name by which the transport's server knows the unit; empty without one.
        is_local: whether the unit is this machine.
        has_adb_server: whether an adb server knows the unit.
        has_host_key: whether the unit's key has to be trusted.
        driver_advice: where the unit's OpenCL driver comes from.
    """

    keys: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    meant_by: str = ""
    fault: Callable[[Given], tuple[str, str] | None] = lambda given: None
    serial: Callable[[Given], str] = lambda given: ""
    is_local: bool = False
    has_adb_server: bool = False
    has_host_key: bool = False
    driver_advice: str = ""


def _adb_fault(given: Given) -> tuple[str, str] | None:
    if ("serial" in given) == ("address" in given):
        return "address", "transport: adb needs a serial (see `adb devices`), or the address of a phone in the network"
    if "port" in given and "address" not in given:
        return "port", "belongs to an address; adb_server is the adb server's"
    return None


def _adb_serial(given: Given) -> str:
    if "address" in given:
        return f"{given['address']}:{given.get('port', DEFAULT_NETWORK_ADB_PORT)}"
    return str(given["serial"])


TRANSPORTS: dict[str, TransportKind] = {
    "adb": TransportKind(
        keys=("serial", "address", "port", "folder", "adb_server"),
        meant_by="serial",
        fault=_adb_fault,
        serial=_adb_serial,
        has_adb_server=True,
        driver_advice="the vendor's system brings it or not (/vendor/lib64/libOpenCL.so)",
    ),
    "ssh": TransportKind(
        keys=("address", "username", "port", "key_file", "jump", "folder"),
        needs=("address",),
        meant_by="address",
        has_host_key=True,
        driver_advice="install its GPU's driver there (from the board's vendor; on Debian mesa-opencl-icd, or "
        "pocl-opencl-icd for the CPU), or name a library: --opencl FILE",
    ),
    "local": TransportKind(
        is_local=True, driver_advice="`farm doctor` lists this machine's drivers and what to install"
    ),
}
NO_LINK = TransportKind()  # of a unit that is known from a file alone


def transport_kind(transport: str) -> TransportKind:
    """The transport of that name; NO_LINK where there is none."""
    return TRANSPORTS.get(transport, NO_LINK)


def meant_transport(given: Given) -> str:
    """The transport that the keys of a unit mean where its own is missing, as in MACE's files; empty for none."""
    return next((name for name, kind in TRANSPORTS.items() if kind.meant_by in given), "")


def key_fault(transport: str, given: Given) -> tuple[str, str] | None:
    """The first key that is wrong or missing for a transport, and why; None where all are right."""
    kind = TRANSPORTS[transport]
    for key in sorted(given.keys() - set(kind.keys)):
        others = " or ".join(name for name, other in TRANSPORTS.items() if key in other.keys)
        return key, f"does not belong to transport: {transport}, but to transport: {others}"
    for key in kind.needs:
        if key not in given:
            return key, f"this key is missing; transport: {transport} needs it"
    return kind.fault(given)
