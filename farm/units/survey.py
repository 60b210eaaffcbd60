"""Surveys all units, those of devices.yml and the phones that are plugged in: what each is, and its state.

All are asked at the same time. Each gives a report; that of a unit which does not answer, or not sensibly, says so.
"""

import contextlib
import dataclasses
import enum
import hashlib
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from farm import safe_text, soc
from farm.condition.device_state import read_state
from farm.config.adb_address import AdbAddress
from farm.config.inventory import Inventory, Unit
from farm.lease import lease
from farm.lease.holder import Holder
from farm.rows.device_state import DeviceState
from farm.transport.adb_reconnect import is_address
from farm.transport.base import Transport
from farm.units import acceptance, facts, facts_cache, health
from farm.units.facts import Facts
from farm.units.facts_cache import DriverFacts
from runtime.errors import DeviceError, FarmError, JobError
from runtime.native.toolchains import why_missing

DEADLINE_S = 20.0
MAX_REASON = 300
MAX_PHONES = 200
MAX_NAME = 30
ANDROID = ("arm64-v8a", "armeabi-v7a")
NO_FACTS, NO_DRIVER, NO_STATE = Facts(), DriverFacts(), DeviceState()

Connect = Callable[[Unit], Transport]


class UnitState(enum.StrEnum):
    """Whether a unit can be used now, and if not why; docs/devices.md says what to do in each state."""

    READY = "ready"
    BUSY = "busy"
    RESERVED = "reserved"
    QUARANTINED = "quarantined"
    FAILING = "failing"
    UNAUTHORIZED = "unauthorized"
    NO_PERMISSIONS = "no permissions"
    OFFLINE = "offline"
    NOT_CONNECTED = "not connected"
    UNTRUSTED = "untrusted"
    UNREACHABLE = "unreachable"


# State that adb reports -> state of the unit; every other one means that the phone is there and does not answer.
ADB_STATES = {
    "unauthorized": UnitState.UNAUTHORIZED,
    "authorizing": UnitState.UNAUTHORIZED,
    "no permissions": UnitState.NO_PERMISSIONS,
}


@dataclasses.dataclass(frozen=True)
class AdbPhone:
    """A phone as an adb server lists it (see AdbDevice); `remedy` says what to do where the state is not `device`."""

    serial: str
    state: str = "device"
    remedy: str = ""
    model: str = ""
    path: str = ""
    shared: str = ""


@dataclasses.dataclass(frozen=True)
class UnitEntry:
    """A unit to survey; it is not asked where `state` is already known to be another than ready.

    Attributes:
        reason: why the state is not ready.
        listed: whether devices.yml lists the unit.
    """

    unit: Unit
    state: UnitState = UnitState.READY
    reason: str = ""
    listed: bool = True


@dataclasses.dataclass(frozen=True)
class UnitReport:
    """The survey's result for a unit: what it answered, or what is cached of it where it did not answer.

    Attributes:
        reason: why the state is not ready.
        device: the readings of its sensors; empty unless it was asked for them.
        holder: who holds its lease; None where nobody does, or it was not asked.
        listed: whether devices.yml lists the unit.
        accepted: when `farm accept` found it good, or what is to be done about that; empty: it was never tried.
    """

    unit: Unit
    state: UnitState
    reason: str = ""
    facts: Facts = NO_FACTS
    driver: DriverFacts = NO_DRIVER
    device: DeviceState = NO_STATE
    holder: Holder | None = None
    listed: bool = True
    accepted: str = ""


AskUnit = Callable[[UnitEntry], UnitReport]
ReportQueue = queue.Queue[tuple[int, UnitReport]]


def list_entries(inventory: Inventory, phones_of_servers: Mapping[AdbAddress, Sequence[AdbPhone]]) -> list[UnitEntry]:
    """Lists the units of devices.yml, then the plugged-in phones that it does not list.

    Args:
        inventory: the content of devices.yml.
        phones_of_servers: an adb server -> its phones; a server that could not be asked is left out, and
            connecting to one of its phones tells why.
    """
    listed = [_listed_entry(unit, phones_of_servers) for unit in inventory.units]
    if not inventory.discover_adb:
        return listed
    server = inventory.adb_server
    names = {entry.unit.name for entry in listed}
    serials = {entry.unit.serial for entry in listed if entry.unit.adb_server == server} - {""}
    phones = phones_of_servers.get(server, ())
    unlisted = [phone for phone in phones if serials.isdisjoint((phone.serial, phone.path))][:MAX_PHONES]
    return listed + [_discovered_entry(phone, server, names) for phone in unlisted]


def adb_servers(inventory: Inventory) -> set[AdbAddress]:
    """The adb servers that the survey must ask."""
    servers = {unit.adb_server for unit in inventory.units if unit.kind.has_adb_server}
    return servers | ({inventory.adb_server} if inventory.discover_adb else set())


def unit_name(phone: AdbPhone, used_names: Iterable[str] = ()) -> str:
    """Names a phone that devices.yml does not list: by model and serial, safe in file names, the same every time."""
    parts = [re.sub(r"[^A-Za-z0-9_.]+", "-", word[:MAX_NAME]).strip("-.") for word in (phone.model, phone.serial)]
    name = "-".join(word for word in parts if word) or "phone"
    lossy = parts[1] != phone.serial.replace(":", "-")
    return f"{name}-{_digest(phone.serial)}" if lossy or name in used_names else name


def ask_all(entries: Sequence[UnitEntry], ask: AskUnit, deadline_s: float = DEADLINE_S) -> list[UnitReport]:
    """Asks all units at the same time; returns the reports, in the same order, when all are in or the time is up."""
    answers: ReportQueue = queue.Queue()
    for index, entry in enumerate(entries):
        threading.Thread(target=_put_report, args=(answers, index, entry, ask), name="roll call", daemon=True).start()
    reports = dict(_reports_until(answers, len(entries), deadline_s))
    timed_out = f"did not answer within {deadline_s:g} s"
    return [
        reports.get(index) or _cached_report(entry, UnitState.UNREACHABLE, timed_out)
        for index, entry in enumerate(entries)
    ]


def identify(entry: UnitEntry, connect: Connect) -> UnitReport:
    """Reports what a unit is, by asking it."""
    return _report(entry, connect, _identified)


def report_from_cache(entry: UnitEntry) -> UnitReport:
    """Reports what is known of a unit, without asking it."""
    report = _cached_report(entry, entry.state, entry.reason)
    return (
        _reachable_report(entry, report.facts, report.driver)
        if report.state == UnitState.READY and report.unit.abis
        else report
    )


def inspect(entry: UnitEntry, connect: Connect) -> UnitReport:
    """Reports what a unit is, its state and who holds its lease, by asking it."""
    return _report(entry, connect, _inspected)


def watch(entry: UnitEntry, connect: Connect) -> UnitReport:
    """Reports a unit as `inspect` does, but of one on which a job runs only who holds it: questions cost it time."""
    return _report(entry, connect, _watched)


def _listed_entry(unit: Unit, phones_of_servers: Mapping[AdbAddress, Sequence[AdbPhone]]) -> UnitEntry:
    phones = phones_of_servers.get(unit.adb_server)
    if not unit.kind.has_adb_server or phones is None:
        return UnitEntry(unit)
    for phone in phones:
        if unit.serial and unit.serial in (phone.serial, phone.path):
            return UnitEntry(unit, *_adb_state(phone))
    if unit.address or is_address(unit.serial):  # connecting to it is the transport's matter
        return UnitEntry(unit)
    reason = f"no phone with the serial {unit.serial} is plugged in"
    if paths := ", ".join(phone.serial for phone in phones if phone.shared == unit.serial):
        reason = f"several phones have the serial {unit.serial}: name one by its path ({paths})"
    return UnitEntry(unit, UnitState.NOT_CONNECTED, reason)


def _discovered_entry(phone: AdbPhone, server: AdbAddress, used_names: set[str]) -> UnitEntry:
    name = unit_name(phone, used_names)
    used_names.add(name)
    unit = Unit(name, "adb", soc.UNKNOWN, name, (), serial=phone.serial, adb_server=server)
    return UnitEntry(unit, *_adb_state(phone), listed=False)


def _adb_state(phone: AdbPhone) -> tuple[UnitState, str]:
    if phone.state == "device":
        return UnitState.READY, ""
    return ADB_STATES.get(phone.state, UnitState.OFFLINE), safe_text.word(
        phone.remedy or f"adb says {phone.state}", MAX_REASON
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:6]


def _put_report(reports: ReportQueue, index: int, entry: UnitEntry, ask: AskUnit) -> None:
    reports.put((index, ask(entry)))


def _reports_until(reports: ReportQueue, count: int, deadline_s: float) -> Iterator[tuple[int, UnitReport]]:
    end_s = time.monotonic() + deadline_s
    with contextlib.suppress(queue.Empty):
        for _ in range(count):
            yield reports.get(timeout=max(0.0, end_s - time.monotonic()))


def _report(entry: UnitEntry, connect: Connect, ask: Callable[[UnitEntry, Transport], UnitReport]) -> UnitReport:
    """Asks a unit, if it may be there. Never raises an error of the unit."""
    if entry.state != UnitState.READY:
        return _cached_report(entry, entry.state, entry.reason)
    try:
        with contextlib.closing(connect(entry.unit)) as transport:
            return ask(entry, transport)
    except (FarmError, OSError) as error:
        return _cached_report(entry, _state_after(error), str(error).removeprefix(f"{entry.unit.name}: "))


def _state_after(error: Exception) -> UnitState:
    untrusted = isinstance(error, DeviceError) and error.kind.startswith("host-key-")
    return UnitState.UNTRUSTED if untrusted else UnitState.UNREACHABLE


def _reachable_report(entry: UnitEntry, unit_facts: Facts, driver: DriverFacts) -> UnitReport:
    """The report of a unit that can be reached: ready unless it is in quarantine or runs no known ABI."""
    unit = facts.complete(entry.unit, unit_facts)
    state, reason = UnitState.READY, ""
    if not unit.abis:
        state, reason = UnitState.FAILING, facts.NO_ABI
    elif unit_facts.obstacle:
        state, reason = UnitState.FAILING, unit_facts.obstacle
    elif quarantine := health.HealthRecords().read(entry.unit).quarantine:
        state, reason = UnitState.QUARANTINED, quarantine.line
    elif unit.abi in ANDROID:  # other programs than farmrt may still run there
        reason = why_missing(unit.abi)
    accepted = acceptance.table_word(entry.unit)
    return UnitReport(unit, state, reason, unit_facts, driver, listed=entry.listed, accepted=accepted)


def _identified(entry: UnitEntry, transport: Transport) -> UnitReport:
    cached = facts_cache.update(entry.unit, facts.read_facts(transport))
    return _reachable_report(entry, cached.facts, cached.driver)


def _inspected(entry: UnitEntry, transport: Transport) -> UnitReport:
    report = _identified(entry, transport)
    return _with_holder(
        dataclasses.replace(report, device=read_state(transport, acceptance.trust_of(report.unit).ignored_zones)),
        transport,
    )


def _watched(entry: UnitEntry, transport: Transport) -> UnitReport:
    known = _with_holder(_cached_report(entry, UnitState.READY, ""), transport)
    return known if known.state == UnitState.BUSY else _inspected(entry, transport)


def _with_holder(report: UnitReport, transport: Transport) -> UnitReport:
    """Adds who holds the unit's lease, and the state that follows."""
    try:
        holder = lease.holder(transport, report.unit)
    except JobError as error:
        return dataclasses.replace(report, state=UnitState.FAILING, reason=safe_text.word(error, MAX_REASON))
    if holder:
        state = UnitState.RESERVED if holder.is_reservation else UnitState.BUSY
        return dataclasses.replace(report, state=state, reason=safe_text.word(holder.line, MAX_REASON), holder=holder)
    return report


def _cached_report(entry: UnitEntry, state: UnitState, reason: str) -> UnitReport:
    """The report of a unit that is not asked: the cached facts with the given state."""
    cached = facts_cache.read(entry.unit)
    unit = facts.complete(entry.unit, cached.facts)
    return UnitReport(
        unit,
        state,
        safe_text.word(reason, MAX_REASON),
        cached.facts,
        cached.driver,
        listed=entry.listed,
        accepted=acceptance.table_word(entry.unit),
    )
