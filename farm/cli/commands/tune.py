"""Options and help of `farm tune`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.commands.execution import execution_options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number, WholeNumber

LEVELS = ("quick", "normal", "exhaustive")
BUILD_AHEAD = ("auto", "on", "off")


@click.command(name="tune")
@options.model_arguments("[MODEL.yml ...]")
@options.unit_options
@click.option(
    "--level", type=click.Choice(LEVELS), default="quick", show_default=True, help="How thorough the search is."
)
@click.option(
    "--budget",
    "budget_s",
    metavar="SECONDS",
    type=Number(0),
    help="Wall time for each model, all included.  [default: a search of 18 (quick), 180 (normal), unlimited]",
)
@click.option(
    "--selection/--no-selection",
    default=True,
    show_default=True,
    help="First choose, by measured cost, where and how each operator runs; a quarter of the search time.",
)
@click.option(
    "--build-ahead",
    type=click.Choice(BUILD_AHEAD),
    default="auto",
    show_default=True,
    help="Build programs while others are measured; auto: not on drivers for CPUs, nor where it slows launches down.",
)
@click.option("--fresh", is_flag=True, help="Takes nothing over from earlier searches; their journal stays.")
@click.option(
    "--repeat",
    metavar="N",
    type=WholeNumber(1, 10),
    default=1,
    show_default=True,
    help="Tunes so often, with --fresh, and tells whether the tunings agree.",
)
@click.option(
    "--journals",
    "shared",
    metavar="FOLDER",
    envvar="FARM_JOURNALS",
    type=paths.NEW_FOLDER,
    help="Follow the trials of all who tune with this folder, on whatever host.  [default: FARM_JOURNALS, else none]",
)
@options.fleet_options("farm tune")
@options.cluster_options
@options.memory_option
@execution_options
@options.runtime_option
@options.model_file_options
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Tune the kernels of models for a SoC; without MODEL.yml, of all in models/.

    First chooses for the whole graph where each operator runs (buffers, images, CPU where the file allows it) and with
    which algorithm, from measured costs, and goes on with that plan where whole processes show it to be no slower.
    Tries kernel variants and local sizes where the models' time is, and keeps what beats the default beyond the noise.
    Writes the tuned parameters and the compiled kernels to build/<library>/opencl, runs each model with and without
    them in turns, and says what was gained. What was measured is remembered: an interrupted search goes on when the
    same command is given again.
    """
    from farm.cli import tune

    return tune.tune(**given)
