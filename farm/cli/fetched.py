"""What came of a command that went on without a client, shown and kept as that command does with its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farm.cli import benchmark, compare, opbench, run, store_options, tune, work
from farm.cli.envelope import CommandResult
from farm.rows.benchmark import BenchmarkRow
from farm.rows.compare import CompareRow
from farm.rows.opbench import OpbenchRow
from farm.rows.row import Row
from farm.rows.run import RunRow
from farm.rows.tune import TuneRow
from farm.store.lines import RunData
from farm.store.recorder import Recorder
from runtime.errors import ConfigError, FarmError, JobError, NoUnitError

if TYPE_CHECKING:
    from farm.cluster.kept_jobs import KeptResult

FACES: dict[str, tuple[type[Row], Callable[[Any], None]]] = {
    "run": (RunRow, run.show),
    "benchmark": (BenchmarkRow, benchmark.show),
    "opbench": (OpbenchRow, opbench.show),
    "tune": (TuneRow, tune.show),
    "compare": (CompareRow, compare.show),
}


def finish(
    result: KeptResult, store: str | None, trace: Path | None, html: Path | None, as_json: bool
) -> CommandResult:
    """Keeps the rows in the store, each once however often it is called, and ends as the command would have.

    Raises the error that it ended with.
    """
    from farm.cluster.remote_comparison import with_side_names
    from farm.cluster.remote_units import USERS_MISTAKES

    row_type, show = FACES[result.command]
    if (trace or html) and row_type is not BenchmarkRow:
        raise ConfigError(f"--{'trace' if trace else 'html'}: only farm benchmark has one")
    with Recorder(store, RunData.model_validate(result.run), store_options.tell) as keeper:
        named = (with_side_names(row, result.side_names) for row in result.document["rows"])
        rows = list(keeper.recorded(map(row_type.model_validate, named)))
    if problem := result.document["error"]:
        kinds: dict[str, type[FarmError]] = {**USERS_MISTAKES, "no_unit": NoUnitError}
        raise kinds.get(problem["kind"], JobError)(problem["message"])
    unwritten = benchmark.write_files([row for row in rows if isinstance(row, BenchmarkRow)], trace, html)
    return work.finish(rows, as_json, show, keeper, max(result.document["exit_status"], unwritten))
