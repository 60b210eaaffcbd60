"""`farm tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import options, store_options, view
from farm.cli.envelope import CommandResult
from farm.cli.fleet_options import fleet_options
from farm.config import deployment
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions, journal_file
from farm.rows.tune import TuneRow
from farm.tables import table
from farm.tables.run import artifact_lines
from farm.tables.tune import tune_table
from farm.units.selection import Selection
from runtime.errors import ConfigError
from tuner.search import LEVELS

MODELS_FOLDER = Path("models")


@click.command(name="tune")
@click.argument("model_files", metavar="[MODEL.yml ...]", nargs=-1, type=options.MODEL_FILE)
@options.unit_options
@click.option(
    "--level", type=click.Choice(list(LEVELS)), default="quick", show_default=True, help="How thorough the search is."
)
@click.option(
    "--budget",
    "budget_s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    help="Device time for each model.  [default: quick 18, normal 180, exhaustive unlimited]",
)
@fleet_options("farm tune")
@options.memory_option
@store_options.store_option
@options.json_option
def command(
    model_files: tuple[Path, ...],
    choice: Selection,
    level: str,
    budget_s: float | None,
    fleet: FleetOptions,
    memory: str | None,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """Tune the kernels of models for a SoC; without MODEL.yml, of all in models/.

    Tries kernel variants and local sizes where the models' time is, and keeps what beats the default beyond the noise.
    Writes the tuned parameters and the compiled kernels to build/<library>/opencl, runs each model with and without
    them in turns, and says what was gained. What was measured is remembered: an interrupted search goes on when the
    same command is given again.
    """
    units = options.units(choice)
    sources = [deployment.load(path) for path in model_files or _all_models()]
    wanted = TuneOptions(SearchOptions(level, budget_s, memory))
    try:
        with store_options.keeping(store) as keeper, view.shown() as progress:
            rows = list(keeper.recorded(tune_job(sources, units, wanted, fleet, progress)))
    except KeyboardInterrupt:
        return options.interrupted(_how_to_go_on(units), as_json)
    return options.finish(rows, as_json, _show, keeper)


def _all_models() -> list[Path]:
    files = sorted(MODELS_FOLDER.glob("*.yml"))
    if not files:
        raise ConfigError(f"{MODELS_FOLDER}: no deployment files there; name one, as in `farm tune MODEL.yml`")
    return files


def _how_to_go_on(units: Sequence[Unit]) -> str:
    journals = ", ".join(str(journal_file(unit.soc)) for unit in units)
    return f"interrupted; the trials so far are in {journals}, and the same command goes on from there"


def _show(rows: Sequence[TuneRow]) -> None:
    table.show([tune_table(rows)])
    for line in artifact_lines(rows):
        click.echo(line)
    for path in dict.fromkeys(path for row in rows for path in row.artifacts):
        click.echo(path)
