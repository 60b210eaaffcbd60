"""Before and after a command's work: its deployment is loaded; its rows are printed, and told as an exit status."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from farm import atomic_file, safe_text
from farm.cli import FAILED, INTERRUPTED
from farm.cli.envelope import INTERRUPTION, Document, Problem
from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.model import deployments
from farm.rows.row import Row, exit_status
from farm.rows.status import Status
from farm.store.recorder import Recorder
from runtime.errors import FarmError

RowType = TypeVar("RowType", bound=Row)


def load(model: GivenModel) -> Deployment:
    """The deployment of a model; what its file says without effect is told on stderr."""
    return load_all([model])[0]


def load_all(models: Iterable[GivenModel]) -> list[Deployment]:
    """The same of several, whose results are kept side by side."""
    sources = deployments.load_all(models)
    for note in (note for source in sources for note in source.notes):
        click.echo(f"note: {safe_text.one_line(note)}", err=True)
    return sources


def finish(
    rows: Iterable[RowType],
    as_json: bool,
    show: Callable[[Sequence[RowType]], None],
    keeper: Recorder | None = None,
    least_status: int = 0,
) -> int | Document:
    """Shows all rows, or makes a document of them, and says on stderr why any is not ok.

    The exit status is 1 where one is not ok or was not kept, and no less than `least_status`.
    """
    shown = list(rows)
    if not as_json:
        show(shown)
    tell_failures(shown)
    status = max(exit_status(shown), keeper.exit_status if keeper else 0, least_status)
    return Document(status, shown) if as_json else status


def written(path: Path, text: str) -> int:
    """Writes a file that shows rows; 1 where it cannot be written, which is told on stderr and hides no row."""
    try:
        atomic_file.write(path, text.encode())
    except FarmError as error:
        click.echo(safe_text.one_line(str(error)), err=True)
        return FAILED
    return 0


def interrupted(
    text: str, as_json: bool, rows: Sequence[RowType] = (), show: Callable[[Sequence[RowType]], None] | None = None
) -> int | Document:
    """The exit status after Ctrl-C, or a document that says how to go on; stderr was told at once.

    `rows` are those that were ready by then: they are shown, or in the document.
    """
    if as_json:
        return Document(INTERRUPTED, rows, problem=Problem(text, INTERRUPTION))
    if rows and show:
        show(rows)
    return INTERRUPTED


def tell_failures(rows: Iterable[Row]) -> None:
    """Says on stderr why a row is not ok."""
    for row in rows:
        if row.status != Status.OK:
            reason = " ".join(row.reason.split())
            line = f"{row.model} on {row.unit or row.soc} ({row.runner}): {row.status}: {reason}"
            click.echo(safe_text.one_line(line), err=True)
