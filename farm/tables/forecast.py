"""A forecast as tables: its operators, then its totals."""

from collections.abc import Iterator, Mapping

from farm.rows.forecast import MIXED, CheapestPlan, ChosenOperator, ForecastRow, has_several_precisions
from farm.rows.run import NoFile, SelectionUse
from farm.tables.table import Table, milliseconds, shape, size

OPERATOR_COLUMNS = (
    *("Op Type", "Runs on", "Kernel", "Variant", "MACs", "Cost(ms)", "Origin", "Output Shape", "name", "Note"),
)
CHOICE_COLUMNS = ("Op Type", "Runs on", "Cost(ms)", "Origin", "Best other way", "More(ms)", "name")
LEFT = frozenset({"Op Type", "Runs on", "Kernel", "Variant", "name", "Note", "Origin", "Best other way"})
# Of measured peaks: how each is told, and what it is divided by for that.
PEAKS = {
    "macs": ("{:.4g} GMAC/s", 1e6),
    "half_macs": ("{:.4g} GMAC/s in half", 1e6),
    "buffer_bytes": ("{:.3g} GB/s in buffers", 1e6),
    "image_bytes": ("{:.3g} GB/s in images", 1e6),
    "launch_ms": ("{:.3g} us a launch", 1e-3),
}
TOTAL_COLUMNS = ("total", "")


def forecast_tables(row: ForecastRow) -> Iterator[Table]:
    """Tables of one good row."""
    title = f"{row.model} on {row.unit} ({row.runtime})"
    several = has_several_precisions(row.operators)
    operators = [
        [
            *(
                op.type,
                op.where(several),
                op.kernel,
                op.variant,
                f"{op.macs:,}",
                milliseconds(op.cost_ms),
                op.cost_origin,
            ),
            *(shape(op.output_shape), op.name, op.note),
        ]
        for op in row.operators
    ]
    yield Table(title, OPERATOR_COLUMNS, operators, LEFT, keys=("name",))
    yield Table("", TOTAL_COLUMNS, list(_totals(row)), frozenset({"total"}))
    if row.cheapest:
        title = f"{row.model} on {row.unit}: the cheapest plan by these costs, as `farm tune` would choose it"
        yield Table(title, CHOICE_COLUMNS, list(map(_chosen, row.cheapest.operators)), LEFT, keys=("name",))


def _chosen(op: ChosenOperator) -> list[str]:
    more = "-" if op.alternative_ms is None else f"{op.alternative_ms:+.3f}"
    costs = milliseconds(op.cost_ms), ", ".join(op.cost_origins)
    return [op.type, op.runs_on, *costs, op.alternative or "-", more, op.name]


def _totals(row: ForecastRow) -> Iterator[tuple[str, str]]:
    yield "operators on the GPU", str(row.gpu_operators)
    yield "operators that fall back to the CPU", str(row.cpu_fallbacks)
    yield "transpositions and format conversions", str(row.conversions)
    yield "of these into another storage", str(row.format_conversions)
    yield "multiply-accumulates", f"{row.macs or 0:,}"
    yield "weights", size(row.weights_bytes or 0)
    yield "activations, memory shared (peak)", size(row.activations_peak_bytes or 0)
    yield "activations, each its own (sum)", size(row.activations_sum_bytes or 0)
    yield "plan", made_by(row.selection)
    yield "predicted time", f"{milliseconds(row.predicted_ms)} ms"
    yield "origin of costs", _origins(row)
    yield from _model(row)
    if row.cheapest:
        cheapest, kinds = row.cheapest, len(row.cheapest.conversions)
        gap = "proven" if cheapest.gap == 0 else f"{100 * cheapest.gap:.1f} % from proven"
        into = f"{kinds} into another storage{_casts(cheapest)}"
        yield "the cheapest plan", f"{milliseconds(cheapest.predicted_ms)} ms ({gap}), {into}"
        if cheapest.by_data_type:
            yield "its data type", data_types_text(cheapest.data_type, cheapest.by_data_type)


def _model(row: ForecastRow) -> Iterator[tuple[str, str]]:
    """What modelled costs are made with, where there are any."""
    chosen = row.cheapest.operators if row.cheapest else ()
    if "modelled" not in {*row.cost_origins, *(origin for operator in chosen for origin in operator.cost_origins)}:
        return
    told = [
        text.format(per_ms / scale) for name, (text, scale) in PEAKS.items() if (per_ms := row.measured_peaks.get(name))
    ]
    yield "peaks of modelled costs", f"measured: {', '.join(told)}" if told else "typical of the GPU family"
    if row.model_scales:
        scales = ", ".join(f"{scale:.2f} ({kind})" for kind, scale in sorted(row.model_scales.items()))
        yield "modelled costs are multiplied by", scales


def _casts(cheapest: CheapestPlan) -> str:
    """How many conversions there are between float and half, where operators have several precisions."""
    count = sum(conversion.is_cast for conversion in cheapest.conversions)
    return f" or type ({count} between float and half)" if MIXED in cheapest.data_type else ""


def data_types_text(chosen: str, by_data_type: Mapping[str, float]) -> str:
    """The data type that was chosen, and what the others would cost, where that is known."""
    others = [f"{each} takes {milliseconds(ms)} ms" for each, ms in by_data_type.items() if each != chosen]
    return f"{chosen} ({', '.join(others)})" if others else chosen


def made_by(selection: SelectionUse | NoFile) -> str:
    """By what a plan is made, in words."""
    if isinstance(selection, NoFile):
        return "default"
    return f"kept choice, {selection.file}" if selection.match == "exact" else f"default; not used: {selection.reason}"


def _origins(row: ForecastRow) -> str:
    source = f" (of {row.cost_source})" if row.cost_source else ""
    return ", ".join(f"{count} {origin}" for origin, count in sorted(row.cost_origins.items())) + source
