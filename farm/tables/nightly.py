"""A night on the terminal: what there is to say first, then each case; and the plan of one that is not run."""

from collections.abc import Mapping, Sequence

from farm.config.inventory import Unit
from farm.decision.judgement import Judgement, Verdict
from farm.nightly.night import CaseReport, Night, SeriesReport
from farm.nightly.words import by_cause
from farm.rows.duet import NO_EARLIER, DuetFigures
from farm.rows.nightly import NightlyRow
from farm.rows.series import Case, Metric
from farm.tables.table import Table, milliseconds

AS_ABOVE = "as above"
LEFT = frozenset(
    {"Unit", "SoC", "Model", "Runtime", "Setting", "Figure", "Verdict", "Why", "Status", "Tuned files", "Software"}
)


def night_tables(night: Night) -> list[Table]:
    """Series that something is said of, and all cases."""
    quiet = (Verdict.UNCHANGED, Verdict.NEW, Verdict.ENVIRONMENT_CHANGED)
    changed = night.having(*(verdict for verdict in Verdict if verdict not in quiet))
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
    environment = night.having(Verdict.ENVIRONMENT_CHANGED)
    return [
        *_told_table("", changed),
        *_told_table("The environment changed, not the software", environment),
        Table("", columns, cases, LEFT),
        *_duet_table(night),
    ]


def _told_table(title: str, reports: Sequence[SeriesReport]) -> list[Table]:
    """Series of one reason stand together, and it is told once."""
    columns = ("Unit", "Model", "Figure", "Change", "Verdict", "Why")
    rows = [
        [*_told_cells(report), AS_ABOVE if number else reason]
        for reason, members in by_cause(reports)
        for number, report in enumerate(members)
    ]
    return [Table(title, columns, rows, LEFT)] if rows else []


def _duet_table(night: Night) -> list[Table]:
    """The duets, and what they cost; none where no case has one, or is to be told why not, nor in a first night.

    Where the software is the same bytes as before there is no pair: the verdict says that already.
    """
    rows = [row for row in night.rows if row.duet and row.duet.is_told and not row.duet.identical]
    if all(row.duet and row.duet.fallback == NO_EARLIER for row in rows):
        return []
    share = "" if night.duet_share is None else f" of the blocks' time: {100 * night.duet_share:.1f} %"
    columns = ("Unit", "Model", "Runtime", "Setting", "Against run", "Pairs", "Ratio", "95 % interval", "Software")
    return [Table(f"Duets, {night.duet_s:.1f} s{share}", columns, list(map(_duet_cells, rows)), LEFT)]


def _duet_cells(row: NightlyRow) -> list[str]:
    duet, named = row.duet or DuetFigures(), [row.unit, row.model, row.runner, row.setting]
    against = "-" if duet.against is None else str(duet.against)
    if duet.fallback:
        return [*named, against, "0", "-", "-", f"not asked: {duet.fallback}"]
    ratio = "-" if duet.ratio is None else f"{duet.ratio:.3f}"
    interval = "-" if duet.ratio_ci is None else f"{duet.ratio_ci[0]:.3f} to {duet.ratio_ci[1]:.3f}"
    verdict = f"{duet.verdict}{duet.busy and f': {duet.busy}'}"
    return [*named, against, str(len(duet.good_pairs)), ratio, interval, verdict]


def _told_cells(report: SeriesReport) -> list[str]:
    case, judgement = report.key.case, report.judgement
    model = f"{case.model} ({case.runner}, {case.setting})"
    verdict = judgement.verdict.replace("_", " ")
    return [case.unit, model, report.key.metric.info.title, _change(judgement), verdict]


def _case_cells(case: CaseReport) -> list[str]:
    latency = next((report.judgement for report in case.series if report.key.metric == Metric.LATENCY), None)
    row, named = case.row, [case.case.unit, case.case.model, case.case.runner, case.case.setting]
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
