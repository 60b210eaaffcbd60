"""Tuned parameters and fingerprints written by hand."""

from collections.abc import Sequence
from typing import Any

from runtime.plan.container import StringTable, encode_container
from runtime.plan.records import TUNED_MAGIC, SectionId
from runtime.version import RUNTIME_VERSION
from tests.native.plans import SOURCE_HASH, table


def fingerprint(probe: dict[str, Any], **changes: str) -> dict[str, str]:
    """A SET's strings for the probed device."""
    device = probe["opencl"]["device"]
    known = {
        "soc": "host",
        "gpu": device["name"],
        "driver": device["driver"],
        "opencl": device["version"],
        "gpu_family": "pocl",
        "source_hash": SOURCE_HASH,
        "runtime_version": RUNTIME_VERSION,
        "device_model": "test",
    }
    return known | changes


def tuned_entry(
    key: str, kernel: str, options: str, size: Sequence[int], local: Sequence[int], block: int = 0
) -> dict[str, Any]:
    """A TUNED record with its strings as text."""
    return {
        "key": key,
        "kernel": kernel,
        "options": options,
        "block": block,
        "work_dim": len(size),
        "global_size": (*size, *[1] * (3 - len(size))),
        "local_size": (*local, *[0] * (3 - len(local))),
    }


def tuned_file(sets: Sequence[tuple[dict[str, str], Sequence[dict[str, Any]]]]) -> bytes:
    """A tuned-parameter file of several sets."""
    strings = StringTable()
    set_rows: list[dict[str, Any]] = []
    entry_rows: list[dict[str, Any]] = []
    for names, entries in sets:
        row = {name: strings.add(text) for name, text in names.items()}
        set_rows.append(row | {"first_entry": len(entry_rows), "entry_count": len(entries)})
        for entry in entries:
            texts = {name: strings.add(entry[name]) for name in ("key", "kernel", "options")}
            entry_rows.append(entry | texts)
    sections = {SectionId.SET: table(SectionId.SET, set_rows), SectionId.TUNED: table(SectionId.TUNED, entry_rows)}
    return encode_container(TUNED_MAGIC, sections | {SectionId.STRINGS: strings.section()})
