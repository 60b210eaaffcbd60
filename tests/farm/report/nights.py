"""A night as a farm of phones has one, made from a seed: with all that can happen to a series, and a hostile one."""

import dataclasses
import datetime
import random
from collections.abc import Sequence
from typing import Any

from farm.decision.controls import ControlReport
from farm.decision.duet_verdict import with_duet
from farm.decision.judgement import ChangePoint, Judgement, Noise, Verdict
from farm.decision.operator_changes import OperatorChange, operator_changes
from farm.nightly.night import CaseReport, DeviceReport, Night, SeriesReport
from farm.rows.device_state import DeviceState
from farm.rows.duet import DuetFigures, SoftwareVerdict
from farm.rows.nightly import Block, NightlyRow, OperatorTime
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Metric, Point, SeriesKey
from farm.rows.status import Status

FIRST_NIGHT = datetime.datetime(2025, 11, 21, 2, 0, tzinfo=datetime.UTC)
HOSTILE = (
    "<script>alert(1)</script>",
    "]]><x/>",
    '" onmouseover="alert(1)',
    "../../../etc/x",
    "n" * 300,
    "\u202egnp.exe",
    "nul\0\x1b[31mred\x07",
    "</script><!--",
    "| `a` | [x](http://x.example) **b** |",
    "=1+1&amp;<b>",
)


@dataclasses.dataclass(frozen=True)
class Phone:
    """A unit of the made-up farm."""

    unit: str
    soc: str
    model: str
    gpu: str
    driver: str
    passive: bool = True


PHONES = (
    Phone("pixel", "gs201", "Pixel 7", "Mali-G710", "v1.r38p1-01eac0", True),
    Phone("pixel-twin", "gs201", "Pixel 7", "Mali-G710", "v1.r38p1-01eac0", True),
    Phone("mi8", "sdm845", "MI 8", "Adreno (TM) 630", "OpenCL 2.0 QUALCOMM build: commit #8e59954", True),
    Phone("rock", "rk3399", "ROCK Pi 4", "Mali-T860", "v1.r18p0", False),
)
MODELS = {"mobilenet_v1": 12.4, "resnet50": 143.0, "squeezenet": 8.1}
CASES = 2 * len(MODELS)  # of a phone


def night(nights: int = 60, phones: Sequence[Phone] = PHONES, seed: int = 1) -> Night:
    """A night with a confirmed regression, an improvement, and whatever else is told apart."""
    drawn = random.Random(seed)
    run = RunInfo(
        *(nights, "lab", "farm nightly nightly.yml"),
        *(time_of(nights - 1), time_of(nights - 1, 3.2), "finished", commit_of(nights - 1)),
        versions={"farm": "0.1.0", "numpy": "2.4.6", "onnxruntime": "1.31.1", "python": "3.11.2"},
    )
    devices = [_device(phone, nights, drawn) for phone in phones]
    earlier = [dataclasses.replace(run, id=number, started=time_of(number - 1)) for number in range(nights - 1, 0, -1)]
    return Night(run, "series", devices, ControlReport(5480, 2, 0.31, 0.04, 0.9, 200), earlier)


def slow_night(nights: int = 9, minutes: float = 2.0) -> Night:
    """The first nights of a farm, all of one day: in the last one both phones are slow, with the same software."""
    made = night(nights, PHONES[:2])
    return dataclasses.replace(made, devices=[_slow_device(device, minutes) for device in made.devices])


SLOWER = {Metric.LATENCY: 2.11, Metric.INIT: 1.62, Metric.FIRST: 1.93}


def _slow_device(device: DeviceReport, minutes: float) -> DeviceReport:
    case, duet = device.cases[0], DuetFigures(against=8, suspected=True, verdict=SoftwareVerdict.SAME, identical=True)
    assert case.row
    row = case.row.model_copy(update={"duet": duet})
    series = [_slow_series(each, duet, minutes) for each in case.series]
    return dataclasses.replace(device, cases=[dataclasses.replace(case, row=row, series=series, operator_changes=())])


def _slow_series(series: SeriesReport, duet: DuetFigures, minutes: float) -> SeriesReport:
    points = [
        dataclasses.replace(
            point, time=(FIRST_NIGHT + datetime.timedelta(minutes=minutes * number)).isoformat(), reruns=0
        )
        for number, point in enumerate(series.points)
    ]
    factor = SLOWER.get(series.key.metric)
    if factor is None:
        return SeriesReport(series.key, points, Judgement(Verdict.UNCHANGED, "as before", value=points[-1].value))
    level = points[-2].value or 1.0
    points[-1] = dataclasses.replace(points[-1], runs=tuple(factor * level * (1 + at / 200) for at in range(-3, 4)))
    measured = f"{100 * (factor - 1):+.1f} % against {len(points) - 1} nights"
    judgement = Judgement(
        *(Verdict.REGRESSION, f"{measured}, confirmed by its twin", factor * level, level, len(points) - 1),
        *(factor, factor - 0.02, factor + 0.02),
        measured=measured,
    )
    return SeriesReport(series.key, points, with_duet(judgement, duet))


def many(series: int, nights: int, seed: int = 1) -> Night:
    """A night of so many series (a multiple of ten), each of so many nights."""
    made = night(nights, phones(-(-series // (CASES * len(Metric)))), seed)
    left, devices = series, []
    for device in made.devices:
        cases = []
        for case in device.cases:
            cases.append(dataclasses.replace(case, series=case.series[:left]))
            left -= len(cases[-1].series)
        devices.append(dataclasses.replace(device, cases=cases))
    return dataclasses.replace(made, devices=devices)


def phones(count: int) -> list[Phone]:
    """So many phones to which nothing happens."""
    return [dataclasses.replace(PHONES[number % len(PHONES)], unit=f"phone{number}") for number in range(count)]


def time_of(number: int, hours: float = 0.0) -> str:
    """When a night began."""
    return (FIRST_NIGHT + datetime.timedelta(days=number, hours=hours)).isoformat(timespec="seconds")


def commit_of(number: int) -> str:
    return f"{(number // 3 + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}"


def _device(phone: Phone, nights: int, drawn: random.Random) -> DeviceReport:
    fingerprint = {
        "soc": phone.soc,
        "gpu": phone.gpu,
        "driver": phone.driver,
        "opencl": "OpenCL 2.0",
        "source_hash": "5d41402abc4b",
    }
    cases = [
        _case(
            Case(phone.unit, "zoo", model, runtime, "default"), phone, fingerprint, latency_ms * factor, nights, drawn
        )
        for model, latency_ms in MODELS.items()
        for runtime, factor in (("gpu", 1.0), ("cpu", 2.6))
    ]
    trace = [(time_of(nights - 1, step * 0.04), state(drawn, step)) for step in range(80)]
    return DeviceReport(phone.unit, phone.soc, phone.model, fingerprint, cases, trace)


def state(drawn: random.Random, step: int = 20) -> DeviceState:
    warm = 34 + 14 * (1 - 0.93**step) + drawn.gauss(0, 0.4)
    return DeviceState(
        load_average=0.4,
        clock_mhz=(1766.0, 2803.0 if warm < 47.5 else 2112.0),
        clock_limit_mhz=(1766.0, 2803.0),
        gpu_clock_mhz=710.0 if warm < 47.5 else 596.0,
        temperature_c=round(warm, 1),
        thermal_status=0 if warm < 47.5 else 2,
        battery_percent=81,
        charging=True,
    )


# What happens to the latency of which case, and how it is judged.
FATES = {
    ("pixel", "mobilenet_v1", "gpu"): Verdict.REGRESSION,
    ("pixel-twin", "mobilenet_v1", "gpu"): Verdict.REGRESSION,
    ("pixel", "squeezenet", "gpu"): Verdict.IMPROVEMENT,
    ("pixel", "squeezenet", "cpu"): Verdict.PROVISIONAL_REGRESSION,
    ("mi8", "resnet50", "gpu"): Verdict.SPOILED,
    ("mi8", "squeezenet", "gpu"): Verdict.FAILED,
    ("mi8", "squeezenet", "cpu"): Verdict.MISSING,
    ("mi8", "mobilenet_v1", "gpu"): Verdict.REPLACED,
    ("rock", "resnet50", "gpu"): Verdict.WRONG_RESULT,
    ("rock", "squeezenet", "cpu"): Verdict.NEW,
}
STEPS = {Verdict.REGRESSION: 1.098, Verdict.IMPROVEMENT: 0.91, Verdict.PROVISIONAL_REGRESSION: 1.04}


def _case(
    case: Case, phone: Phone, fingerprint: dict[str, str], latency_ms: float, nights: int, drawn: random.Random
) -> CaseReport:
    fate = FATES.get((case.unit, case.model, case.runtime), Verdict.UNCHANGED)
    step = STEPS.get(fate, 1.0)
    row = (
        None if fate == Verdict.MISSING else _row(case, phone, fingerprint, latency_ms * step, fate, nights - 1, drawn)
    )
    before = _row(case, phone, fingerprint, latency_ms, Verdict.UNCHANGED, nights - 2, drawn)
    series = [_timed(SeriesKey(case, Metric.LATENCY), latency_ms, fate, nights, drawn)]
    if fate not in (Verdict.MISSING, Verdict.FAILED):
        series += [
            _timed(SeriesKey(case, Metric.INIT), 41 * latency_ms, Verdict.UNCHANGED, nights, drawn),
            _timed(SeriesKey(case, Metric.FIRST), 2.1 * latency_ms, Verdict.UNCHANGED, nights, drawn),
            _figure(SeriesKey(case, Metric.COSINE), 0.2134 if fate == Verdict.WRONG_RESULT else 0.999987, fate, nights),
            _figure(SeriesKey(case, Metric.SQNR), 4.2 if fate == Verdict.WRONG_RESULT else 46.1, fate, nights),
            _figure(SeriesKey(case, Metric.MAX_ERROR), 1.93e-4, Verdict.UNCHANGED, nights),
            _figure(SeriesKey(case, Metric.NAN), 0.0, Verdict.UNCHANGED, nights),
            _figure(SeriesKey(case, Metric.MEMORY), 34_821_120.0, Verdict.UNCHANGED, nights),
            _figure(SeriesKey(case, Metric.FILES), 17_019_338.0, Verdict.UNCHANGED, nights),
            _figure(SeriesKey(case, Metric.TUNED_RATIO), 0.81, Verdict.UNCHANGED, nights),
        ]
    return CaseReport(
        case, row, before, series, _operator_changes(case, phone, fingerprint, latency_ms, row, fate, drawn)
    )


def _operator_changes(
    case: Case,
    phone: Phone,
    fingerprint: dict[str, str],
    latency_ms: float,
    row: NightlyRow | None,
    fate: Verdict,
    drawn: random.Random,
) -> list[OperatorChange]:
    if row is None or fate != Verdict.REGRESSION:
        return []
    nights = [_row(case, phone, fingerprint, latency_ms, Verdict.UNCHANGED, number, drawn) for number in range(6)]
    return operator_changes([_operator_times(row)], list(map(_operator_times, nights)))


def _operator_times(row: NightlyRow) -> dict[tuple[str, str], float]:
    return {(op.name, op.type): op.avg_ms for op in row.ops}


def _row(
    case: Case,
    phone: Phone,
    fingerprint: dict[str, str],
    latency_ms: float,
    fate: Verdict,
    number: int,
    drawn: random.Random,
) -> NightlyRow:
    common: dict[str, Any] = {
        **dataclasses.asdict(case),
        **{"soc": phone.soc, "device_model": phone.model, "fingerprint": fingerprint, "time": time_of(number)},
        **{"identity": f"{phone.unit}-8A1Y0", "passive": phone.passive, "busy_s": 212.0},
    }
    if fate == Verdict.FAILED:
        return NightlyRow(status=Status.DEVICE_LOST, reason="the unit went away: adb: device offline", **common)
    wrong = fate == Verdict.WRONG_RESULT
    blocks = [_block(latency_ms, fate, number, place, drawn) for place in range(9 if fate in STEPS else 6)]
    slow = {"conv_dw_7": latency_ms * 0.06} if fate == Verdict.REGRESSION else {}
    ops = [
        OperatorTime(name=name, type=kind, avg_ms=share * latency_ms * drawn.gauss(1, 0.01) + slow.get(name, 0.0))
        for name, kind, share in OPERATORS
    ]
    return NightlyRow(
        status=Status.WRONG_RESULT if wrong else Status.OK,
        reason="output prob: cosine 0.2134 is below 0.995" if wrong else "",
        **common,
        blocks=tuple(blocks),
        ops=tuple(ops),
        cosine=0.2134 if wrong else 0.999987,
        sqnr_db=4.2 if wrong else 46.1,
        max_abs_error=1.93e-4,
        max_rel_error=2.1e-3,
        nan_count=0,
        inf_count=0,
        memory_bytes={"arena": 30_000_000, "weights": 4_821_120},
        file_bytes={"plan": 51_018, "data": 16_968_320},
        tuned_ratio=0.81 if case.runtime == "gpu" else None,
        tuned_ratio_ci=(0.795, 0.826) if case.runtime == "gpu" else None,
        tuned_verdict="valid for the driver, and faster than the default" if case.runtime == "gpu" else "",
    )


OPERATORS = [
    *((f"conv_dw_{number}", "DepthwiseConv2D", 0.018) for number in range(1, 14)),
    *((f"conv_pw_{number}", "Conv2D", 0.03 + 0.004 * number) for number in range(1, 14)),
    *(("pool", "Pooling", 0.01), ("fc", "FullyConnected", 0.05), ("softmax", "Softmax", 0.004)),
]


def _block(latency_ms: float, fate: Verdict, number: int, place: int, drawn: random.Random) -> Block:
    hot = 1.17 if fate == Verdict.SPOILED else 1.0
    level = latency_ms * hot * drawn.gauss(1, 0.006)
    return Block(
        time=time_of(number, 0.1 * place),
        arm="ab"[place % 2],
        rerun=place >= 6,
        init_ms=41 * level,
        first_ms=2.1 * level,
        samples=tuple(level * abs(drawn.gauss(1, 0.008)) + drawn.expovariate(1 / (0.004 * level)) for _ in range(10)),
        throttled="thermal status 2 (moderate)" if fate == Verdict.SPOILED else "",
        state_before=state(drawn),
        state_after=state(drawn, 24),
    )


def _timed(key: SeriesKey, level: float, fate: Verdict, nights: int, drawn: random.Random) -> SeriesReport:
    """A history: an older step of its own, hot nights that were left out, what happens tonight."""
    older, hot = nights // 3, set(drawn.sample(range(nights), nights // 20))
    count = 2 if fate == Verdict.NEW else nights - (fate == Verdict.MISSING)
    points = []
    for number in range(nights - count if fate == Verdict.NEW else 0, nights if fate == Verdict.NEW else count):
        factor = (1.06 if number < older else 1.0) * drawn.gauss(1, 0.007)
        tonight = number == nights - 1
        spoiled = tonight and fate == Verdict.SPOILED
        factor *= STEPS.get(fate, 1.0) if tonight else 1.14 if number in hot else 1.0
        runs = tuple(level * factor * drawn.gauss(1, 0.004) for _ in range(6))
        failed = tonight and fate == Verdict.FAILED
        points.append(
            Point(
                run=number + 1,
                time=time_of(number),
                runs=() if spoiled or failed else runs + runs[:3] if tonight and fate in STEPS else runs,
                arms=("a", "b") * 3,
                reruns=3 if tonight and fate in STEPS else 0,
                spoiled="thermal status 2 (moderate)" if spoiled or (number in hot and not tonight) else "",
                status=Status.DEVICE_LOST if failed else Status.OK,
                reason="the unit went away: adb: device offline" if failed else "",
                identity=f"{key.case.unit}-8A{int(fate != Verdict.REPLACED or tonight)}Y0",
                fingerprint="5d41402abc4b",
                commit=commit_of(number),
                temperature_c=37 + 9 * (number in hot) + round(drawn.random(), 1),
                passive=True,
            )
        )
    return SeriesReport(key, points, _judged(points, level, fate, older, nights))


def _judged(points: Sequence[Point], level: float, fate: Verdict, older: int, nights: int) -> Judgement:
    change = ChangePoint(older + 1, time_of(older), 1 / 1.06, 0.938, 0.95, (commit_of(older - 1), commit_of(older)))
    value = points[-1].value
    common: dict[str, Any] = {"value": value, "baseline": level, "baseline_nights": min(60, nights - 1 - older)}
    common |= {"noise": Noise(0.41, 0.72), "change_points": (change,)}
    if fate in REASONS:
        return Judgement(fate, REASONS[fate], value=None if fate != Verdict.REPLACED else value)
    assert value is not None
    ratio = value / level
    common |= {"ratio": ratio, "low": ratio - 0.019, "high": ratio + 0.018, "p_value": 0.31, "effect": 0.08}
    if fate == Verdict.UNCHANGED:
        return Judgement(fate, f"{100 * (ratio - 1):+.1f} %: as before", **common)
    word, proof = "higher" if ratio > 1 else "lower", "confirmed by 3 further measurements and by its twin"
    if fate == Verdict.PROVISIONAL_REGRESSION:
        proof, common["more"] = "2 more measurements will tell", 2
    else:
        common["p_value"], common["effect"] = 0.0000021, 0.98 if ratio > 1 else -0.98
        tonight = ChangePoint(
            nights,
            time_of(nights - 1),
            ratio,
            ratio - 0.019,
            ratio + 0.018,
            (commit_of(nights - 2), commit_of(nights - 1)),
        )
        common["change_points"] = (change, tonight)
    low, high = sorted(abs(100 * (ratio + edge - 1)) for edge in (-0.019, 0.018))
    by = f"{abs(100 * (ratio - 1)):.1f} % {word} ({low:.1f} to {high:.1f} %)"
    reason = f"{by} than in the {common['baseline_nights']} nights before, {proof}"
    return Judgement(fate, reason, **common)


REASONS = {
    Verdict.SPOILED: "every measurement was spoiled: thermal status 2 (moderate)",
    Verdict.FAILED: "device_lost: the unit went away: adb: device offline",
    Verdict.MISSING: "not measured; last measured the night before",
    Verdict.REPLACED: "another piece of hardware than the night before: the series begins anew",
    Verdict.NEW: "2 of the 4 nights before that are needed to judge by",
    Verdict.WRONG_RESULT: "output prob: cosine 0.2134 is below 0.995",
}


def _figure(key: SeriesKey, value: float, fate: Verdict, nights: int) -> SeriesReport:
    usual = {Metric.COSINE: 0.999987, Metric.SQNR: 46.1}.get(key.metric, value)
    points = [
        Point(number + 1, time_of(number), (value if number == nights - 1 else usual,), ("",), commit=commit_of(number))
        for number in range(nights)
    ]
    verdict = Verdict.WRONG_RESULT if fate == Verdict.WRONG_RESULT else Verdict.UNCHANGED
    reason = REASONS.get(verdict, "as before")
    return SeriesReport(key, points, Judgement(verdict, reason, value=value, baseline=usual, baseline_nights=30))


def hostile(nights: int = 8) -> Night:
    """A night whose every name is an attack, with figures that are none."""
    made = night(nights, PHONES[:1])
    device = made.devices[0]
    devices = [_renamed(device, name, number) for number, name in enumerate(HOSTILE)]
    run = dataclasses.replace(
        *(made.run,), name=HOSTILE[0], commit=HOSTILE[2], command=HOSTILE[7], versions={HOSTILE[0]: HOSTILE[6]}
    )
    return dataclasses.replace(made, run=run, baseline=HOSTILE[5], devices=devices)


def _renamed(device: DeviceReport, name: str, number: int) -> DeviceReport:
    cases = [_renamed_case(case, name, place) for place, case in enumerate(device.cases[:2])]
    fingerprint = {"gpu": name, "driver": name, name: name}
    return dataclasses.replace(
        device,
        unit=name,
        soc=name,
        device_model=name,
        fingerprint=fingerprint,
        cases=cases,
        state_trace=device.state_trace[:5],
    )


def _renamed_case(case: CaseReport, name: str, place: int) -> CaseReport:
    renamed = Case(name, name, name, name, f"{name}{place}")
    ops = tuple(OperatorTime(name=f"{name}{at}", type=name, avg_ms=1.0 + at) for at in range(3))
    row = case.row and case.row.model_copy(
        update={
            **dataclasses.asdict(renamed),
            "ops": ops,
            "reason": name,
            "identity": name,
            "tuned_verdict": name,
            "cosine": None,
        }
    )
    series = [
        SeriesReport(
            SeriesKey(renamed, each.key.metric),
            [
                dataclasses.replace(point, commit=name, reason=name, spoiled=name, identity=name, runs=(float("nan"),))
                for point in each.points
            ],
            dataclasses.replace(
                each.judgement,
                verdict=list(Verdict)[(at + 3 * place) % len(Verdict)],
                reason=name,
                value=float("nan"),
                change_points=(ChangePoint(3, name, float("inf"), float("nan"), 2.0, (name, name)),),
            ),
        )
        for at, each in enumerate(case.series)
    ]
    return CaseReport(renamed, row, row, series)
