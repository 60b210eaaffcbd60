"""`farm quantize`: what each layer lost and the range that was chosen for it, as one file that loads nothing."""

from collections.abc import Iterator, Sequence
from typing import Any

from farm.report.single_file import single_file_page
from farm.rows.quantize import QuantizedLayer, QuantizeRow
from farm.rows.status import Status
from farm.safe_text import word
from farm.tables.quantize import SPEED_COLUMNS, decibels, quantize_lines, range_text, speed_cells


def quantize_page(rows: Sequence[QuantizeRow]) -> str:
    """The page of all rows, failures included."""
    return single_file_page("quantize.html", ("benchmark.css", "quantize.css"), [_view(row) for row in rows])


def _view(row: QuantizeRow) -> dict[str, Any]:
    return {
        "row": row,
        "is_ok": row.status == Status.OK,
        "headline": next(quantize_lines([row]), f"{row.model}: {row.status}: {row.reason}"),
        "layers": [_layer(layer) for layer in row.layers],
        "speed_columns": SPEED_COLUMNS,
        "speeds": speed_cells(row),
        "facts": list(_facts(row)),
    }


def _layer(layer: QuantizedLayer) -> dict[str, Any]:
    low, high = band_of(layer)
    most = max(layer.histogram, default=0) or 1
    return {
        "layer": layer,
        "range": range_text(layer.low, layer.high),
        "seen": range_text(layer.lowest, layer.highest),
        "clipped": "-" if layer.clipped_percent is None else f"{layer.clipped_percent:.2f} %",
        "noise": [decibels(value) for value in (layer.alone_db, layer.before_db, layer.after_db, layer.rounding_db)],
        "bars": [round(100 * (count / most) ** 0.5, 1) for count in layer.histogram],
        "band": (low, round(high - low, 2)),
    }


def band_of(layer: QuantizedLayer) -> tuple[float, float]:
    """Where the chosen range begins and ends, in percent of the values that were seen."""
    if None in (layer.low, layer.high, layer.lowest, layer.highest) or layer.highest == layer.lowest:
        return 0.0, 100.0
    assert layer.low is not None and layer.high is not None
    assert layer.lowest is not None and layer.highest is not None
    width = layer.highest - layer.lowest
    low, high = (100 * (end - layer.lowest) / width for end in (layer.low, layer.high))
    return round(min(max(low, 0.0), 100.0), 2), round(min(max(high, 0.0), 100.0), 2)


def _facts(row: QuantizeRow) -> Iterator[tuple[str, str]]:
    """What the figures hold for."""
    for name, value in row.settings.items():
        if value not in (None, "", False, ()):
            yield word(name.replace("_", " ").capitalize(), 32), word(value, 120)
    yield from (("Samples", f"{row.samples}, {row.judged} of them compared"), ("Ranges", row.ranges_file))
    yield from sorted(row.versions.items())
