"""Which units there are, and in what state each is: those of devices.yml and the phones that are plugged in.

All are asked at the same time. One that does not answer, or answers nonsense, is a line that says so.
"""

from __future__ import annotations

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
from farm.config.inventory import DEFAULT_FILE, Inventory, Unit
from farm.lease import lease
from farm.rows.device_state import DeviceState
from farm.transport.base import Transport
from farm.units import facts, health, known_units
from farm.units.facts import Facts
from farm.units.known_units import Driver
from runtime.errors import DeviceError, FarmError, JobError

DEADLINE_S = 20.0
MAX_REASON = 300
MAX_PHONES = 200
MAX_NAME = 30
NO_FACTS, NO_DRIVER, NO_STATE = Facts(), Driver(), DeviceState()

Connect = Callable[[Unit], Transport]


class State(enum.StrEnum):
    """What can be done with a unit now; docs/devices.md says for each what to do."""

    READY = "ready"
    BUSY = "busy"
    QUARANTINED = "quarantined"
    FAILING = "failing"
    UNAUTHORIZED = "unauthorized"
    NO_PERMISSIONS = "no permissions"
    OFFLINE = "offline"
    NOT_CONNECTED = "not connected"
    UNTRUSTED = "untrusted"
    UNREACHABLE = "unreachable"


# What a server's word means; all others say that the phone is there and does not answer.
ADB_STATES = {
    "unauthorized": State.UNAUTHORIZED,
    "authorizing": State.UNAUTHORIZED,
    "no permissions": State.NO_PERMISSIONS,
}


@dataclasses.dataclass(frozen=True)
class Plugged:
    """A phone that an adb server knows, its state in the server's word, and what to do where that is not `device`."""

    serial: str
    state: str = "device"
    remedy: str = ""
    model: str = ""


@dataclasses.dataclass(frozen=True)
class Present:
    """A unit that is to be asked; where `state` is not ready it is known that asking is in vain."""

    unit: Unit
    state: State = State.READY
    reason: str = ""
    listed: bool = True


@dataclasses.dataclass(frozen=True)
class Report:
    """What a unit answered; what it was known to be, where it did not."""

    unit: Unit
    state: State
    reason: str = ""
    facts: Facts = NO_FACTS
    driver: Driver = NO_DRIVER
    device: DeviceState = NO_STATE
    holder: str = ""
    listed: bool = True


Ask = Callable[[Present], Report]
Answers = queue.Queue[tuple[int, Report]]


def present(inventory: Inventory, plugged: Mapping[int | None, Sequence[Plugged]]) -> list[Present]:
    """The units of the file, then the phones beside them.

    `plugged` are the phones of each adb server, by its port; of a server that could not be asked nothing is known, and
    whoever connects to a phone of it learns why.
    """
    listed = [_listed(unit, plugged) for unit in inventory.units]
    if not inventory.discover_adb:
        return listed
    port = inventory.adb_server_port
    names = {each.unit.name for each in listed}
    serials = {each.unit.serial for each in listed if each.unit.adb_server_port == port}
    found = [phone for phone in plugged.get(port, ()) if phone.serial not in serials][:MAX_PHONES]
    return listed + [_discovered(phone, port, names) for phone in found]


def adb_ports(inventory: Inventory) -> set[int | None]:
    """The adb servers that have to be asked."""
    ports = {unit.adb_server_port for unit in inventory.units if unit.transport == "adb"}
    return ports | ({inventory.adb_server_port} if inventory.discover_adb else set())


def unit_name(phone: Plugged, taken: Iterable[str] = ()) -> str:
    """A name for a phone that has none: its model and serial, as a file name; always the same for the same phone."""
    words = [re.sub(r"[^A-Za-z0-9_.]+", "-", word[:MAX_NAME]).strip("-.") for word in (phone.model, phone.serial)]
    name = "-".join(word for word in words if word) or "phone"
    changed = words[1] != phone.serial.replace(":", "-")
    return f"{name}-{_digest(phone.serial)}" if changed or name in taken else name


def call(presents: Sequence[Present], ask: Ask, deadline_s: float = DEADLINE_S) -> list[Report]:
    """Asks all at the same time, and returns their reports in the same order when all are there or the time is up."""
    answers: Answers = queue.Queue()
    for index, each in enumerate(presents):
        threading.Thread(target=_answer, args=(answers, index, each, ask), name="roll call", daemon=True).start()
    reports = dict(_until(answers, len(presents), deadline_s))
    silent = f"did not answer within {deadline_s:g} s"
    return [reports.get(index) or _unasked(each, State.UNREACHABLE, silent) for index, each in enumerate(presents)]


def identify(each: Present, connect: Connect) -> Report:
    """Asks a unit what it is."""
    return _asked(each, connect, lambda report, transport: report)


def recall(each: Present) -> Report:
    """What is known of a unit without asking it."""
    report = _unasked(each, each.state, each.reason)
    return _judged(each, report.facts, report.driver) if report.state == State.READY and report.unit.abis else report


def ask(each: Present, connect: Connect) -> Report:
    """Asks a unit what it is, how it is, and who holds it."""
    return _asked(each, connect, _with_state)


def _listed(unit: Unit, plugged: Mapping[int | None, Sequence[Plugged]]) -> Present:
    phones = plugged.get(unit.adb_server_port)
    if unit.transport != "adb" or phones is None:
        return Present(unit)
    for phone in phones:
        if phone.serial == unit.serial:
            return Present(unit, *_adb_state(phone))
    if unit.address:  # connecting to it is the transport's matter
        return Present(unit)
    return Present(unit, State.NOT_CONNECTED, f"no phone with the serial {unit.serial} is plugged in")


def _discovered(phone: Plugged, port: int | None, taken: set[str]) -> Present:
    name = unit_name(phone, taken)
    taken.add(name)
    unit = Unit(name, "adb", soc.UNKNOWN, name, (), serial=phone.serial, adb_server_port=port)
    return Present(unit, *_adb_state(phone), listed=False)


def _adb_state(phone: Plugged) -> tuple[State, str]:
    if phone.state == "device":
        return State.READY, ""
    return ADB_STATES.get(phone.state, State.OFFLINE), safe_text.word(
        phone.remedy or f"adb says {phone.state}", MAX_REASON
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:6]


def _answer(answers: Answers, index: int, each: Present, ask: Ask) -> None:
    answers.put((index, ask(each)))


def _until(answers: Answers, count: int, deadline_s: float) -> Iterator[tuple[int, Report]]:
    end_s = time.monotonic() + deadline_s
    with contextlib.suppress(queue.Empty):
        for _ in range(count):
            yield answers.get(timeout=max(0.0, end_s - time.monotonic()))


def _asked(each: Present, connect: Connect, look: Callable[[Report, Transport], Report]) -> Report:
    """A report in any case; `look` completes that of a unit that answered."""
    if each.state != State.READY:
        return _unasked(each, each.state, each.reason)
    try:
        with contextlib.closing(connect(each.unit)) as transport:
            known = known_units.note(each.unit, facts.read_facts(transport))
            return look(_judged(each, known.facts, known.driver), transport)
    except (FarmError, OSError) as error:
        return _unasked(each, _state_of(error), str(error).removeprefix(f"{each.unit.name}: "))


def _state_of(error: Exception) -> State:
    untrusted = isinstance(error, DeviceError) and error.kind.startswith("host-key-")
    return State.UNTRUSTED if untrusted else State.UNREACHABLE


def _judged(each: Present, found: Facts, driver: Driver) -> Report:
    """The report of a unit that can be reached, and is ready unless something speaks against it."""
    unit = facts.complete(each.unit, found)
    state, reason = State.READY, ""
    if not unit.abis:
        state, reason = State.FAILING, f"it runs no ABI that farm knows; target_abis in {DEFAULT_FILE} would name one"
    elif quarantine := health.Records().read(each.unit).quarantine:
        state, reason = State.QUARANTINED, quarantine.line
    return Report(unit, state, reason, found, driver, listed=each.listed)


def _with_state(report: Report, transport: Transport) -> Report:
    """The report with the unit's state, and who holds it."""
    report = dataclasses.replace(report, device=read_state(transport))
    try:
        holder = safe_text.word(lease.holder(transport), MAX_REASON)
    except JobError as error:
        return dataclasses.replace(report, state=State.FAILING, reason=safe_text.word(error, MAX_REASON))
    if holder:
        return dataclasses.replace(report, state=State.BUSY, reason=holder, holder=holder)
    return report


def _unasked(each: Present, state: State, reason: str) -> Report:
    """The report of a unit that cannot be asked: what is known of it from before."""
    known = known_units.read(each.unit)
    unit = facts.complete(each.unit, known.facts)
    return Report(unit, state, safe_text.word(reason, MAX_REASON), known.facts, known.driver, listed=each.listed)
