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
