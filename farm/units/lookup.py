"""Finds units: all that there are, those that a user names, those that a deployment file is for."""

import dataclasses
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from farm import soc
from farm.config import inventory
from farm.config.adb_address import LOCAL, AdbAddress
from farm.config.deployment import Deployment
from farm.config.inventory import Inventory, Unit
from farm.config.suggestion import suggestion
from farm.transport import connect
from farm.transport.adb import TRANSIENT_STATES, remedy
from farm.transport.adb_reconnect import OFFLINE, is_in_network, reconnect
from farm.transport.adb_server import AdbDevice, AdbServer
from farm.units import survey
from farm.units.selection import ANY, READY, SelectableUnit, Selection, describe_all, may_match, select
from farm.units.survey import AdbPhone, UnitEntry, UnitReport
from runtime.errors import FarmError, JobError, NoUnitError


def chosen_units(choice: Selection) -> list[Unit]:
    """The units that the user means, of all that there are."""
    return select(candidates(choice), choice)


def units_for(deployment: Deployment, choice: Selection = ANY) -> list[Unit]:
    """The units to work on: those that the user names, else those that the deployment file is for."""
    return units_among(candidates(choice), deployment, choice)


def units_among(there: Sequence[SelectableUnit], deployment: Deployment, choice: Selection = ANY) -> list[Unit]:
    """The same of units that are known already."""
    if choice.names_units:
        return select(there, choice)
    suitable = [candidate for candidate in there if _suits(candidate.unit, deployment)]
    if not suitable:
        wanted = ", ".join((*deployment.target_abis, *deployment.target_socs))
        raise NoUnitError(
            f"{deployment.path}: no unit is of its target_abis and target_socs ({wanted}); {describe_all(there)}"
        )
    return select(_any_one(suitable) if deployment.takes_one else suitable, choice)


def _any_one(candidates: Sequence[SelectableUnit]) -> list[SelectableUnit]:
    """One of them, a ready one where there is one, left to chance."""
    ready = [candidate for candidate in candidates if candidate.state == READY]
    return [random.choice(ready or candidates)]


def units_if_any(deployment: Deployment, choice: Selection = ANY) -> list[Unit]:
    """As `units_for`, but none where the user names none and the deployment file is for none that is there."""
    try:
        return units_for(deployment, choice)
    except NoUnitError:
        if choice.names_units:
            raise
        return []


def units_of_socs(choice: Selection, known: Collection[str]) -> list[Unit]:
    """The units of the SoCs that the user names, perhaps none; raises NoUnitError for one that is not known either.

    `known` are the keys of SoCs that are no mistake where no unit is of them.
    """
    there = candidates(choice)
    present = {soc.normalise(candidate.unit.soc) for candidate in there} - {soc.UNKNOWN}
    for word in choice.socs:
        if soc.normalise(word) not in present | {*known}:
            raise NoUnitError(f"--soc {word}: no such SoC is known{suggestion(word.lower(), present | {*known})}")
    here = tuple(word for word in choice.socs if soc.normalise(word) in present)
    return select(there, dataclasses.replace(choice, socs=here)) if here else []


def candidates(choice: Selection = ANY) -> list[SelectableUnit]:
    """All units. Those that may be meant are asked what they are, where devices.yml does not say all of it."""

    def report(entry: UnitEntry) -> UnitReport:
        open_question = not entry.unit.abis or entry.unit.soc == soc.UNKNOWN or choice.one_per_soc
        is_asked = open_question and may_match(entry.unit, choice)
        return survey.identify(entry, connect) if is_asked else survey.report_from_cache(entry)

    return [SelectableUnit(report.unit, report.state) for report in survey.ask_all(present(), report)]


def present_unit(name: str) -> Unit:
    """The unit of that name, serial or alias, without asking it anything; raises NoUnitError where there is none."""
    return select([SelectableUnit(entry.unit, entry.state) for entry in present()], Selection(devices=(name,)))[0]


def present() -> list[UnitEntry]:
    """All units, each once; none is asked yet what it is."""
    known = inventory.load_inventory()
    answers = {server: _phones(server, known) for server in survey.adb_servers(known)}
    phones = {server: plugged for server, plugged in answers.items() if plugged is not None}
    return merge_duplicates(survey.list_entries(known, phones), read_identities(phones))


def _phones(address: AdbAddress, known: Inventory) -> Sequence[AdbPhone] | None:
    """The phones of an adb server, which is started only where there may be some; None where it cannot be asked."""
    expected = not address.is_local or any(
        unit.kind.has_adb_server and unit.adb_server == address for unit in known.units
    )
    try:
        may_answer = expected or may_have_phone() or AdbServer(address).is_running()
        return adb_phones(address) if may_answer else ()
    except FarmError:
        return None


def _suits(unit: Unit, deployment: Deployment) -> bool:
    wanted = {soc.normalise(word) for word in deployment.target_socs}
    return bool(set(unit.abis) & set(deployment.target_abis)) and (not wanted or soc.normalise(unit.soc) in wanted)


# Recognises a phone that adb lists twice, say as emulator-5554 and 127.0.0.1:5555, and makes one unit of it.
#
# A phone is the same where serial number, number of the boot and the folder for shells are: cheap phones and emulators
# share serial numbers, containers the boot. Only phones that may be the same are asked: those of one model, of which at
# least one is in the network.
IDENTITY_S = 3.0
MAX_AT_ONCE = 32
SCRIPT = "getprop ro.serialno; cat /proc/sys/kernel/random/boot_id; stat -c %d:%i /data/local/tmp 2>/dev/null"
BOOT_ID = re.compile(rb"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")

PhoneKey = tuple[AdbAddress, str]  # adb server, serial


def read_identities(phones_of_servers: Mapping[AdbAddress, Sequence[AdbPhone]]) -> dict[PhoneKey, bytes]:
    """Asks the phones that may be listed twice for what tells them apart; one that does not answer is left out."""
    asked = list(_possible_duplicates(phones_of_servers))
    if not asked:
        return {}
    with ThreadPoolExecutor(min(len(asked), MAX_AT_ONCE)) as pool:
        answers = pool.map(_read_identity, asked)
    return {key: answer for key, answer in zip(asked, answers, strict=True) if answer}


def merge_duplicates(entries: Sequence[UnitEntry], identities: Mapping[PhoneKey, bytes]) -> list[UnitEntry]:
    """Keeps one entry of each phone, with the names of the others as its aliases.

    The first that devices.yml lists is kept, else one that is not in the network (USB, emulator), else the first.
    """
    same: dict[bytes, list[UnitEntry]] = defaultdict(list)
    for entry in entries:
        if identity := identities.get(_key(entry)):
            same[identity].append(entry)
    others = {id(kept): rest for group in same.values() for kept, *rest in [sorted(group, key=_rank)]}
    dropped = {id(entry) for rest in others.values() for entry in rest}
    return [_with_aliases(entry, others.get(id(entry), ())) for entry in entries if id(entry) not in dropped]


def _possible_duplicates(phones_of_servers: Mapping[AdbAddress, Sequence[AdbPhone]]) -> Iterator[PhoneKey]:
    by_model: dict[str, list[PhoneKey]] = defaultdict(list)
    for address, phones in phones_of_servers.items():
        for phone in phones:
            if phone.state == "device":
                by_model[phone.model].append((address, phone.serial))
    for keys in by_model.values():
        if len(keys) > 1 and any(is_in_network(serial) for _, serial in keys):
            yield from keys


def _read_identity(key: PhoneKey) -> bytes:
    """What tells a phone from all others; empty where it does not say."""
    address, serial = key
    try:
        answer = AdbServer(address).shell_output(SCRIPT, serial, time.monotonic() + IDENTITY_S)
    except JobError:
        return b""
    return b"\n".join(answer.split()) if BOOT_ID.search(answer) else b""


def _key(entry: UnitEntry) -> PhoneKey:
    return entry.unit.adb_server, entry.unit.serial


def _rank(entry: UnitEntry) -> tuple[bool, bool]:
    return not entry.listed, not entry.listed and is_in_network(entry.unit.serial)


def _with_aliases(entry: UnitEntry, others: Sequence[UnitEntry]) -> UnitEntry:
    if not others:
        return entry
    names = [name for other in others for name in ((other.unit.name,) if other.listed else ()) + (other.unit.serial,)]
    aliases = tuple(name for name in dict.fromkeys(names) if name != entry.unit.serial)
    return dataclasses.replace(entry, unit=dataclasses.replace(entry.unit, aliases=aliases))


# Lists the phones that an adb server sees, each with its state and what the user can do about that; and says whether
# USB has one that makes a server worth starting.
ASK_S = 10.0
RETURN_S = 6.0  # how long a phone that the server connects to anew may take
POLL_S = 0.1


def adb_phones(address: AdbAddress = LOCAL) -> list[AdbPhone]:
    """Lists the phones of an adb server; one that returned and is still offline there is connected first.

    Raises JobError where no server runs or can be started.
    """
    server = AdbServer(address)
    devices = server.devices(time.monotonic() + ASK_S)
    if offline := [device.serial for device in devices if device.state == OFFLINE]:
        devices = _keep_absent(devices, _after_reconnecting(server, offline))
    return [
        AdbPhone(device.serial, device.state, remedy(device.state), device.model, device.path, device.shared)
        for device in devices
    ]


def _keep_absent(before: Sequence[AdbDevice], after: Sequence[AdbDevice]) -> list[AdbDevice]:
    """Keeps those in the list that the server does not name while it connects to them anew."""
    named = {device.serial for device in after}
    return [*after, *(device for device in before if device.state == OFFLINE and device.serial not in named)]


def _after_reconnecting(server: AdbServer, offline: Sequence[str]) -> list[AdbDevice]:
    """The server's devices once those that could be connected anew have answered, or had their time to."""
    end = time.monotonic() + RETURN_S
    with ThreadPoolExecutor(min(len(offline), MAX_AT_ONCE)) as pool:
        tried = pool.map(lambda serial: reconnect(server, serial, end), offline)
    waited_for = {serial for serial, was_tried in zip(offline, tried, strict=True) if was_tried}
    while True:
        devices = server.devices(time.monotonic() + ASK_S)
        ready = {device.serial for device in devices if device.state not in TRANSIENT_STATES}
        if waited_for <= ready or time.monotonic() >= end:
            return devices
        time.sleep(POLL_S)


SYSFS = Path("/sys/bus/usb/devices")
# Class, subclass and protocol of adb's USB interface.
ADB_INTERFACE = {"bInterfaceClass": "ff", "bInterfaceSubClass": "42", "bInterfaceProtocol": "01"}


def may_have_phone(sysfs: Path = SYSFS, system: str = sys.platform) -> bool:
    """Whether a USB device may offer adb; always true on systems other than Linux, which has no sysfs to ask."""
    if not system.startswith("linux"):
        return True
    return any(_speaks_adb(interface) for interface in sysfs.glob("*:*"))


def _speaks_adb(interface: Path) -> bool:
    try:
        return all((interface / name).read_text().strip() == value for name, value in ADB_INTERFACE.items())
    except OSError:  # unplugged in this moment
        return False
