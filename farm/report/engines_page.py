"""`farm engines --html`: engines beside each other on each unit, as one file that loads nothing from elsewhere."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from farm.decision.fastest import ratio_over
from farm.report.benchmark_page import state_facts
from farm.report.figures import NONE, digits, milliseconds
from farm.report.single_file import single_file_page
from farm.rows.engines import EnginesRow, Standing
from farm.rows.row import OWN_ENGINE, played_note
from farm.rows.status import Status
from farm.safe_text import word
from farm.tables.engines import fastest_lines, in_order, lane_name, model_groups, nodes_text, outputs_text
from farm.tables.table import size
from runtime.statistics import signed_ranks

ROW_PX, WIDTH, LEFT, FOOT = 30, 720, 200, 26
MOST_TICKS = 6
FACTS = ("turns", "rounds", "warmup", "num_threads", "cpu_affinity_policy")


@dataclasses.dataclass(frozen=True)
class Lane:
    """An engine in the plot, as places from the left: its blocks, their middle and its 95 % interval."""

    name: str
    y: float
    dots: Sequence[float]
    middle: float
    low: float
    high: float
    title: str
    is_own: bool


@dataclasses.dataclass(frozen=True)
class Plot:
    """Times of all engines that took turns; `ticks` are (place, text)."""

    height: int
    lanes: Sequence[Lane]
    ticks: Sequence[tuple[float, str]]


def engines_page(rows: Sequence[EnginesRow]) -> str:
    """The page of all rows, failures included: the summary, then each model on each unit."""
    views = [_view(model, unit, group) for (model, unit), group in model_groups(rows)]
    if views:
        views[0]["by_unit"] = list(by_unit(rows))
    return single_file_page("engines.html", ("benchmark.css", "engines.css"), views)


def by_unit(rows: Sequence[EnginesRow]) -> Iterator[tuple[str, list[str], list[tuple[str, list[tuple[str, bool]]]]]]:
    """For each model on several units: the units, and of each engine its times there, and whether it is the fastest."""
    for model in dict.fromkeys(row.model for row in rows):
        of_model = [row for row in rows if row.model == model]
        units = sorted({row.unit for row in of_model})
        cells = {(lane_name(row), row.unit): _unit_cell(row) for row in of_model}
        if len(units) > 1:
            names = sorted({name for name, _ in cells})
            yield model, units, [(name, [cells.get((name, unit), (NONE, False)) for unit in units]) for name in names]


def _unit_cell(row: EnginesRow) -> tuple[str, bool]:
    standing, latency = row.standing, row.latency_ms
    shown = milliseconds(latency.median) if standing and latency else row.status.value
    return shown, bool(standing and standing.is_fastest)


def _view(model: str, unit: str, rows: Sequence[EnginesRow]) -> dict[str, Any]:
    ordered = in_order(rows)
    own = next((row for row in ordered if row.engine == OWN_ENGINE and row.standing), None)
    over_own = ratios_over(own, ordered) if own else {}
    return {
        "model": model,
        "unit": unit,
        "row": ordered[0],
        "is_ok": all(row.status == Status.OK for row in rows),
        "headline": next(iter(fastest_lines(rows)), f"{model} on {unit}: no two engines took turns to the end"),
        "beside_own": beside_own(own, over_own),
        "plot": plot_of([row for row in ordered if row.standing]),
        "lines": [(row, row.status == Status.OK, list(_cells(row, over_own))) for row in ordered],
        "failures": [row for row in ordered if row.status != Status.OK],
        "facts": list(_facts(ordered)),
    }


def ratios_over(own: EnginesRow, rows: Sequence[EnginesRow]) -> dict[str, Standing]:
    """The time of each other row that took turns over that of one, by its name, with intervals that share an error."""
    others = [row for row in rows if row.standing and row is not own]
    return {lane_name(row): ratio_over(row.blocks_ms, own.blocks_ms, len(others)) for row in others}


def beside_own(own: EnginesRow | None, ratios: Mapping[str, Standing]) -> str:
    """Which engines are surely faster than farmrt."""
    if own is None or not ratios:
        return ""
    faster = [
        f"{name} takes {each.ratio:.2f} of its time ({each.ratio_ci[0]:.2f} to {each.ratio_ci[1]:.2f})"
        for name, each in ratios.items()
        if each.ratio_ci and each.ratio_ci[1] < 1.0
    ]
    if not faster:
        return f"No other engine is surely faster than {lane_name(own)}."
    return f"Faster than {lane_name(own)}: {'; '.join(faster)}."


def plot_of(rows: Sequence[EnginesRow]) -> Plot | None:
    """The blocks of each engine on one axis that begins at 0; None where nothing was measured."""
    if not rows:
        return None
    spans = [block_interval(row.blocks_ms) for row in rows]
    most = max(max(*row.blocks_ms, high) for row, (_, _, high) in zip(rows, spans, strict=True))
    step = _step(most / MOST_TICKS)
    end = step * math.ceil(most / step)

    def place(value_ms: float) -> float:
        return round(LEFT + value_ms / end * (WIDTH - LEFT - 14), 1)

    lanes = [
        Lane(
            name=word(lane_name(row), 30),
            y=(number + 0.5) * ROW_PX,
            dots=[place(value) for value in row.blocks_ms],
            low=place(low),
            middle=place(middle),
            high=place(high),
            title=f"{lane_name(row)}: {_span_text(low, middle, high)}",
            is_own=row.engine == OWN_ENGINE,
        )
        for number, (row, (low, middle, high)) in enumerate(zip(rows, spans, strict=True))
    ]
    ticks = [(place(step * number), digits(step * number, 3)) for number in range(round(end / step) + 1)]
    return Plot(len(rows) * ROW_PX + FOOT, lanes, ticks)


def block_interval(blocks_ms: Sequence[float]) -> tuple[float, float, float]:
    """The middle of an engine's blocks, between the ends of its 95 % interval; in ms."""
    low, middle, high = map(math.exp, signed_ranks.shift(np.log(np.asarray(blocks_ms, np.float64))))
    return low, middle, high


def _step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least so much."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _span_text(low: float, middle: float, high: float) -> str:
    return f"{milliseconds(middle)} ({digits(low)} to {digits(high)})"


def _cells(row: EnginesRow, over_own: Mapping[str, Standing]) -> Iterator[str]:
    """What stands behind the engine's name."""
    peak, standing = row.peak_memory, row.standing
    yield row.versions.get(row.engine.partition(":")[0].partition("==")[0], "")
    yield outputs_text(row)
    yield _span_text(*block_interval(row.blocks_ms)) if row.blocks_ms else NONE
    yield "the leader" if standing and standing.leads else _ratio(standing)
    yield _ratio(over_own.get(lane_name(row)))
    yield from map(milliseconds, (row.init_ms, row.first_ms))
    sizes = (peak.resident_bytes if peak else None, row.file_bytes.get("engine"), row.file_bytes.get("model"))
    yield from (NONE if each is None else size(each) for each in sizes)
    yield nodes_text(row) or NONE


def _ratio(standing: Standing | None) -> str:
    if standing is None or standing.ratio is None:
        return NONE
    interval = "" if standing.ratio_ci is None else " ({:.2f} to {:.2f})".format(*standing.ratio_ci)
    return f"{standing.ratio:.2f}{interval}"


def _facts(rows: Sequence[EnginesRow]) -> Iterator[tuple[str, str]]:
    """The conditions that the figures hold for."""
    first = rows[0]
    yield from (("Unit", first.unit), ("Model of the unit", first.device_model), ("SoC", first.soc))
    for name in FACTS:
        if first.settings.get(name) is not None:
            yield word(name.replace("_", " ").capitalize(), 32), word(first.settings[name], 60)
    for note in dict.fromkeys(filter(None, (played_note(row.fingerprint, row.runtime) for row in rows))):
        yield "Times", note
    yield from state_facts(first.state_before, first.state_after)
    yield "Slowed down", "; ".join(dict.fromkeys(row.throttled for row in rows if row.throttled)) or "no"
    yield from sorted({name: version for row in rows for name, version in row.versions.items()}.items())
