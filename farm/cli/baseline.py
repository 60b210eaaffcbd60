"""`farm baseline`: names for stored runs."""

from __future__ import annotations

import json

import click
from pydantic import TypeAdapter, ValidationError

from farm.config.fields import SafeName
from farm.jobs.compare.stored_runs import LATEST, PREFIX, find_run
from farm.nightly.file import LAST_GOOD, SERIES
from farm.rows.run_info import RunInfo
from farm.safe_text import one_line
from farm.store import Store
from farm.tables import table
from farm.tables.table import Table
from runtime.errors import ConfigError

COLUMNS = ("Name", "Run", "Started", "Commit", "Command")
RESERVED = (LATEST, SERIES, LAST_GOOD)
NAME = TypeAdapter[str](SafeName)


def set_command(name: str, run: str, store: str | None) -> None:
    """`farm baseline set`."""
    checked = _checked(name)
    with Store.open(store, create=False) as opened:
        before = opened.baselines().get(checked)
        found = find_run(opened, run.removeprefix(PREFIX))
        opened.set_baseline(checked, found.id)
    was = f" (was run {before})" if before not in (None, found.id) else ""
    click.echo(one_line(f"{checked}: run {found.id}, {found.command}, {found.started}{was}"))


def list_command(store: str | None, as_json: bool) -> None:
    """`farm baseline list`."""
    with Store.open(store, create=False) as opened:
        found = {name: opened.run(run) for name, run in opened.baselines().items()}
    if as_json:
        click.echo(json.dumps({"baselines": [_plain(name, run) for name, run in found.items()]}))
    elif found:
        rows = [[name, str(run.id), run.started, run.commit[:12] or "-", run.command] for name, run in found.items()]
        table.show([Table("", COLUMNS, rows, frozenset({"Name", "Started", "Commit", "Command"}))])
    else:
        click.echo("none yet; `farm baseline set NAME` names the newest run")


def remove_command(name: str, store: str | None) -> None:
    """`farm baseline remove`."""
    with Store.open(store, create=False) as opened:
        opened.drop_baseline(name)
    click.echo(one_line(f"{name}: removed; its run stays"))


def _checked(name: str) -> str:
    """A name that can be told from a run's number, and from the words of `baseline:` in nightly.yml."""
    try:
        checked = NAME.validate_python(name)
    except ValidationError as error:
        raise ConfigError(f"baseline: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    if checked in RESERVED or checked.isdecimal():
        raise ConfigError(f"baseline {checked}: this word has a meaning of its own; choose another name")
    return checked


def _plain(name: str, run: RunInfo) -> dict[str, object]:
    return {"name": name, "run": run.id, "started": run.started, "commit": run.commit, "command": run.command}
