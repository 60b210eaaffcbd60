"""A night as the store knows it, judged anew: what `farm nightly` ends with and `farm report` shows."""

import collections
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from farm.decision.controls import ControlCount, compared_nights, control_report, count_alarms
from farm.decision.duet_verdict import with_duet
from farm.decision.judgement import Judgement, Verdict
from farm.decision.operator_changes import OperatorChange, Times, operator_changes, summed_times
from farm.decision.regression import compare_points, judge_series, needs_twin, twin_evidence
from farm.decision.timed import TwinEvidence
from farm.nightly.configuration import LAST_GOOD, SERIES
from farm.nightly.night import CaseReport, DeviceReport, Night, SeriesReport
from farm.processes import each_result
from farm.rows.device_state import DeviceState
from farm.rows.duet import DuetFigures
from farm.rows.nightly import NightlyRow
from farm.rows.packed_points import PackedPoints
from farm.rows.row import OWN_ENGINE
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Metric, Nature, Point, SeriesKey, case_of
from farm.rows.status import Status
from farm.store import Store
from runtime.errors import ConfigError

NIGHTS = 400  # of history
MANY_CASES = 50  # are judged in several processes
TIMED_METRICS = sum(metric.info.nature == Nature.TIMED for metric in Metric)
MISSED_NIGHTS = 3  # a unit that is away for longer is no longer missed
LOOKED_BACK_RUNS = 5  # for the row that tonight's is shown beside


def load_night(store: Store, run: int, baseline: str = SERIES) -> Night:
    """A run of `farm nightly`, compared with its series, or with one run: `last_good`, or a named baseline.

    Raises ConfigError where there is no such run or baseline.
    """
    info = store.run(run)
    rows = {case_of(row): row for row in store.nightly_rows(run)}
    base = baseline_run(store, info.name, baseline)
    series = _followed(
        run, store.nights(run - 1, MISSED_NIGHTS, info.name), store.each_series(run, NIGHTS, info.name), rows
    )
    judged = list(_judged_each(series, functools.partial(_judged_alone, run, base, len(rows)), len(rows)))
    if not rows and not judged:
        raise ConfigError(f"run {run} ({info.name}) measured no nightly cases; `farm store info` lists the runs")
    before = _rows_before(store, info, base)
    reports = [
        _with_duet(report, _duet(report.key, rows) if base is None else None)
        for report in _with_twins(run, [report for report, _ in judged], _kinds(rows), base)
    ]
    control = control_report(count for _, count in judged)
    shown = baseline if base is None else f"{baseline} (run {base})"
    return Night(info, shown, _devices(store, reports, rows, before), control, _earlier(store, info))


def _with_duet(report: SeriesReport, duet: DuetFigures | None) -> SeriesReport:
    judgement = with_duet(report.judgement, duet)
    return report if judgement is report.judgement else SeriesReport(report.key, report.points, judgement)


def _duet(key: SeriesKey, rows: Mapping[Case, NightlyRow]) -> DuetFigures | None:
    """What was asked of the software: duets time rounds alone, but the same bytes start as before, too."""
    row = rows.get(key.case)
    if row is None or row.duet is None:
        return None
    is_asked = key.metric == Metric.LATENCY or (row.duet.identical and key.metric in (Metric.INIT, Metric.FIRST))
    return row.duet if is_asked else None


def _earlier(store: Store, info: RunInfo) -> list[RunInfo]:
    """The nights before one, newest first."""
    return [run for run in store.runs(info.name) if run.id < info.id][:NIGHTS]


def last_good_name(name: str) -> str:
    """The baseline that the last good run of a name is; no name that a user can give."""
    return f"{LAST_GOOD}:{name}"


def baseline_run(store: Store, name: str, baseline: str) -> int | None:
    """The run to compare with; None for the series itself, and as long as no run was good."""
    if baseline == SERIES:
        return None
    known = store.baselines()
    if baseline == LAST_GOOD:
        return known.get(last_good_name(name))
    if baseline not in known:
        raise ConfigError(
            f"baseline {baseline}: there is none of this name; `farm baseline set {baseline} RUN` makes one"
        )
    return known[baseline]


def _followed(
    run: int, recent: Sequence[int], series: Iterable[tuple[SeriesKey, PackedPoints]], rows: Mapping[Case, NightlyRow]
) -> Iterator[tuple[SeriesKey, PackedPoints]]:
    """The series of this night: those with a point, and the latency of units that are missing as a whole.

    `recent`: the nights before; a unit that is away for longer is no longer missed.
    """
    units = {case.unit for case in rows}
    for key, points in series:
        is_missed = key.case.unit not in units and key.metric == Metric.LATENCY
        if points.last_run == run or (is_missed and points.last_run in recent):
            yield key, points


Keyed = tuple[SeriesKey, PackedPoints]
Alone = tuple[SeriesReport, ControlCount | None]


def _judged_each(series: Iterable[Keyed], judge: Callable[[Keyed], Alone], cases: int) -> Iterator[Alone]:
    """Each series judged by itself; its points stay here, packed as they were."""
    kept: collections.deque[PackedPoints] = collections.deque()

    def keeping() -> Iterator[Keyed]:
        for key, points in series:
            kept.append(points)
            yield key, points

    for report, count in each_result(judge, keeping(), cases, MANY_CASES):
        yield report.holding(kept.popleft()), count


def _judged_alone(run: int, base: int | None, cases: int, series: Keyed) -> Alone:
    """A series by itself, without its points, and what the A/A controls of one of so many cases say."""
    key, points = series
    nights = compared_nights(TIMED_METRICS * cases)
    return _judged(run, key, points, base).holding(()), count_alarms(list(points), key.metric, nights)


def _with_twins(
    run: int, reports: Sequence[SeriesReport], kinds: Mapping[str, tuple[str, str]], base: int | None
) -> Iterator[SeriesReport]:
    """Where it can matter, with the word of the twin and of the units of other kinds."""
    alone, twins = {report.key: report.judgement for report in reports}, _twins(kinds)
    of_metric: dict[Metric, list[tuple[tuple[str, str], Judgement]]] = collections.defaultdict(list)
    for report in reports:
        if kind := kinds.get(report.key.case.unit):
            of_metric[report.key.metric].append((kind, report.judgement))
    for report in reports:
        key = report.key
        other = dataclasses.replace(key, case=dataclasses.replace(key.case, unit=twins.get(key.case.unit, "")))
        if needs_twin(report.judgement) and other in alone:
            others = [judgement for kind, judgement in of_metric[key.metric] if kind != kinds[key.case.unit]]
            evidence = twin_evidence(alone[other], others)
            yield _judged(run, key, report.points, base, evidence)
        else:
            yield report


def _judged(
    run: int, key: SeriesKey, points: Sequence[Point], base: int | None, twin: TwinEvidence | None = None
) -> SeriesReport:
    return SeriesReport(key, points, _judgement(run, key, list(points), base, twin)).holding(points)


def _judgement(
    run: int, key: SeriesKey, points: Sequence[Point], base: int | None, twin: TwinEvidence | None
) -> Judgement:
    tonight = points[-1] if points[-1].run == run else None
    earlier = [point for point in points if point.run < run]
    before = next((point for point in earlier if point.run == base), None)
    if base is not None and before and tonight:
        return compare_points(before, tonight, key.metric)
    return judge_series(earlier, tonight, key.metric, twin=twin, final=True)


def _kinds(rows: Mapping[Case, NightlyRow]) -> dict[str, tuple[str, str]]:
    """SoC and device model of each unit."""
    return {case.unit: (row.soc, row.device_model) for case, row in sorted(rows.items(), key=lambda item: item[0])}


def _twins(kinds: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Another unit of the same SoC and model, for each unit that has one."""
    return {
        unit: next(other for other, other_kind in kinds.items() if other_kind == kind and other != unit)
        for unit, kind in kinds.items()
        if list(kinds.values()).count(kind) > 1
    }


def _rows_before(store: Store, info: RunInfo, base: int | None) -> dict[Case, NightlyRow]:
    """The row of each case in the baseline's run, else in the newest run before this one that has it."""
    earlier = [run.id for run in store.runs(name=info.name) if run.id < info.id][:LOOKED_BACK_RUNS]
    rows: dict[Case, NightlyRow] = {}
    for run in earlier if base is None else [base]:
        for row in store.nightly_rows(run):
            if row.blocks:
                rows.setdefault(case_of(row), row)
    return rows


def _devices(
    store: Store,
    reports: Sequence[SeriesReport],
    rows: Mapping[Case, NightlyRow],
    before: Mapping[Case, NightlyRow],
) -> list[DeviceReport]:
    by_case: dict[Case, list[SeriesReport]] = {case: [] for case in rows}
    for report in reports:
        by_case.setdefault(report.key.case, []).append(report)
    cases = [
        CaseReport(case, rows.get(case), before.get(case), series, changed_operators(store, series))
        for case, series in sorted(by_case.items(), key=operator.itemgetter(0))
    ]
    return [_device(unit, list(of_unit)) for unit, of_unit in itertools.groupby(cases, lambda case: case.case.unit)]


def _device(unit: str, cases: Sequence[CaseReport]) -> DeviceReport:
    known = [row for case in cases if (row := case.row or case.before)]
    own = [row for row in known if row.engine == OWN_ENGINE and row.fingerprint]  # others tell nothing of drivers
    described = next(iter([*own, *known]), None)
    return DeviceReport(
        unit=unit,
        soc=described.soc if described else "",
        device_model=described.device_model if described else "",
        fingerprint=own[0].fingerprint if own else {},
        cases=cases,
        state_trace=_trace(case.row for case in cases if case.row),
    )


def _trace(rows: Iterable[NightlyRow]) -> list[tuple[str, DeviceState]]:
    """The states round all blocks, oldest first."""
    blocks = sorted((block for row in rows for block in row.blocks), key=lambda block: block.time)
    return [(block.time, state) for block in blocks for state in (block.state_before, block.state_after)]


NIGHTS_BEFORE = 14
_CHANGED = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


def changed_operators(store: Store, series: Iterable[SeriesReport]) -> Sequence[OperatorChange]:
    """The operators that have changed in a case, of these series, whose latency has; empty for any other case."""
    latency = next((each for each in series if each.key.metric == Metric.LATENCY), None)
    if latency is None or latency.judgement.verdict not in _CHANGED:
        return ()
    runs, since = [point.run for point in latency.points], max(latency.judgement.nights, 1)
    now = _nights(store, runs[-since:], latency.key.case)
    before = _nights(store, runs[-since - NIGHTS_BEFORE : -since], latency.key.case)
    return operator_changes(list(now), list(before))


def _nights(store: Store, runs: Iterable[int], case: Case) -> Iterator[Times]:
    for run in runs:
        row = store.nightly_row(run, case)
        if row and row.status == Status.OK and row.ops:
            yield summed_times((op.name, op.type, op.avg_ms) for op in row.ops)
