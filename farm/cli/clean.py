"""`farm clean`: makes room on units."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import click

from farm import safe_text
from farm.config.inventory import Unit
from farm.farmrt import device_store
from farm.farmrt.device_store import Cleaned
from farm.lease import lease
from farm.tables import table
from farm.tables.table import Table
from farm.transport import connect
from farm.units import lookup
from farm.units.selection import Choice
from runtime.errors import FarmError

DAY_S = 86_400.0
MAX_AT_ONCE = 16
COLUMNS = ("Unit", "Files", "Freed", "Left", "Free before")


def clean(choice: Choice, older_days: float, dry_run: bool) -> int:
    """`farm clean`; returns the exit status."""
    found = lookup.chosen_units(choice)
    with ThreadPoolExecutor(min(len(found), MAX_AT_ONCE)) as pool:
        outcomes = list(pool.map(lambda unit: _clean(unit, older_days * DAY_S, dry_run), found))
    table.show([_table(found, outcomes, dry_run)])
    failures = [each for each in outcomes if isinstance(each, FarmError)]
    for failure in failures:
        click.echo(safe_text.one_line(str(failure)), err=True)
    return int(bool(failures))


def _clean(unit: Unit, older_s: float, dry_run: bool) -> Cleaned | FarmError:
    try:
        with contextlib.closing(connect(unit)) as transport, lease.acquire(unit, transport, "farm clean"):
            return device_store.clean(transport, older_s, dry_run)
    except FarmError as error:
        return error


def _table(units: Sequence[Unit], outcomes: Sequence[Cleaned | FarmError], dry_run: bool) -> Table:
    columns = [name.replace("Freed", "Would free") if dry_run else name for name in COLUMNS]
    rows = [[unit.name, *_cells(outcome)] for unit, outcome in zip(units, outcomes, strict=True)]
    return Table("", columns, rows, frozenset({"Unit"}))


def _cells(outcome: Cleaned | FarmError) -> list[str]:
    if isinstance(outcome, FarmError):
        return ["-"] * (len(COLUMNS) - 1)
    sizes = (outcome.size_bytes, outcome.left_bytes, outcome.free_bytes)
    return [str(outcome.files), *("-" if size is None else table.size(size) for size in sizes)]
