"""What the page of a device shows beside its series: facts, validation, times, tuned files and charts of each case."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from farm.decision.judgement import Verdict
from farm.nightly.night import CaseReport, DeviceReport, SeriesReport
from farm.nightly.words import WORDS, Word, case_title, has_worsened, rank, word_of
from farm.report import charts
from farm.report.figures import NONE, change, digits, figure, interval, milliseconds, percent
from farm.rows.device_state import DeviceState
from farm.rows.duet import DuetFigures
from farm.rows.latency import Latency
from farm.rows.nightly import NightlyRow
from farm.rows.row import played_note
from farm.rows.series import Metric
from farm.tables.table import size

_FACTS = {
    "gpu": "GPU",
    "gpu_family": "GPU family",
    "driver": "Driver",
    "opencl": "OpenCL",
    "source_hash": "Kernel sources",
    "runtime_version": "farmrt",
}


@dataclasses.dataclass(frozen=True)
class CaseView:
    """A case on its device's page: cells of the three tables, charts, and all operators."""

    title: str
    anchor: str
    verdict: Verdict
    word: Word
    is_slower: bool
    reason: str
    measured: bool
    validation: tuple[str, ...]
    times: tuple[str, ...]
    distribution: charts.Chart | None
    quartiles: Sequence[tuple[str, Sequence[str]]]
    operators: charts.Chart | None
    operator_rows: Sequence[tuple[str, ...]]


def device_view(device: DeviceReport) -> dict[str, Any]:
    """All of it, as the template names it."""
    return {
        "facts": list(facts(device)),
        "cases": [case_view(case, f"case-{number}") for number, case in enumerate(device.cases, 1)],
        "tuned_rows": [_tuned(case, case.row) for case in device.cases if case.row and _has_tuned(case.row)],
        "tuned": charts.tuned(device.cases),
        "duet_rows": [
            _duet(case, case.row.duet) for case in device.cases if case.row and case.row.duet and case.row.duet.is_told
        ],
        "states": (states := charts.states(device.state_trace)),
        "state_rows": _state_rows(states) if states else [],
    }


def _duet(case: CaseReport, duet: DuetFigures) -> tuple[str, ...]:
    """A line of the duets: case, run, pairs, ratio, interval, and the verdict or why there is none."""
    against = NONE if duet.against is None else f"run {duet.against}"
    ratio = NONE if duet.ratio is None else digits(duet.ratio)
    between = interval(*duet.ratio_ci) if duet.ratio_ci else NONE
    said = "the same, byte for byte" if duet.identical else str(duet.verdict) or "not asked"
    verdict = "; ".join([f"not asked: {duet.fallback}" if duet.fallback else said, *duet.environment])
    return case_title(case.case), against, str(len(duet.good_pairs)), ratio, between, verdict


def _state_rows(states: charts.Chart) -> list[tuple[str, ...]]:
    """The figures of that chart: time, temperature, clock, its limit, and the GPU's clock."""
    columns = [[_number(value) for value in states[name]] for name in ("temperature", "cpu", "limit", "gpu")]
    return list(zip(states["note"], *columns, strict=True))


def _number(value: float | None) -> str:
    return NONE if value is None else digits(value)


def facts(device: DeviceReport) -> Iterable[tuple[str, str]]:
    """What the unit is, and how it was."""
    yield from (("SoC", device.soc), ("Model", device.device_model))
    known = [(_FACTS.get(name, name), value) for name, value in device.fingerprint.items() if value and name != "soc"]
    yield from known
    if note := played_note(device.fingerprint):
        yield "Times", note
    rows = [case.row for case in device.cases if case.row]
    identities = list(dict.fromkeys(row.identity for row in rows if row.identity))
    if identities:
        yield "Hardware", ", ".join(identities)
    if rows:
        yield "Cooling", "passive" if any(row.passive for row in rows) else "not passive"
    yield from _state_facts([state for _, state in device.state_trace])


def _state_facts(states: Sequence[DeviceState]) -> Iterable[tuple[str, str]]:
    temperatures = [state.temperature_c for state in states if state.temperature_c is not None]
    if temperatures:
        yield "Temperature", _range(temperatures, "°C")
    battery = [state.battery_percent for state in states if state.battery_percent is not None]
    if battery:
        yield "Battery", _range(battery, "%")
    statuses = [state.thermal_status for state in states if state.thermal_status is not None]
    if statuses:
        yield "Thermal status", f"at most {max(statuses)}"


def _range(values: Sequence[float], unit: str) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def case_view(case: CaseReport, anchor: str) -> CaseView:
    """One case."""
    worst = min(case.series, key=rank, default=None)
    verdict = worst.judgement.verdict if worst else Verdict.MISSING if case.row is None else Verdict.NEW
    reason = worst.judgement.reason if worst else "no figures"
    distribution = charts.distribution(case)
    return CaseView(
        title=case_title(case.case),
        anchor=anchor,
        verdict=verdict,
        word=word_of(worst) if worst else WORDS[verdict],
        is_slower=any(has_worsened(each) for each in case.series if each.key.metric == Metric.LATENCY),
        reason=reason,
        measured=case.row is not None and any(not block.throttled for block in case.row.blocks),
        validation=_validation(case.row),
        times=_times(case),
        distribution=distribution,
        quartiles=[(group["name"], _quartiles(group["values"])) for group in distribution["groups"]]
        if distribution
        else [],
        operators=charts.operators(case),
        operator_rows=[
            (name, kind, milliseconds(now), milliseconds(before), _operator_change(now, before))
            for name, kind, now, before in charts.operator_times(case)
        ],
    )


def _validation(row: NightlyRow | None) -> tuple[str, ...]:
    """Status, cosine, SQNR, pixel accuracy, largest absolute and relative error, NaN, infinities, reason."""
    if row is None:
        return ("missing", *[NONE] * 7, "not measured tonight")
    return (
        row.status.replace("_", " "),
        figure(Metric.COSINE, row.cosine),
        figure(Metric.SQNR, row.sqnr_db),
        NONE if row.pixel_accuracy is None else f"{100 * row.pixel_accuracy:.2f} %",
        _error(row.max_abs_error),
        _error(row.max_rel_error),
        NONE if row.nan_count is None else str(row.nan_count),
        NONE if row.inf_count is None else str(row.inf_count),
        row.reason or ("within the thresholds" if row.cosine is not None else "not validated"),
    )


def _error(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"


def _times(case: CaseReport) -> tuple[str, ...]:
    """Initialisation, first run, latency with p90, against the baseline, blocks, re-runs, memory, its peak, files."""
    row = case.row
    if row is None:
        return (NONE,) * 11
    latency = _of(case, Metric.LATENCY)
    good, reruns = sum(not block.throttled for block in row.blocks), sum(block.rerun for block in row.blocks)
    return (
        _figure(case, Metric.INIT),
        _figure(case, Metric.FIRST),
        _figure(case, Metric.LATENCY),
        milliseconds(_p90_ms(row)),
        change(Metric.LATENCY, latency.judgement) if latency else NONE,
        interval(latency.judgement.low, latency.judgement.high) if latency else "",
        f"{good} of {len(row.blocks)}",
        str(reruns),
        size(sum(row.memory_bytes.values())) if row.memory_bytes else NONE,
        _peak(row),
        size(sum(row.file_bytes.values())) if row.file_bytes else NONE,
    )


def _peak(row: NightlyRow) -> str:
    """The highest resident set."""
    peak_bytes = row.peak_memory.resident_bytes if row.peak_memory else None
    return NONE if peak_bytes is None else size(peak_bytes)


def _p90_ms(row: NightlyRow) -> float | None:
    samples = [sample for block in row.blocks if not block.throttled for sample in block.samples]
    return Latency.of(samples).p90 if samples else None


def _of(case: CaseReport, metric: Metric) -> SeriesReport | None:
    return next((report for report in case.series if report.key.metric == metric), None)


def _figure(case: CaseReport, metric: Metric) -> str:
    """Tonight's figure, whatever became of its judgement."""
    series = _of(case, metric)
    return figure(metric, series.judgement.value) if series else NONE


def _quartiles(samples: Sequence[float]) -> list[str]:
    """Count, least, quartiles and most."""
    quarters = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [samples[0]] * 3
    return [str(len(samples)), *(milliseconds(value) for value in (min(samples), *quarters, max(samples)))]


def _operator_change(now: float | None, before: float | None) -> str:
    if now is None or before is None:
        return "gone" if now is None else "new"
    return percent(now / before) if before else NONE


def _has_tuned(row: NightlyRow) -> bool:
    return row.tuned_ratio is not None or bool(row.tuned_verdict)


def _tuned(case: CaseReport, row: NightlyRow) -> tuple[str, ...]:
    """Case, ratio, its interval, and the verdict on the files."""
    low, high = row.tuned_ratio_ci or (None, None)
    shown = "" if low is None or high is None else f"{digits(low, 3)} to {digits(high, 3)}"
    return case_title(case.case), figure(Metric.TUNED_RATIO, row.tuned_ratio), shown, row.tuned_verdict
