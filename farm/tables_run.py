"""The rows of `farm run` as a table."""

from __future__ import annotations

from collections.abc import Sequence

from farm.results import RunRow
from farm.tables import Table, milliseconds

COLUMNS = (
    *("Model", "Unit", "SoC", "Runtime", "Status", "Cosine", "SQNR(dB)", "Pixel acc.", "Max abs err."),
    *("Init(ms)", "First(ms)", "Median(ms)", "p90(ms)", "Min(ms)", "Max(ms)", "Std", "Rounds"),
)
LEFT = frozenset({"Model", "Unit", "SoC", "Runtime", "Status"})


def run_table(rows: Sequence[RunRow]) -> Table:
    """One line a row."""
    return Table("", COLUMNS, [_cells(row) for row in rows], LEFT)


def _cells(row: RunRow) -> list[str]:
    latency = row.latency_ms
    times = (latency.median, latency.p90, latency.min, latency.max, latency.std) if latency else (None,) * 5
    return [
        *(row.model, row.unit, row.soc, row.runtime, row.status.value),
        _figure(row.cosine, ".6f"),
        _figure(row.sqnr_db, ".1f"),
        _figure(row.pixel_accuracy, ".4f"),
        _figure(row.max_abs_error, ".3g"),
        *(milliseconds(value) for value in (row.init_ms, row.first_ms, *times)),
        str(len(latency.samples)) if latency else "-",
    ]


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def artifact_lines(rows: Sequence[RunRow]) -> list[str]:
    """Whether tuned parameters and compiled kernels were used, for each row that was given some."""
    return [line for row in rows for line in (_tuned_line(row), _kernels_line(row)) if line]


def _tuned_line(row: RunRow) -> str:
    if not row.tuned or not row.settings.get("tuned_file"):
        return ""
    match, reason = row.tuned["match"], row.tuned.get("reason", "")
    used = f"{row.tuned['used']} of {row.tuned['entries']} used" if match != "none" else f"not used: {reason}"
    return f"{row.model} on {row.unit}: tuned parameters: match {match}, {used}"


def _kernels_line(row: RunRow) -> str:
    if not row.kernels or not row.settings.get("kernels_file"):
        return ""
    kernels, reason = row.kernels, row.kernels.get("reason", "")
    counts = f"{kernels['loaded']} loaded, {kernels['built']} built in {kernels['build_ms']:.0f} ms"
    return f"{row.model} on {row.unit}: compiled kernels: match {kernels['match']}, {counts}{reason and f' ({reason})'}"
