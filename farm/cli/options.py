"""How commands end: rows printed, and told as an exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from farm import safe_text
from farm.rows import row as results
from farm.rows.row import Row, Status
from farm.store.recorder import Keeper

RowType = TypeVar("RowType", bound=Row)


def finish(
    rows: Iterable[RowType], as_json: bool, show: Callable[[Sequence[RowType]], None], keeper: Keeper | None = None
) -> int:
    """Prints all rows, says on stderr why any is not ok, and returns the exit status: 1 also where one was not kept."""
    found = list(rows)
    if as_json:
        click.echo(results.to_json(found))
    else:
        show(found)
    tell_failures(found)
    return max(results.exit_status(found), keeper.exit_status if keeper else 0)


def tell_failures(rows: Iterable[Row]) -> None:
    """Says on stderr why a row is not ok."""
    for row in rows:
        if row.status != Status.OK:
            reason = " ".join(row.reason.split())
            line = f"{row.model} on {row.unit} ({row.runtime}): {row.status}: {reason}"
            click.echo(safe_text.one_line(line), err=True)
