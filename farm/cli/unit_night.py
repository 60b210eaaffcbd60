"""`farm unit-night`."""

import functools
import sys

from farm.cli import interruption, work
from farm.cli.envelope import CommandResult
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressLines
from farm.jobs.nightly.sent_night import sent_night_job
from farm.tables import table
from farm.tables.run import run_tables
from farm.units import lookup
from farm.units.selection import Selection
from runtime.errors import ConfigError


def unit_night(choice: Selection, fleet: FleetOptions, trust_models: bool, as_json: bool) -> CommandResult:
    """`farm unit-night`; returns the exit status. What is measured is told on stderr, a line of JSON each."""
    unit, *others = lookup.chosen_units(choice)
    if others:
        raise ConfigError(f"one unit is needed, not {1 + len(others)}: name it, as in --device {unit.name}")
    lines = ProgressLines(sys.stderr)
    with interruption.announced():
        rows = list(sent_night_job(unit, trust_models, fleet, lines, functools.partial(lines.note, unit.name)))
    return work.finish(rows, as_json, lambda rows: table.show(run_tables(rows)))
