"""The rows of `farm run` as tables: times, then accuracy where outputs were compared, then memory."""

from collections.abc import Sequence
from pathlib import Path

from farm.rows.benchmark import BenchmarkRow
from farm.rows.convert import ConvertRow
from farm.rows.run import MeanMetrics, NoFile, RunRow, SampleReport, SelectionUse, TensorComparison
from farm.tables.execution import memory_table, telling_columns
from farm.tables.run_end import marked
from farm.tables.table import Table, milliseconds

TIME_COLUMNS = (
    *("Model", "Unit", "SoC", "Runtime", "Status"),
    *("Init(ms)", "First(ms)", "Median(ms)", "p90(ms)", "Min(ms)", "Std"),
)
ACCURACY_COLUMNS = (
    "Model",
    "Unit",
    "Runtime",
    "Cosine",
    "SQNR(dB)",
    "Pixel acc.",
    "Max abs",
    "Max rel",
    "NaN",
    "Output",
)
SAMPLE_COLUMNS = (
    *("Model", "Unit", "Runtime", "Samples", "Wrong"),
    *("Cosine", "Mean", "SQNR(dB)", "Mean(dB)", "Worst sample"),
)
LEFT = frozenset({"Model", "Unit", "SoC", "Runtime", "Status", "Output", "Worst sample"})


def run_tables(rows: Sequence[RunRow]) -> list[Table]:
    """One line a row, then one line an output, then the memory of each row."""
    keys = telling_columns(rows)
    times = Table("", TIME_COLUMNS, [_times(row) for row in rows], LEFT, keys=keys)
    compared = [_accuracy(row, output) for row in rows for output in row.outputs]
    sampled = [_samples(row, row.samples) for row in rows if row.samples and row.samples.mean]
    return [
        times,
        *([Table("", ACCURACY_COLUMNS, compared, LEFT, keys=keys)] if compared else []),
        *([Table("Samples", SAMPLE_COLUMNS, sampled, LEFT, keys=keys)] if sampled else []),
        *memory_table(rows),
    ]


def _samples(row: RunRow, report: SampleReport) -> list[str]:
    mean = report.mean or MeanMetrics()
    return [
        *(row.model, row.unit, row.runner, str(report.count), str(report.wrong)),
        *(_figure(row.cosine, ".6f"), _figure(mean.cosine, ".6f")),
        *(_figure(row.sqnr_db, ".1f"), _figure(mean.sqnr_db, ".1f")),
        report.worst,
    ]


def _times(row: RunRow) -> list[str]:
    latency = row.latency_ms
    times = (latency.median, latency.p90, latency.min, latency.std) if latency else (None,) * 4
    init, first, median, *others = (milliseconds(value) for value in (row.init_ms, row.first_ms, *times))
    figures = (init, first, marked(median, latency), *others)
    return [row.model, row.unit, row.soc, row.runner, row.status.value, *figures]


def _accuracy(row: RunRow, output: TensorComparison) -> list[str]:
    return [
        *(row.model, row.unit, row.runner),
        _figure(output.cosine, ".6f"),
        _figure(output.sqnr_db, ".1f"),
        _figure(output.pixel_accuracy, ".4f"),
        _figure(output.max_abs_error, ".2e"),
        _figure(output.max_rel_error, ".2e"),
        str(output.nan_count),
        output.name,
    ]


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def artifact_lines(rows: Sequence[RunRow], only_unused: bool = False) -> list[str]:
    """Whether choice, tuned parameters and compiled kernels were used, for each row that was given some.

    `only_unused`: of those alone that do not fit.
    """
    return [
        line
        for row in rows
        for use, line in (
            *((row.selection, line) for line in selection_lines([row])),
            (row.tuned, _tuned_line(row)),
            (row.kernels, _kernels_line(row)),
        )
        if line and (not only_unused or (not isinstance(use, NoFile) and use.match == "none"))
    ]


def selection_lines(rows: Sequence[RunRow | BenchmarkRow | ConvertRow]) -> list[str]:
    """By which kept choice each row's plan was made, or why the default plan was; nothing where none is kept."""
    return [
        f"{row.model} on {row.unit or row.soc}: selection: {_selection_text(row.selection)}"
        for row in rows
        if isinstance(row.selection, SelectionUse)
    ]


def _selection_text(use: SelectionUse) -> str:
    if use.match == "none":
        return f"default plan, {Path(use.file).name} not used: {use.reason}"
    times = f"predicted {use.predicted_ms:.3g} ms, measured {use.measured_ms:.3g} ms when it was kept"
    return f"{Path(use.file).name}, {times}"


def _tuned_line(row: RunRow) -> str:
    tuned = row.tuned
    if isinstance(tuned, NoFile) or not row.settings.get("tuned_file"):
        return ""
    used = f"{tuned.entries} entries, used by {tuned.used} steps"
    if tuned.match == "none":
        used = f"not used: {tuned.reason}"
    return f"{row.model} on {row.unit}: tuned parameters: match {tuned.match}, {used}"


def _kernels_line(row: RunRow) -> str:
    kernels = row.kernels
    if isinstance(kernels, NoFile) or not row.settings.get("kernels_file"):
        return ""
    counts = f"{kernels.loaded} loaded, {kernels.built} built in {kernels.build_ms:.0f} ms"
    reason = f" ({kernels.reason})" if kernels.reason else ""
    return f"{row.model} on {row.unit}: compiled kernels: match {kernels.match}, {counts}{reason}"


def figure_lines(rows: Sequence[RunRow]) -> list[str]:
    """What users' programs say of themselves, a line each."""
    return [
        f"{row.model} on {row.unit} ({row.engine}): {figure.name} {figure.value:g} {figure.unit}".rstrip()
        for row in rows
        for figure in row.figures
    ]
