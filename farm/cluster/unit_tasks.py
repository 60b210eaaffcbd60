"""What a host does with its units for people elsewhere: looks at them, reserves, releases and checks them.

Each function is called by Dask on the host's own worker, beside its jobs, with plain values, and returns such. Units
have their names in the cluster; a change answers with a `text`, or with an `error` of some `kind`.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from farm.cluster.host_tasks import cluster_name
from farm.config.inventory import Unit
from farm.jobs.fleet.opencl_library import check_unit
from farm.lease import lease, reservation
from farm.transport import connect
from farm.units import health, lookup, survey
from farm.units.health import HealthHistory
from farm.units.selection import SelectableUnit, Selection, select
from farm.units.survey import UnitReport
from runtime.errors import ConfigError, FarmError, JobError, NoUnitError, UnitBusyError

# Kind of error, as it is sent -> its class, the special ones first.
KINDS: dict[str, type[FarmError]] = {
    "busy": UnitBusyError,
    "no_unit": NoUnitError,
    "config": ConfigError,
    "job": JobError,
}


@dataclasses.dataclass(frozen=True)
class SeenUnit:
    """A unit as its host sees it, and what the host remembers of it."""

    report: UnitReport
    health: HealthHistory


SEEN = TypeAdapter(list[SeenUnit])


def look(host: str) -> bytes:
    """All units of the host; those on which a job runs are only asked who holds them."""
    records = health.HealthRecords()
    reports = survey.ask_all(lookup.present(), lambda entry: survey.watch(entry, connect))
    return SEEN.dump_json([SeenUnit(_as_in_cluster(report, host), records.read(report.unit)) for report in reports])


def has_unit(host: str, name: str) -> bool:
    """Whether the host has a unit of that name, serial or alias."""
    with contextlib.suppress(NoUnitError):
        return bool(_own_unit(host, name))
    return False


def _answered(change: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A change whose errors are answers, under the unit's name in the cluster."""

    @functools.wraps(change)
    def answer(host: str, name: str, *arguments: Any) -> dict[str, Any]:
        own = name
        try:
            unit = _own_unit(host, name)
            own = unit.name
            said = change(unit, *arguments)
        except (FarmError, OSError) as error:
            kind = next((kind for kind, group in KINDS.items() if isinstance(error, group)), "job")
            said = {"error": kind, "text": str(error)}
        text = said["text"].replace(f"{own}: ", f"{name}: ", 1)
        return {**said, "text": text.replace(f" release {own} ", f" release {name} ")}

    return answer


@_answered
def reserve(unit: Unit, duration_s: float, reason: str, person: str, force: bool) -> dict[str, Any]:
    """`farm reserve` in a person's name."""
    with contextlib.closing(connect(unit)) as transport:
        return {"text": reservation.reserve(unit, transport, reason, duration_s, person, force)}


@_answered
def release(unit: Unit, person: str, force: bool) -> dict[str, Any]:
    """`farm release` in a person's name."""
    with contextlib.closing(connect(unit)) as transport:
        return {"text": lease.release(unit, transport, force, person)}


@_answered
def check(unit: Unit) -> dict[str, Any]:
    """`farm devices check`; `points` has name, whether it is good, and text of each."""
    (complete,) = lookup.chosen_units(Selection(devices=(unit.name,)))
    found = check_unit(complete)
    quarantine = health.HealthRecords().record_check(complete, found).quarantine
    points = [dataclasses.asdict(point) for point in found]
    return {"text": quarantine.line if quarantine else "", "points": points}


def _own_unit(host: str, name: str) -> Unit:
    """The host's unit of that name, serial or alias; raises NoUnitError where it has none."""
    own = {cluster_name(entry.unit, host): entry for entry in lookup.present()}
    known = [SelectableUnit(dataclasses.replace(each.unit, name=called), each.state) for called, each in own.items()]
    return own[select(known, Selection(devices=(name,)))[0].name].unit


def _as_in_cluster(report: UnitReport, host: str) -> UnitReport:
    return dataclasses.replace(report, unit=dataclasses.replace(report.unit, name=cluster_name(report.unit, host)))
