"""A forecast as tables: its operators, then its totals."""

from __future__ import annotations

from collections.abc import Iterator

from farm.rows.forecast import ForecastRow
from farm.tables.table import Table, shape, size

OPERATOR_COLUMNS = ("Op Type", "Runs on", "Kernel", "Variant", "MACs", "Output Shape", "name", "Note")
LEFT = frozenset({"Op Type", "Runs on", "Kernel", "Variant", "name", "Note"})
TOTAL_COLUMNS = ("total", "")


def forecast_tables(row: ForecastRow) -> Iterator[Table]:
    """Tables of one good row."""
    title = f"{row.model} on {row.unit} ({row.runtime})"
    operators = [
        [op.type, op.device, op.kernel, op.variant, f"{op.macs:,}", shape(op.output_shape), op.name, op.note]
        for op in row.operators
    ]
    yield Table(title, OPERATOR_COLUMNS, operators, LEFT, keys=("name",))
    yield Table("", TOTAL_COLUMNS, list(_totals(row)), frozenset({"total"}))


def _totals(row: ForecastRow) -> Iterator[tuple[str, str]]:
    yield "operators on the GPU", str(row.gpu_operators)
    yield "operators that fall back to the CPU", str(row.cpu_fallbacks)
    yield "transpositions and format conversions", str(row.conversions)
    yield "multiply-accumulates", f"{row.macs or 0:,}"
    yield "weights", size(row.weights_bytes or 0)
    yield "activations, memory shared (peak)", size(row.activations_peak_bytes or 0)
    yield "activations, each its own (sum)", size(row.activations_sum_bytes or 0)
