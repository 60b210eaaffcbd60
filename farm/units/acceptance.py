"""What a unit was found to be good for, and what farm does there for it: the findings of `farm accept`.

Each unit has a file `build/units/<name>/acceptance.json`. It is valid for the device that it was written for, and in
force until its system or its OpenCL driver is another: what an update brings must be accepted anew.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import threading
from pathlib import Path
from typing import Any, Literal

from farm.config.inventory import Unit
from farm.lease import host_lock
from farm.rows.record import Record
from farm.units import facts_cache
from farm.units.facts_cache import CachedFacts
from farm.units.health import CheckResult
from farm.units.unit_file import FOLDER, RecordFile, UnitRecord

NEVER = "never"  # farmrt's word for flush_every
_LOCK = threading.Lock()  # findings of one process; two processes do not hold one unit

State = Literal["ok", "limited", "failed", "skipped"]


class Trust(Record):
    """What farm does on a unit, other than by default; None and empty: as by default.

    Attributes:
        flush_every: launches after which a GPU's queue is flushed; 0: never.
        record: launches are recorded once and then enqueued together (cl_qcom_recordable_queues).
        zero_copy: a GPU reads weights where the host has them.
        host_times: launches are timed by the host's clock.
        images, fp16: False where kernels on images, or in half arithmetic, are not right.
        max_allocation_bytes, image2d_max_width, image2d_max_height, max_work_group_size: what really works.
        ignored_zones: types of thermal zones that are no heat of the chip.
        rest_s: how long it rests until it is as fast as before.
        wakes: its screen goes off whatever keeps it on, so that it is woken before each sample.
    """

    flush_every: int | None = None
    record: bool | None = None
    zero_copy: bool | None = None
    host_times: bool | None = None
    images: bool | None = None
    fp16: bool | None = None
    max_allocation_bytes: int | None = None
    image2d_max_width: int | None = None
    image2d_max_height: int | None = None
    max_work_group_size: int | None = None
    ignored_zones: tuple[str, ...] = ()
    rest_s: float | None = None
    wakes: bool | None = None

    def joined(self, other: Trust) -> Trust:
        """Both; where they differ, as the other says."""
        return self.model_copy(update={name: getattr(other, name) for name in other.model_dump(exclude_defaults=True)})

    @property
    def load_words(self) -> dict[str, object]:
        """The words of farmrt's `load`."""
        words: dict[str, object] = {name: getattr(self, name) or None for name in ("zero_copy", "host_times", "record")}
        return words | {"flush_every": NEVER if self.flush_every == 0 else self.flush_every}

    @property
    def device_limits(self) -> dict[str, Any]:
        """Members of the probe's device that are other than the driver says."""
        names = ("images", "fp16", "max_allocation_bytes", "image2d_max_width", "image2d_max_height")
        return {name: value for name in (*names, "max_work_group_size") if (value := getattr(self, name)) is not None}


class AcceptanceFinding(Record):
    """What one check found: `effect` says in words what farm does for it, `trust` does it.

    A unit with a finding that `failed` goes into quarantine; `skipped`: there is nothing to check. `late`: operators
    for which there was no time, and that the next acceptance tries.
    """

    check: str
    state: State
    text: str
    effect: str = ""
    trust: Trust = Trust()
    late: tuple[str, ...] = ()


class Acceptance(UnitRecord):
    """All findings on one device; `system` names the system and driver that they hold for, `date` is of the last."""

    system: str
    date: str = ""
    quick: bool = False
    findings: tuple[AcceptanceFinding, ...] = ()

    @property
    def faults(self) -> list[AcceptanceFinding]:
        """The findings for which the unit must not be used."""
        return [finding for finding in self.findings if finding.state == "failed"]

    @property
    def trust(self) -> Trust:
        """What all findings together let farm do."""
        return functools.reduce(Trust.joined, (finding.trust for finding in self.findings), Trust())

    def finding(self, check: str) -> AcceptanceFinding | None:
        """What a check found; None where it did not run."""
        return next((finding for finding in self.findings if finding.check == check), None)


FILE = RecordFile("acceptance.json", Acceptance, 256 * 1024)


def system_of(known: CachedFacts) -> str:
    """The system and OpenCL driver of a unit, as far as they are known."""
    parts = (known.facts.os, known.facts.build, known.driver.gpu, known.driver.driver, known.driver.opencl)
    return " | ".join(parts)


def kept(unit: Unit, folder: Path = FOLDER) -> Acceptance | None:
    """What was found on this device, whether or not it is still in force; None where nothing was."""
    return FILE.read(unit, folder)


def in_force(unit: Unit, folder: Path = FOLDER) -> Acceptance | None:
    """What was found on the system that the unit has now; None where nothing was."""
    found = kept(unit, folder)
    return found if found and found.system == system_of(facts_cache.read(unit, folder)) else None


def trust_of(unit: Unit, folder: Path = FOLDER) -> Trust:
    """What farm may do on a unit."""
    found = in_force(unit, folder)
    return found.trust if found else Trust()


def keep(unit: Unit, finding: AcceptanceFinding, quick: bool = False, folder: Path = FOLDER) -> Acceptance:
    """Adds a finding to those in force, in place of an earlier one of its check."""
    with _LOCK:
        found = in_force(unit, folder)
        others = [each for each in found.findings if each.check != finding.check] if found else []
        added = Acceptance(
            identity=host_lock.connection_key(unit),
            system=system_of(facts_cache.read(unit, folder)),
            date=datetime.date.today().isoformat(),
            quick=quick or bool(found and found.quick and others),
            findings=(*others, finding),
        )
        FILE.write(unit, added, folder)
        return added


def forget(unit: Unit, folder: Path = FOLDER) -> None:
    """Forgets all findings."""
    with contextlib.suppress(OSError):
        FILE.path(unit, folder).unlink()


def check_result(unit: Unit, folder: Path = FOLDER) -> list[CheckResult]:
    """The acceptance as a point of the health check; none where the unit was not accepted."""
    found = in_force(unit, folder)
    if not found:
        return []
    text = "; ".join(f"{fault.check}: {fault.text}" for fault in found.faults)
    told = f"{text}; `farm accept {unit.name}` tries again" if text else f"of {found.date}"
    return [CheckResult("acceptance", not text, told)]


def table_word(unit: Unit, folder: Path = FOLDER) -> str:
    """For a table: the date and what is limited; `failed`; `updated` where it must be done again; else nothing."""
    found = kept(unit, folder)
    if not found:
        return ""
    if not in_force(unit, folder):
        return "updated"
    if found.faults:
        return "failed"
    limited = ", ".join(finding.check for finding in found.findings if finding.state == "limited")
    return f"{found.date}{' (quick)' if found.quick else ''}{limited and f', limited: {limited}'}"
