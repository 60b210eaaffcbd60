"""The rows of `farm compare` as a table, the worst first, and what else there is to say of them."""

from collections.abc import Iterable, Sequence

from farm.decision.comparison import Coverage, coverage, slowest_first
from farm.rows.compare import CompareRow, Side
from farm.rows.status import Status
from farm.tables.table import Table, milliseconds

COLUMNS = (
    *("Model", "Unit", "Runtime", "A(ms)", "B(ms)", "B/A", "95 % interval", "p", "Effect"),
    *("Cosine", "SQNR(dB)", "Verdict"),
)
LEFT = frozenset({"Model", "Unit", "Runtime", "Verdict"})


def compare_table(rows: Sequence[CompareRow]) -> Table:
    """One line a row."""
    return Table("", COLUMNS, [_cells(row) for row in slowest_first(rows)], LEFT)


def _cells(row: CompareRow) -> list[str]:
    model = row.a.model if row.a.model == row.b.model else f"{row.a.model} / {row.b.model}"
    return [
        *(model or row.model, row.unit, row.runner),
        *(milliseconds(side.latency_ms.median if side.latency_ms else None) for side in (row.a, row.b)),
        _figure(row.ratio, ".3f"),
        f"{row.ratio_ci[0]:.3f} to {row.ratio_ci[1]:.3f}" if row.ratio_ci else "-",
        _figure(row.p_value, ".4f"),
        _figure(row.effect, "+.2f"),
        _figure(row.cosine, ".6f"),
        _figure(row.sqnr_db, ".1f"),
        row.verdict if row.status == Status.OK else str(row.status),
    ]


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def side_text(side: Side) -> str:
    """What a side is, for a line above the table."""
    about = [f"run {side.run}"] if side.kind == "run" else []
    about += [side.commit[:12]] if side.commit else ["not under git"] if side.kind == "build" else []
    about += ["with changes"] if side.changed else []
    return f"{side.name} ({', '.join(about)})" if about else side.name


def coverage_lines(rows: Iterable[CompareRow]) -> list[str]:
    """What comparisons of a thing with itself say of the intervals, a line for each model, runtime and unit."""
    cases: dict[tuple[str, str, str], list[CompareRow]] = {}
    for row in rows:
        cases.setdefault((row.model, row.unit, row.runner), []).append(row)
    return [
        f"{model} on {unit} ({runtime}): {_coverage_text(coverage(group))}"
        for (model, unit, runtime), group in cases.items()
    ]


def _coverage_text(found: Coverage | None) -> str:
    if found is None:
        return "no comparison had an interval"
    low, high = (100.0 * share for share in found.share_ci)
    share = f"{found.covering} of {found.comparisons} intervals cover 1 ({low:.0f} to {high:.0f} %)"
    verdict = "as 95 % intervals do" if found.is_honest else "NOT as 95 % intervals do"
    return f"{share}, {verdict}; median width {found.width_percent:.1f} %; a difference was told {found.told} times"


def note_lines(rows: Iterable[CompareRow]) -> list[str]:
    """What else differs between the two, a line each."""
    return [f"{row.model} on {row.unit} ({row.runner}): {note}" for row in rows for note in row.notes]
