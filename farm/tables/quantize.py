"""Quantised models on a terminal: what each layer loses, and a line for each model."""

import math
from collections.abc import Iterator, Sequence

from farm.rows.quantize import QuantizedLayer, QuantizeRow
from farm.rows.status import Status
from farm.tables.table import Table, size

COLUMNS = ("Layer", "Op", "Range", "Clipped", "Alone dB", "Before dB", "After dB", "In float")
LEFT = frozenset({"Layer", "Op", "Range", "In float"})
SPEED_COLUMNS = ("Unit", "Runtime", "Float ms", "ms", "Over float", "Reason")
SHOWN = 12  # layers of a model without -v
NO_NOISE_DB = 299.0  # farm.model.metrics stops a little above


def quantize_tables(rows: Sequence[QuantizeRow], all_layers: bool) -> Iterator[Table]:
    """The layers of each model, of many those that lose most alone, and its speed on each unit."""
    for row in rows:
        layers = row.layers if all_layers else _costly(row.layers)
        if layers:
            few = f": the {len(layers)} of {len(row.layers)} layers that lose most, -v shows all"
            title = row.model + few * (len(layers) < len(row.layers))
            yield Table(title, COLUMNS, [_cells(layer) for layer in layers], LEFT, ("Op", "Clipped", "Range"))
        if row.speeds:
            yield Table(row.model, SPEED_COLUMNS, speed_cells(row), frozenset({"Unit", "Runtime", "Reason"}))


def _costly(layers: Sequence[QuantizedLayer]) -> list[QuantizedLayer]:
    """The SHOWN layers that lose most alone, in the model's order."""
    noise_db = [(math.inf if each.alone_db is None else each.alone_db, at) for at, each in enumerate(layers)]
    return [layers[at] for at in sorted(at for _, at in sorted(noise_db)[:SHOWN])]


def quantize_lines(rows: Sequence[QuantizeRow]) -> Iterator[str]:
    """`net: 44 of 46 layers in eight bits, 35.2 dB (all: 28.1), 4.2 MB instead of 16.8: FILE`."""
    for row in rows:
        if row.status == Status.OK:
            yield f"{row.model}: {', '.join(_facts(row))}: {row.file}"


def _facts(row: QuantizeRow) -> Iterator[str]:
    inside = sum(not layer.in_float for layer in row.layers)
    yield f"{inside} of {len(row.layers)} layers are quantised"
    if row.after_db is not None and row.agreement_percent is not None:
        every = "" if inside == len(row.layers) else f" (all: {decibels(row.before_db)})"
        yield f"SQNR {decibels(row.after_db)} dB{every}"
        yield f"{row.agreement_percent:.1f} % agree on the largest output ({row.judged} of {row.samples} samples)"
    if row.float_bytes and row.quantized_bytes:
        yield f"{size(row.quantized_bytes)} instead of {size(row.float_bytes)}"


def decibels(value: float | None) -> str:
    """A ratio; `exact` where there is no noise."""
    if value is None:
        return "-"
    return "exact" if value > NO_NOISE_DB else f"{value:.1f}"


def speed_cells(row: QuantizeRow) -> list[list[str]]:
    """A row for each unit and runtime, of SPEED_COLUMNS."""

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.3g}"

    return [
        [each.unit, each.runtime, *map(number, (each.float_ms, each.ms, each.over_float)), each.reason]
        for each in row.speeds
    ]


def range_text(low: float | None, high: float | None) -> str:
    """`-1.5 to 6`."""
    return "-" if low is None or high is None else f"{low:.4g} to {high:.4g}"


def _cells(layer: QuantizedLayer) -> list[str]:
    clipped = "-" if layer.clipped_percent is None else f"{layer.clipped_percent:.2f} %"
    noise = (decibels(value) for value in (layer.alone_db, layer.before_db, layer.after_db))
    return [layer.name, layer.op, range_text(layer.low, layer.high), clipped, *noise, layer.in_float]
