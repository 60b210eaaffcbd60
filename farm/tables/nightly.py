"""A night on the terminal: what there is to say first, then each case; and the plan of one that is not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.config.inventory import Unit
from farm.decision.judgement import Judgement, Verdict
from farm.nightly.night import CaseReport, Night, SeriesReport
from farm.rows.series import Case, Metric
from farm.tables.table import Table, milliseconds

LEFT = frozenset({"Unit", "SoC", "Model", "Runtime", "Setting", "Figure", "Verdict", "Why", "Status", "Tuned files"})
# What is said of first: the worst.
ORDER = (
    Verdict.WRONG_RESULT,
    Verdict.REGRESSION,
    Verdict.FAILED,
    Verdict.MISSING,
    Verdict.PROVISIONAL_REGRESSION,
    Verdict.IMPROVEMENT,
    Verdict.PROVISIONAL_IMPROVEMENT,
    Verdict.SPOILED,
    Verdict.REPLACED,
)


def night_tables(night: Night) -> list[Table]:
    """Series that something is said of, and all cases."""
    changed = [report for verdict in ORDER for report in night.having(verdict)]
    cases = [_case_cells(case) for device in night.devices for case in device.cases]
    columns = (
        "Unit",
        "Model",
        "Runtime",
        "Setting",
        "Status",
        "Blocks",
        "Median(ms)",
        "Change",
        "Verdict",
        "Tuned files",
    )
    return [
        *(
            [Table("", ("Unit", "Model", "Figure", "Change", "Verdict", "Why"), list(map(_told_cells, changed)), LEFT)]
            if changed
            else []
        ),
        Table("", columns, cases, LEFT),
    ]


def _told_cells(report: SeriesReport) -> list[str]:
    case, judgement = report.key.case, report.judgement
    model = f"{case.model} ({case.runtime}, {case.setting})"
    verdict = judgement.verdict.replace("_", " ")
    return [case.unit, model, report.key.metric.info.title, _change(judgement), verdict, judgement.reason]


def _case_cells(case: CaseReport) -> list[str]:
    latency = next((report.judgement for report in case.series if report.key.metric == Metric.LATENCY), None)
    row, named = case.row, [case.case.unit, case.case.model, case.case.runtime, case.case.setting]
    verdict = latency.verdict.replace("_", " ") if latency else "-"
    if row is None:
        return [*named, "-", "0", "-", "-", verdict, ""]
    median = milliseconds(row.latency_ms.median if row.latency_ms else None)
    change = _change(latency) if latency else "-"
    return [*named, row.status.value, str(len(row.blocks)), median, change, verdict, row.tuned_verdict]


def _change(judgement: Judgement) -> str:
    return "-" if judgement.ratio is None else f"{100 * (judgement.ratio - 1):+.1f} %"


def plan_table(cases: Mapping[Unit, Sequence[Case]], repeats: int, expected_s: Mapping[Unit, float | None]) -> Table:
    """What each unit would do, and for how long."""
    rows = [
        [unit.name, unit.soc, str(len(of_unit)), str(len(of_unit) * repeats), _minutes(expected_s[unit])]
        for unit, of_unit in cases.items()
    ]
    return Table("", ("Unit", "SoC", "Cases", "Blocks", "Expected(min)"), rows, LEFT)


def _minutes(seconds: float | None) -> str:
    return "not known yet" if seconds is None else f"{seconds / 60:.1f}"
