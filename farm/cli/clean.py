"""`farm clean`: makes room on units."""

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from farm import atomic_file, safe_text
from farm.cli.envelope import CommandResult, Document
from farm.config.inventory import Unit
from farm.farmrt import unit_file_store
from farm.farmrt.unit_file_store import CleanResult
from farm.lease import lease
from farm.tables import table
from farm.tables.table import Table
from farm.transport import connect
from farm.units import lookup
from farm.units.selection import Selection
from runtime.errors import FarmError
from runtime.native import scratch
from runtime.native.build import default_output_dir

DAY_S = 86_400.0
MAX_AT_ONCE = 16
FOLDERS = ("build", "reports")
COLUMNS = ("Unit", "Files", "Freed", "Left", "Free before")


def clean(choice: Selection, older_days: float, dry_run: bool, as_json: bool) -> CommandResult:
    """`farm clean`; returns the exit status."""
    units = lookup.chosen_units(choice)
    with ThreadPoolExecutor(min(len(units), MAX_AT_ONCE)) as pool:
        outcomes = list(pool.map(lambda unit: _clean(unit, older_days * DAY_S, dry_run), units))
    unfinished = _clean_here(dry_run)
    if not as_json:
        table.show([_table(units, outcomes, dry_run)])
        _show_unfinished(unfinished, dry_run)
    failures = [outcome for outcome in outcomes if isinstance(outcome, FarmError)]
    for failure in failures:
        click.echo(safe_text.one_line(str(failure)), err=True)
    status = int(bool(failures))
    cleaned = [_plain(unit, outcome) for unit, outcome in zip(units, outcomes, strict=True)]
    members = {"dry_run": dry_run, "units": cleaned, "unfinished_files": list(map(str, unfinished))}
    return Document(status, members=members) if as_json else status


def _plain(unit: Unit, outcome: CleanResult | FarmError) -> dict[str, Any]:
    failed = isinstance(outcome, FarmError)
    figures = {} if isinstance(outcome, FarmError) else dataclasses.asdict(outcome)
    return {"unit": unit.name, "ok": not failed, "reason": str(outcome) if failed else "", **figures}


def _clean(unit: Unit, older_s: float, dry_run: bool) -> CleanResult | FarmError:
    try:
        with contextlib.closing(connect(unit)) as transport, lease.acquire(unit, transport, "farm clean"):
            return unit_file_store.clean(transport, older_s, dry_run)
    except FarmError as error:
        return error


def _clean_here(dry_run: bool) -> list[Path]:
    """Removes what killed processes left half written in this machine's folders of farm; returns what it was."""
    unfinished = [
        path for folder in _folders_here() for path in (*atomic_file.abandoned(folder), *scratch.abandoned(folder))
    ]
    if not dry_run:
        atomic_file.remove(unfinished)
    return unfinished


def _folders_here() -> list[Path]:
    """This machine's folders of farm, each once."""
    roots = (default_output_dir(), *map(Path, FOLDERS))
    found = {Path(folder).resolve(): Path(folder) for root in roots for folder, _, _ in os.walk(root)}
    return list(found.values())


def _show_unfinished(unfinished: Sequence[Path], dry_run: bool) -> None:
    if unfinished:
        done = "would be removed" if dry_run else "removed"
        click.echo(f"half-written files of killed processes here: {len(unfinished)} {done}")


def _table(units: Sequence[Unit], outcomes: Sequence[CleanResult | FarmError], dry_run: bool) -> Table:
    columns = [name.replace("Freed", "Would free") if dry_run else name for name in COLUMNS]
    rows = [[unit.name, *_cells(outcome)] for unit, outcome in zip(units, outcomes, strict=True)]
    return Table("", columns, rows, frozenset({"Unit"}))


def _cells(outcome: CleanResult | FarmError) -> list[str]:
    if isinstance(outcome, FarmError):
        return ["-"] * (len(COLUMNS) - 1)
    sizes = (outcome.size_bytes, outcome.left_bytes, outcome.free_bytes)
    return [str(outcome.files), *("-" if size is None else table.size(size) for size in sizes)]
