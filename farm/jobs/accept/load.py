"""A unit under load for minutes: how fast it is from moment to moment, and what its sensors show meanwhile."""

import dataclasses
import statistics
import time
from collections.abc import Sequence

from farm.condition import linux_state
from farm.condition.device_state import Sensors, read_sensors
from farm.jobs.accept.case_batch import run_cases
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.opbench_cases import CASES
from farm.units.acceptance import AcceptanceFinding, Trust
from runtime.operators.case import IMAGE
from runtime.types import Precision

SENSORS, THROTTLING = "sensors", "throttling"
SERVICE = "Android's thermal service"
LOAD = next(case for case in CASES if case.op == "Conv" and case.inputs == (IMAGE,))
LONG_S, SHORT_S = 180.0, 5.0
BATCH_S = 1.0  # between two looks at the sensors
MOST_ROUNDS = 10_000
SLOWER = 1.1  # than in the beginning: throttled
AS_BEFORE = 1.05
REST_STEP_S, MOST_REST_S = 10.0, 120.0
WARMER_C = 1.0
FEW = 3


@dataclasses.dataclass(frozen=True)
class LoadMoment:
    """A moment of the load: seconds since its start, time of a round, and the sensors' files."""

    at_s: float
    round_ns: float
    sensors: Sensors


@dataclasses.dataclass(frozen=True)
class LoadRun:
    """The sensors before the load, the readings under it, and the rest until the unit was as fast as before.

    `rest_s` is None where it did not become slower, or nobody waited until it was fast again.
    """

    before: Sensors
    readings: Sequence[LoadMoment]
    rest_s: float | None = None
    is_long: bool = True


def put_under_load(opened: OpenUnit, is_quick: bool) -> LoadRun:
    """Runs a convolution for three minutes, on the GPU where there is one; for seconds in a quick run."""
    rounds = _loaded(opened)
    readings: list[LoadMoment] = []
    before = read_sensors(opened.transport)
    start_s = time.monotonic()
    end_s = SHORT_S if is_quick else LONG_S
    while (at_s := time.monotonic() - start_s) < end_s or len(readings) < 2 * FEW:
        opened.progress.stage(f"under load: {min(at_s, end_s):.0f} of {end_s:.0f} s")
        readings.append(LoadMoment(at_s, _round_ns(opened, rounds), read_sensors(opened.transport)))
    rest_s = None if is_quick or slowdown(readings) < SLOWER else _rested(opened, rounds, _first_ns(readings))
    return LoadRun(before, readings, rest_s, not is_quick)


def slowdown(readings: Sequence[LoadMoment]) -> float:
    """How many times as long a round takes in the end as in the beginning."""
    return statistics.median(reading.round_ns for reading in readings[-FEW:]) / _first_ns(readings)


def throttling_finding(run: LoadRun) -> AcceptanceFinding:
    """Whether the unit became slower, when, and how long it rests for that."""
    slower, seconds = slowdown(run.readings), run.readings[-1].at_s
    if slower < SLOWER:
        return AcceptanceFinding(check=THROTTLING, state="ok", text=f"as fast after {seconds:.0f} s of load as before")
    first_ns = _first_ns(run.readings)
    since_s = next(reading.at_s for reading in run.readings if reading.round_ns >= SLOWER * first_ns)
    text = f"{slower:.2f} times as slow after {seconds:.0f} s of load, slower since second {since_s:.0f}"
    if run.rest_s is None:
        return AcceptanceFinding(check=THROTTLING, state="limited", text=text)
    effect = f"a throttled sample rests {run.rest_s:.0f} s before it is repeated"
    return AcceptanceFinding(
        check=THROTTLING, state="limited", text=text, effect=effect, trust=Trust(rest_s=run.rest_s)
    )


def sensors_finding(run: LoadRun) -> AcceptanceFinding:
    """Which zones follow the load, which show the battery's charge or stand still, and whether clocks are told."""
    moments = [run.before, *(reading.sensors for reading in run.readings)]
    zones = [_heat(moment) for moment in moments]
    levels = [moment.state.battery_percent for moment in moments]
    names = [name for name in zones[0] if all(name in each for each in zones)]
    values = {name: [each[name] for each in zones] for name in names}
    charge = [name for name in names if len(zones) > 1 and values[name] == levels]
    still = [name for name in names if run.is_long and name not in (*charge, SERVICE) and len(set(values[name])) == 1]
    warm = [name for name in names if max(values[name]) - values[name][0] >= WARMER_C and name not in charge]
    told = [f"{', '.join(warm)} follow{'s' * (len(warm) == 1)} the load"] if warm else []
    told += ["no zone follows the load" if names else "no thermal zone is told"] if not warm else []
    told += [f"{', '.join(charge)} shows the battery's charge"] if charge else []
    told += [f"{', '.join(still)} stands still"] if still else []
    told += [_clocks(moments)]
    ignored = (*charge, *still)
    if names and run.is_long and not warm and not ignored:
        effect = "whether it is too hot to begin is not known there; clocks and times tell of heat"
        return AcceptanceFinding(check=SENSORS, state="limited", text="; ".join(told), effect=effect)
    if not ignored:
        return AcceptanceFinding(check=SENSORS, state="ok", text="; ".join(told))
    effect = f"ignored as heat: {', '.join(ignored)}"
    trust = Trust(ignored_zones=ignored)
    return AcceptanceFinding(check=SENSORS, state="limited", text="; ".join(told), effect=effect, trust=trust)


def _heat(moment: Sensors) -> dict[str, float]:
    """The temperatures of the chip by what tells them: zones, or where the kernel refuses these, Android's service."""
    told = moment.state.temperature_c
    return linux_state.heat_zones(moment.files) or ({SERVICE: told} if told is not None else {})


def _clocks(moments: Sequence[Sensors]) -> str:
    """Which files of clocks change: of the CPU's cores, and the GPU's."""
    states = [moment.state for moment in moments]
    told: dict[str, set[object]] = {
        "CPU": {state.clock_mhz for state in states},
        "GPU": {state.gpu_clock_mhz for state in states},
    }
    words = [f"{name} {'moves' if len(seen) > 1 else 'stands'}" for name, seen in told.items() if seen - {(), None}]
    return f"clocks: {', '.join(words)}" if words else "no clock is told"


def _first_ns(readings: Sequence[LoadMoment]) -> float:
    return statistics.median(reading.round_ns for reading in readings[:FEW])


def _rested(opened: OpenUnit, rounds: int, first_ns: float) -> float:
    """Seconds of rest until a round is about as fast as in the beginning, MOST_REST_S where it does not become so."""
    rested_s = 0.0
    while rested_s < MOST_REST_S:
        opened.progress.stage(f"resting: {rested_s:.0f} of at most {MOST_REST_S:.0f} s")
        opened.sleep(REST_STEP_S)
        rested_s += REST_STEP_S
        if _round_ns(opened, max(1, rounds // 10)) < AS_BEFORE * first_ns:
            break
    return rested_s


def _loaded(opened: OpenUnit) -> int:
    """Loads what makes work, on the GPU where its driver builds that; how many rounds take a moment."""
    memory = "buffer" if opened.probe.opencl.device else "cpu"
    target = opened.probe.target(opened.unit.soc, memory=memory, precision=Precision.FP32, allow_cpu=True)
    run_cases(opened, [LOAD], target)
    round_ns = min(_round_ns(opened, FEW) for _ in range(FEW))  # the first are slower
    return max(1, min(MOST_ROUNDS, int(BATCH_S * 1e9 / round_ns)))


def _round_ns(opened: OpenUnit, rounds: int) -> float:
    """The mean: a unit may be held back by pauses, which most short rounds do not meet."""
    return max(1.0, statistics.fmean(opened.session.run(rounds, opened.round_limit_s * 10).wall_ns))
