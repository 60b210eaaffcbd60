"""Options and help of `farm store`."""

from pathlib import Path
from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number, WholeNumber

FORMATS = ("jsonl", "csv", "parquet")

input_files = click.argument("files", metavar="FILE ...", nargs=-1, required=True, type=paths.EXISTING_FILE)


@click.group(name="store")
def command() -> None:
    """Show the store of all runs and rows, export, import and prune it."""


@command.command(name="info")
@click.option(
    "--runs",
    "count",
    type=WholeNumber(0),
    default=20,
    show_default=True,
    help="How many runs to list, newest first.",
)
@options.store_option
@options.json_option
def info(**given: Any) -> CommandResult:
    """Say what the store holds, whether it is whole, and list its runs."""
    from farm.cli import store

    return store.info(**given)


@command.command(name="export")
@click.argument("output", metavar="FILE|FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="JSON lines, or flat tables: a file each in FOLDER.",
)
@options.store_option
@options.json_option
def export(**given: Any) -> CommandResult:
    """Write all of the store to FILE (- is standard output), or as flat tables into FOLDER.

    JSON lines are what `farm store import` reads. The tables are runs, rows, samples, points, progress and baselines.
    """
    from farm.cli import store

    return store.export(**given)


@command.command(name="import")
@input_files
@options.store_option
@options.json_option
def import_files(**given: Any) -> CommandResult:
    """Take the runs and rows of FILEs (JSON lines) into the store, those that it has not yet.

    Reads what `farm store export` wrote, reports/unsaved-*.jsonl, and files of rows alone. Exit status 1 when lines are
    damaged; all others are taken over.
    """
    from farm.cli import store

    return store.import_files(**given)


@command.command(name="prune")
@click.option("--before", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]), help="Runs that began before (UTC).")
@click.option("--keep", type=WholeNumber(0), metavar="N", help="All but the newest N runs of each name.")
@click.option(
    "--bundles",
    "bundles_mb",
    type=Number(0),
    metavar="MB",
    help="Nightly bundles, the oldest that nothing refers to first, until their files take no more than MB.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@options.store_option
@options.json_option
def prune(**given: Any) -> CommandResult:
    """Delete old runs with their rows and points. Runs that are named as baselines, or go on, stay.

    With --before and --keep, only what both name. The bundles of a deleted run go with it.
    """
    from farm.cli import store

    return store.prune(**given)


@command.command(name="verify")
@options.store_option
@options.json_option
def verify(**given: Any) -> CommandResult:
    """Read the store and all nightly bundles beside it, and name what is damaged or missing.

    Exit status 1 when something is. A damaged bundle is never measured; the next night leaves a new one.
    """
    from farm.cli import store

    return store.verify(**given)
