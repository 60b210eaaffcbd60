"""`farm compare`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import FAILED, options, store_options, view
from farm.cli.envelope import CommandResult
from farm.cli.fleet_options import fleet_options
from farm.config.deployment import Runtime
from farm.decision.comparison import is_worse
from farm.jobs.compare import contender
from farm.jobs.compare.builds import CompareOptions, compare_job
from farm.jobs.compare.contender import Contender
from farm.jobs.compare.runs import compare_runs, only_in_one
from farm.jobs.compare.stored_runs import PREFIX, stored_run
from farm.jobs.fleet.dispatch import FleetOptions
from farm.rows.compare import CompareRow
from farm.safe_text import one_line
from farm.store import Store
from farm.store.recorder import Recorder
from farm.tables import table
from farm.tables.compare import compare_table, note_lines, side_text
from farm.units.selection import Selection
from runtime.errors import ConfigError

MARGIN_PERCENT = 1.0
MARGIN_OF_RUNS_PERCENT = 4.0  # a phone's nights differ by so much when nothing has changed
KINDS = {"run": "a stored run", "model": "a deployment file", "build": "a build of farm"}


@click.command(name="compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("model_file", metavar="[MODEL.yml]", required=False, type=options.MODEL_FILE)
@options.unit_options
@click.option("--runtime", "runtimes", type=click.Choice(["cpu", "gpu"]), multiple=True, help="Only on this runtime.")
@click.option(
    "--turns", type=click.IntRange(5, 1000), default=10, show_default=True, help="How often A and B are measured each."
)
@click.option(
    "--margin",
    "margin_percent",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    help="Differences of no more than this do not count.  [default: 1; 4 for stored runs]",
)
@options.memory_option
@fleet_options("farm compare")
@store_options.store_option
@options.json_option
def command(
    a: str,
    b: str,
    model_file: Path | None,
    choice: Selection,
    runtimes: tuple[Runtime, ...],
    turns: int,
    margin_percent: float | None,
    memory: str | None,
    fleet: FleetOptions,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """Is B slower than A?

    A and B are two stored runs (run:ID, run:latest, or the name of a baseline), two deployment files, or two builds of
    farm, which run MODEL.yml: a branch, tag or commit of its repository, or a folder with a checkout. Models and
    builds are measured in turns on one unit.

    Exit status 1: B is slower beyond the noise, builds disagree on an output, or a job failed.
    """
    kind = _common_kind(a, b, store)
    if kind == "run":
        compared = _of_runs(a, b, store, MARGIN_OF_RUNS_PERCENT if margin_percent is None else margin_percent)
        with store_options.keeping(store) as keeper:
            rows = list(keeper.recorded(compared))
        return _finish(rows, as_json, keeper)
    both = _contenders(kind, a, b, model_file)
    margin_percent = MARGIN_PERCENT if margin_percent is None else margin_percent
    wanted = CompareOptions(turns, margin_percent, runtimes or ("cpu", "gpu"), memory, secrets.randbelow(2**32))
    units = options.select_units(choice, options.load_deployment(both[0].model_file))
    with store_options.keeping(store) as keeper, view.shown() as progress:
        rows = list(keeper.recorded(compare_job(both, units, wanted, fleet, progress)))
    return _finish(rows, as_json, keeper)


def _common_kind(a: str, b: str, store: str | None) -> str:
    """What both are: `run`, `model` or `build`."""
    kinds = [_kind(text, store) for text in (a, b)]
    if kinds[0] != kinds[1]:
        raise ConfigError(f"{a} is {KINDS[kinds[0]]}, {b} is {KINDS[kinds[1]]}: compare like with like")
    return kinds[0]


def _kind(text: str, store: str | None) -> str:
    path = Path(text)
    if text.startswith(PREFIX):
        return "run"
    if path.is_dir():
        return "build"
    if path.suffix in (".yml", ".yaml") or path.is_file():
        return "model"
    with Store.open(store) as opened:
        return "run" if text in opened.baselines() else "build"


def _of_runs(a: str, b: str, store: str | None, margin_percent: float) -> list[CompareRow]:
    """Stored runs; cases that only one of them has are told on stderr."""
    with Store.open(store) as opened:
        runs = stored_run(opened, a), stored_run(opened, b)
    for line in only_in_one(*runs):
        click.echo(one_line(line), err=True)
    rows = compare_runs(*runs, margin_percent)
    if not rows:
        raise ConfigError(f"{a} and {b} have no case in common")
    return rows


def _contenders(kind: str, a: str, b: str, model_file: Path | None) -> tuple[Contender, Contender]:
    if kind == "model":
        if model_file:
            raise ConfigError(f"{model_file}: {a} and {b} are deployment files themselves; leave it out")
        return contender.models(Path(a), Path(b))
    if model_file is None:
        raise ConfigError(f"MODEL.yml is missing: what shall the builds {a} and {b} run?")
    return contender.build(a, model_file), contender.build(b, model_file)


def _finish(rows: Sequence[CompareRow], as_json: bool, keeper: Recorder) -> CommandResult:
    """Shows the rows; the exit status is 1 where B is worse."""
    worse = FAILED if any(map(is_worse, rows)) else 0
    return options.finish(rows, as_json, _show, keeper, worse)


def _show(rows: Sequence[CompareRow]) -> None:
    for name, side in (("A", rows[0].a), ("B", rows[0].b)):
        click.echo(one_line(f"{name}: {side_text(side)}"))
    table.show([compare_table(rows)])
    for line in note_lines(rows):
        click.echo(one_line(line))
