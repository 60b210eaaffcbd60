"""`farm accept`: a list of checks, each a small function that returns a finding, over what farm has for units anyway.

A finding is kept as soon as it is there. So an acceptance that was interrupted goes on where it was; what failed is
tried again, and all is tried again once the unit's system or its driver is another.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from farm import safe_text
from farm.condition.readiness import BYTES_PER_MB
from farm.config.inventory import Unit
from farm.farmrt.answers import Answer, ClockAnswer, LaunchesAnswer, LimitsAnswer, ZeroCopyAnswer
from farm.jobs.accept import device_findings as found_of
from farm.jobs.accept import load
from farm.jobs.accept.kernels import KERNELS, kernels_finding
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.opencl_library import check_basics
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.transport.adb_reconnect import is_in_network
from farm.units import acceptance, facts_cache, health, health_check, tried_kernels
from farm.units.acceptance import Acceptance, AcceptanceFinding, Trust
from farm.units.facts import read_facts
from runtime.errors import ConfigError, DeviceLostError, FarmError, ProcessEndedError

AnswerType = TypeVar("AnswerType", bound=Answer)

STORAGE, LINK, AWAKE, UNIT = "storage", "link", "awake", "unit"
EXAMINE_S = 60.0
LEAST_MB, ENOUGH_MB = 100, 500
PING_EVERY_S, PING_DEADLINE_S = 0.5, 10.0
NETWORK_PING_S, PINGS = 30.0, 20
TRANSFER_BYTES, QUICK_BYTES = 8 * 1024**2, 1024**2
SLOW_MS = 500.0
MAX_TEXT = 300
PLAYED = "played; "  # begins the driver's version of a played GPU
NO_GPU = "no OpenCL device"


@dataclasses.dataclass(frozen=True)
class UnitFinding:
    """A finding on a unit; `kept`: it was there before."""

    unit: str
    finding: AcceptanceFinding
    kept: bool = False


@dataclasses.dataclass(frozen=True)
class UnitTrial:
    """A unit that is being accepted. `is_quick`: seconds under load in place of minutes. `before`: what is in force."""

    opened: OpenUnit
    is_quick: bool
    before: Acceptance | None = None

    @property
    def unfinished(self) -> AcceptanceFinding | None:
        """What was found of kernels where there was no time for some of them."""
        known = self.before.finding(KERNELS) if self.before else None
        return known if known and known.late and known.state != "failed" else None

    @functools.cached_property
    def load(self) -> load.LoadRun:
        """The unit under load, once for all checks that need it."""
        return load.put_under_load(self.opened, self.is_quick)


@dataclasses.dataclass(frozen=True)
class AcceptCheck:
    """One thing to find out; `failing`: what it means that the device hangs or crashes there, if not a fault.

    `is_needed`: where it fails, nothing more can be found out.
    """

    name: str
    find: Callable[[UnitTrial], AcceptanceFinding]
    needs_gpu: bool = False
    is_needed: bool = False
    failing: AcceptanceFinding | None = None


def accept_job(
    units: Sequence[Unit],
    is_quick: bool = False,
    is_fresh: bool = False,
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[UnitFinding]:
    """Every finding on every unit, as soon as it is there; units with faults go into quarantine, others leave it.

    Args:
        is_quick: seconds under load in place of minutes.
        is_fresh: what was found before is forgotten.
    """
    jobs: list[Job[UnitFinding, OpenUnit]] = []
    for unit in units:
        if is_fresh:
            acceptance.forget(unit)
            tried_kernels.forget_refused(unit)
        if faults := _faults_before(unit):
            yield from faults
        else:
            jobs.append(Job([unit], functools.partial(_recorded_findings, is_quick=is_quick), _is_good, _unreached))
    yield from run_jobs(jobs, fleet, progress)


def _faults_before(unit: Unit) -> list[UnitFinding]:
    """What keeps a unit that is in quarantine from being accepted; without such it is let out, to be tried."""
    records = health.HealthRecords()
    if not records.read(unit).quarantine:
        return []
    results = check_basics(unit)
    records.record_check(unit, results)
    bad = [
        AcceptanceFinding(check=result.name, state="failed", text=result.text) for result in results if not result.ok
    ]
    return [UnitFinding(unit.name, finding) for finding in bad]


def _is_good(found: UnitFinding) -> bool:
    return found.finding.state != "failed"


def _unreached(unit: Unit, error: FarmError) -> UnitFinding:
    return UnitFinding(unit.name, AcceptanceFinding(check=UNIT, state="failed", text=safe_text.word(error, MAX_TEXT)))


def _recorded_findings(opened: OpenUnit, is_quick: bool) -> Iterator[UnitFinding]:
    """The findings of one unit, and what they mean for its health: all together, or a fault before it was lost."""
    is_whole = False
    try:
        yield from _findings(opened, is_quick)
        is_whole = True
    finally:
        results = acceptance.check_result(opened.unit)
        if results and (is_whole or not all(result.ok for result in results)):
            health.HealthRecords().record_check(opened.unit, results)


def _findings(opened: OpenUnit, is_quick: bool) -> Iterator[UnitFinding]:
    """The findings of one unit: those in force, and the others anew."""
    unit = opened.unit
    facts_cache.update(unit, read_facts(opened.transport))
    before = acceptance.in_force(unit)
    trial = UnitTrial(opened, is_quick, before)
    for check in CHECKS:
        known = before.finding(check.name) if before else None
        is_whole = known is not None and known.state != "failed" and not known.late
        if known and before and is_whole and (is_quick or not before.quick):
            yield UnitFinding(unit.name, known, kept=True)
            continue
        opened.progress.stage(check.name)
        finding = found(trial, check)
        acceptance.keep(unit, finding, is_quick)
        opened.trust = acceptance.trust_of(unit)
        yield UnitFinding(unit.name, finding)
        if check.is_needed and finding.state == "failed":
            return


def found(trial: UnitTrial, check: AcceptCheck) -> AcceptanceFinding:
    """What a check finds; raises the error of a unit that is gone."""
    if check.needs_gpu and trial.opened.probe.opencl.device is None:
        return AcceptanceFinding(check=check.name, state="skipped", text=NO_GPU)
    trial.opened.session.revive()
    try:
        return check.find(trial)
    except ConfigError:
        raise
    except FarmError as error:
        if isinstance(error, DeviceLostError) and not (isinstance(error, ProcessEndedError) and trial.opened.answers()):
            raise
        text = safe_text.word(error, MAX_TEXT)
        if check.failing:
            return check.failing.model_copy(update={"text": text})
        return AcceptanceFinding(check=check.name, state="failed", text=text)


# --- the checks ---


def _storage(trial: UnitTrial) -> AcceptanceFinding:
    free = trial.opened.state().free_bytes
    if free is None:
        return AcceptanceFinding(check=STORAGE, state="skipped", text="the unit does not tell")
    free_mb = free // BYTES_PER_MB
    text = f"{free_mb} MB free"
    if free_mb < LEAST_MB:
        return AcceptanceFinding(
            check=STORAGE, state="failed", text=f"{text}, {LEAST_MB} are needed: `farm clean` makes room"
        )
    if free_mb >= ENOUGH_MB:
        return AcceptanceFinding(check=STORAGE, state="ok", text=text)
    effect = "files of earlier jobs take half of that at most"
    return AcceptanceFinding(check=STORAGE, state="limited", text=text, effect=effect)


def _link(trial: UnitTrial) -> AcceptanceFinding:
    """Questions for a while, longer over a network, then a file there and back."""
    transport, unit = trial.opened.transport, trial.opened.unit
    is_network = not unit.kind.is_local and (bool(unit.address) or is_in_network(unit.serial))
    end_s = time.monotonic() + (NETWORK_PING_S if is_network and not trial.is_quick else 0.0)
    times_ms: list[float] = []
    while len(times_ms) < PINGS or time.monotonic() < end_s:
        start_s = time.monotonic()
        transport.run(["true"], PING_DEADLINE_S)
        times_ms.append(1e3 * (time.monotonic() - start_s))
        if is_network:
            trial.opened.sleep(min(PING_EVERY_S, max(0.0, end_s - time.monotonic())))
    start_s, size = time.monotonic(), QUICK_BYTES if trial.is_quick else TRANSFER_BYTES
    health_check.check_transfers(transport, size)
    mb_s = 2 * size / BYTES_PER_MB / (time.monotonic() - start_s)
    worst_ms = max(times_ms)
    text = f"answers in {statistics.median(times_ms):.0f} ms, at worst {worst_ms:.0f}; {mb_s:.0f} MB/s, files whole"
    state: acceptance.State = "limited" if worst_ms > SLOW_MS else "ok"
    effect = "a cable would answer sooner" if state == "limited" and is_network else ""
    return AcceptanceFinding(check=LINK, state=state, text=text, effect=effect)


def _examined(trial: UnitTrial, kind: type[AnswerType], point: str) -> AnswerType:
    return trial.opened.session.examine(kind, point, trial.opened.connection.opencl, EXAMINE_S)


def _clock(trial: UnitTrial) -> AcceptanceFinding:
    device = trial.opened.probe.opencl.device
    answer = _examined(trial, ClockAnswer, "clock")
    return found_of.clock_finding(answer, bool(device and device.driver.startswith(PLAYED)))


def _launches(trial: UnitTrial) -> AcceptanceFinding:
    return found_of.launches_finding(_examined(trial, LaunchesAnswer, "launches"))


def _zero_copy(trial: UnitTrial) -> AcceptanceFinding:
    return found_of.zero_copy_finding(_examined(trial, ZeroCopyAnswer, "zero_copy"))


def _limits(trial: UnitTrial) -> AcceptanceFinding:
    device = trial.opened.claims
    assert device  # a check that needs a GPU
    return found_of.limits_finding(_examined(trial, LimitsAnswer, "limits"), device)


def _awake(trial: UnitTrial) -> AcceptanceFinding:
    """Whether the screen is still on after the load, as a job keeps it."""
    if not trial.load.readings or trial.opened.state().screen_on is None:
        return AcceptanceFinding(check=AWAKE, state="skipped", text="no screen that it tells of")
    minutes = trial.load.readings[-1].at_s / 60
    if trial.opened.state().screen_on:
        return AcceptanceFinding(check=AWAKE, state="ok", text=f"its screen is on after {minutes:.1f} minutes")
    text = f"its screen went off within {minutes:.1f} minutes: a phone that sleeps lowers its clocks and drops links"
    if not trial.opened.unit.limits.keep_awake:
        return AcceptanceFinding(check=AWAKE, state="limited", text=text, effect="keep_awake: false says so")
    effect = "it is woken before each sample"
    return AcceptanceFinding(check=AWAKE, state="limited", text=text, effect=effect, trust=Trust(wakes=True))


CHECKS = (
    AcceptCheck(STORAGE, _storage, is_needed=True),
    AcceptCheck(LINK, _link, is_needed=True),
    AcceptCheck(
        found_of.CLOCK,
        _clock,
        needs_gpu=True,
        failing=AcceptanceFinding(
            check=found_of.CLOCK, state="limited", text="", effect=found_of.BY_HOST, trust=Trust(host_times=True)
        ),
    ),
    AcceptCheck(found_of.LAUNCHES, _launches, needs_gpu=True),
    AcceptCheck(
        found_of.ZERO_COPY,
        _zero_copy,
        needs_gpu=True,
        failing=AcceptanceFinding(check=found_of.ZERO_COPY, state="limited", text="", effect=found_of.COPIES),
    ),
    AcceptCheck(found_of.LIMITS, _limits, needs_gpu=True),
    AcceptCheck(KERNELS, lambda trial: kernels_finding(trial.opened, trial.is_quick, trial.unfinished), needs_gpu=True),
    AcceptCheck(load.SENSORS, lambda trial: load.sensors_finding(trial.load)),
    AcceptCheck(load.THROTTLING, lambda trial: load.throttling_finding(trial.load)),
    AcceptCheck(AWAKE, _awake),
)
