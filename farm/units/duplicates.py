"""Recognises a phone that adb lists twice, say as emulator-5554 and 127.0.0.1:5555, and makes one unit of it.

A phone is the same where serial number, number of the boot and the folder for shells are: cheap phones and emulators
share serial numbers, containers the boot. Only phones that may be the same are asked: those of one model, of which at
least one is in the network.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from farm.config.adb_address import AdbAddress
from farm.transport.adb_reconnect import is_in_network
from farm.transport.adb_server import AdbServer
from farm.units.survey import AdbPhone, UnitEntry
from runtime.errors import JobError

ASK_S = 3.0
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
        answer = AdbServer(address).shell_output(SCRIPT, serial, time.monotonic() + ASK_S)
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
