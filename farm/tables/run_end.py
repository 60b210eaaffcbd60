"""How `farm run` ends: a sentence for each row, or a compact table where there are many, and what to do next."""

from collections.abc import Iterator, Sequence

from farm.config.deployment import FARMRT
from farm.rows.latency import Latency
from farm.rows.run import Placement, RunRow, SelectionUse, TunedUse
from farm.rows.status import Status
from farm.tables.table import Table

MANY = 5  # rows; so many sentences are no summary any more
COLUMNS = ("Model", "Unit", "Runtime", "Outputs", "Median(ms)", "p90(ms)", "On the GPU")
LEFT = frozenset({"Model", "Unit", "Runtime", "Outputs"})
MARK = "~"
MARKED = f"{MARK}: unsteady, the rounds' times lie more than three times their median apart"
SPREAD = 3.0
_RAN = (Status.OK, Status.WRONG_RESULT, Status.NO_REFERENCE)


def is_unsteady(latency: Latency | None) -> bool:
    """Whether the slowest and fastest round lie more than three medians apart, so that the median says little."""
    return latency is not None and latency.max - latency.min > SPREAD * latency.median


def marked(text: str, latency: Latency | None) -> str:
    """A median as it is shown: with a mark where it is of unsteady rounds."""
    return f"{MARK}{text}" if is_unsteady(latency) else text


def end_lines(rows: Sequence[RunRow]) -> list[str]:
    """A sentence for each row that was measured; of many rows one line that counts them."""
    measured = [row for row in rows if row.latency_ms]
    if len(rows) < MANY:
        return [_sentence(row) for row in measured]
    counts = (
        (sum(_is_right(row) for row in measured), "right"),
        (sum(row.status == Status.OK and not _is_compared(row) for row in measured), "not compared"),
        (sum(row.status == Status.WRONG_RESULT for row in rows), "wrong"),
        (sum(row.status == Status.NO_REFERENCE for row in rows), "without a reference"),
        (sum(row.status not in _RAN for row in rows), "failed"),
    )
    unsteady = [MARKED] if any(is_unsteady(row.latency_ms) for row in rows) else []
    return [*unsteady, f"{len(rows)} rows: {', '.join(f'{count} {word}' for count, word in counts if count)}"]


def end_tables(rows: Sequence[RunRow]) -> list[Table]:
    """A line a row, where there are many."""
    return [Table("", COLUMNS, [_cells(row) for row in rows], LEFT)] if len(rows) >= MANY else []


def next_step(rows: Sequence[RunRow]) -> tuple[str, ...]:
    """The command of farm that brings most now, with the option that it needs; empty where none follows."""
    measured = [row for row in rows if row.latency_ms]
    own = [row for row in measured if row.engine == FARMRT]  # what further commands can look into
    wrong = [row for row in measured if row.status == Status.WRONG_RESULT]
    if wrong:
        return ("run", "--layers") if any(row in own and not row.layers and not row.samples for row in wrong) else ()
    if any(not _is_compared(row) and row.status != Status.NO_REFERENCE for row in measured):
        return ("run", "--validate")
    if any(row.runtime == "gpu" and not _is_tuned(row) for row in own):
        return ("tune",)
    return ("benchmark",) if own else ()


def _sentence(row: RunRow) -> str:
    latency = row.latency_ms
    assert latency
    p90 = f"p90 {_shown(latency.p90)}"
    spread = f"; unsteady: {_shown(latency.min)} to {_shown(latency.max)}" if is_unsteady(latency) else ""
    tuned = ", tuned" if _is_tuned(row) else ""
    placed = f": {_placed(row.placement)}" if row.placement else ""
    return f"{row.model} {_verdict(row)} takes {_shown(latency.median)} ms ({p90}{spread}){tuned}{placed}"


def _verdict(row: RunRow) -> str:
    figures = ", ".join(_figures(row))
    if row.status == Status.WRONG_RESULT:
        return f"is wrong on {row.unit} ({figures}), and"
    return f"{'is right' if _is_compared(row) else 'runs'} on {row.unit} ({figures}) and"


def _figures(row: RunRow) -> Iterator[str]:
    yield row.runner
    if row.samples and row.samples.mean:
        yield f"{row.samples.count - row.samples.wrong} of {row.samples.count} samples"
    if row.sqnr_db is not None:
        yield f"{'worst ' if row.samples else ''}SQNR {row.sqnr_db:.0f} dB"
    if row.reference_sqnr_db is not None:
        yield f"the reference against itself, moved by rounding, {row.reference_sqnr_db:.0f} dB"
    if row.status == Status.NO_REFERENCE:
        yield "no reference"
    elif not _is_compared(row):
        yield "outputs not compared"
    if row.status == Status.OK and any(output.reason for output in row.outputs):
        yield "a constant reference, which is no evidence"


def _placed(placement: Placement) -> str:
    total = placement.gpu + placement.cpu
    if not (placement.gpu and placement.cpu):
        return f"{total} of {total} operators on the {'GPU' if placement.gpu else 'CPU'}"
    share = f" and {100 * placement.gpu_time_share:.0f} % of the time" if placement.gpu_time_share is not None else ""
    types = f" ({', '.join(placement.cpu_types)})" if placement.cpu_types else ""
    return f"{placement.gpu} of {total} operators{share} on the GPU, {placement.cpu} on the CPU{types}"


def _cells(row: RunRow) -> list[str]:
    latency, placement = row.latency_ms, row.placement
    times = (marked(_shown(latency.median), latency), _shown(latency.p90)) if latency else ("-", "-")
    on_gpu = f"{placement.gpu} of {placement.gpu + placement.cpu}" if placement else "-"
    return [row.model, row.unit, row.runner, _outcome(row), *times, on_gpu]


def _outcome(row: RunRow) -> str:
    if row.status not in (Status.OK, Status.WRONG_RESULT):
        return row.status.value
    if not _is_compared(row):
        return "not compared"
    sqnr = f", SQNR {row.sqnr_db:.0f} dB" if row.sqnr_db is not None else ""
    return f"{'right' if row.status == Status.OK else 'wrong'}{sqnr}"


def _is_compared(row: RunRow) -> bool:
    if row.status == Status.NO_REFERENCE:
        return False
    return bool(row.outputs) or bool(row.samples and row.samples.mean)


def _is_right(row: RunRow) -> bool:
    return row.status == Status.OK and _is_compared(row)


def _is_tuned(row: RunRow) -> bool:
    tuned, selection = row.tuned, row.selection
    return (isinstance(tuned, TunedUse) and tuned.match != "none" and tuned.used > 0) or (
        isinstance(selection, SelectionUse) and selection.match != "none"
    )


def _shown(value_ms: float) -> str:
    """Three digits or more: `0.123`, `7.21`, `24.5`, `1234`."""
    digits = 3 if value_ms < 1 else 2 if value_ms < 10 else 1 if value_ms < 100 else 0
    return f"{value_ms:.{digits}f}"
