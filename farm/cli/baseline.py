"""`farm baseline`: names for stored runs."""

import click
from pydantic import TypeAdapter, ValidationError

from farm.cli.envelope import CommandResult, Document
from farm.config.fields import SafeName
from farm.jobs.compare.stored_runs import LATEST, PREFIX, find_run
from farm.nightly.configuration import LAST_GOOD, SERIES
from farm.rows.run_info import RunInfo
from farm.safe_text import one_line
from farm.store import Store
from farm.tables import table
from farm.tables.table import Table
from runtime.errors import ConfigError

COLUMNS = ("Name", "Run", "Started", "Commit", "Command")
RESERVED = (LATEST, SERIES, LAST_GOOD)
NAME = TypeAdapter[str](SafeName)


def set_command(name: str, run: str, store: str | None, as_json: bool) -> CommandResult:
    """`farm baseline set`."""
    checked = _checked(name)
    with Store.open(store, create=False) as opened:
        before = opened.baselines().get(checked)
        info = find_run(opened, run.removeprefix(PREFIX))
        opened.set_baseline(checked, info.id)
    if as_json:
        return Document(members={"baseline": _plain(checked, info), "run_before": before})
    was = f" (was run {before})" if before not in (None, info.id) else ""
    click.echo(one_line(f"{checked}: run {info.id}, {info.command}, {info.started}{was}"))
    return 0


def list_command(store: str | None, as_json: bool) -> CommandResult:
    """`farm baseline list`."""
    with Store.open_to_read(store) as opened:
        runs = {name: opened.run(run) for name, run in opened.baselines().items()}
    if as_json:
        return Document(members={"baselines": [_plain(name, run) for name, run in runs.items()]})
    if runs:
        rows = [[name, str(run.id), run.started, run.commit[:12] or "-", run.command] for name, run in runs.items()]
        table.show([Table("", COLUMNS, rows, frozenset({"Name", "Started", "Commit", "Command"}))])
    else:
        click.echo("none yet; `farm baseline set NAME` names the newest run")
    return 0


def remove_command(name: str, store: str | None, as_json: bool) -> CommandResult:
    """`farm baseline remove`."""
    with Store.open(store, create=False) as opened:
        opened.drop_baseline(name)
    if as_json:
        return Document(members={"removed": name})
    click.echo(one_line(f"{name}: removed; its run stays"))
    return 0


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
