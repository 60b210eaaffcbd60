"""`farm inspect`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from farm.cli import options
from farm.cli.envelope import CommandResult
from farm.config.given_model import GivenModel
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.inspect import inspect_for_file, inspect_job, inspect_plan_file
from farm.rows.inspect import InspectRow
from farm.rows.status import Status
from farm.tables import table as tables
from farm.tables.inspect import inspect_tables
from farm.units import lookup
from farm.units.selection import ANY, Selection
from runtime.errors import ConfigError
from runtime.host.regular_file import open_regular
from runtime.plan.records import KERNELS_MAGIC, PLAN_MAGIC, TUNED_MAGIC


def inspect(
    model: GivenModel,
    with_tensors: bool,
    choice: Selection,
    target_file: Path | None,
    fleet: FleetOptions,
    memory: str | None,
    as_json: bool,
) -> CommandResult:
    """`farm inspect`; returns the exit status."""
    is_default = choice == ANY and not (target_file or memory or fleet.opencl)
    rows = (
        _plan_rows(model.path, is_default)
        if _is_binary(model.path)
        else _model_rows(model, choice, target_file, fleet, memory)
    )
    return options.finish(rows, as_json, lambda done: _show(done, with_tensors))


def _is_binary(file: Path) -> bool:
    """Whether the file is one of farm's own; raises ConfigError for artifacts, which another command shows."""
    try:
        with open_regular(file) as content:
            magic = content.read(len(PLAN_MAGIC))
    except OSError:
        return False  # reading it as a deployment file says what is wrong
    if magic in (TUNED_MAGIC, KERNELS_MAGIC):
        kind = "tuned parameters" if magic == TUNED_MAGIC else "compiled kernels"
        raise ConfigError(f"{file}: holds {kind}, no plan; `farm artifacts show {file}` shows them")
    return magic == PLAN_MAGIC or file.suffix == ".plan"


def _plan_rows(file: Path, is_default: bool) -> Iterator[InspectRow]:
    if not is_default:
        raise click.UsageError(
            f"{file} is a plan already: units, --target-file, --memory and --opencl are for MODEL.yml"
        )
    return iter([inspect_plan_file(file)])


def _model_rows(
    model: GivenModel,
    choice: Selection,
    target_file: Path | None,
    fleet: FleetOptions,
    memory: str | None,
) -> Iterator[InspectRow]:
    source = options.load(model)
    if target_file is None:
        return inspect_job(source, lookup.units_for(source, choice), memory, fleet)
    if choice != ANY or fleet.opencl:
        raise click.UsageError("--target-file takes the place of units and --opencl")
    return inspect_for_file(source, target_file, memory)


def _show(rows: Sequence[InspectRow], with_tensors: bool) -> None:
    good = [row for row in rows if row.status == Status.OK]
    tables.show([table for row in good for table in inspect_tables(row, with_tensors)])
