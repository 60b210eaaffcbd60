"""Tables for people: boxes on a terminal, aligned plain text elsewhere, the same cells in both."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from farm.safe_text import one_line


@dataclasses.dataclass(frozen=True)
class Table:
    """Title, column names and rows of text. Columns in `left` are aligned left, the others right.

    On a terminal only the last column, where it is a left one, may be broken to fit.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[str] = frozenset()


def show(tables: Iterable[Table], stream: TextIO | None = None) -> None:
    """Prints tables to a stream (default: standard output)."""
    stream = stream or sys.stdout
    if stream.isatty():
        for table in tables:
            _print(rich_table(table), stream)
    else:
        stream.write("\n".join(plain(table) for table in tables))


def plain(table: Table) -> str:
    """The table as aligned text, without colour or boxes; ends with a newline."""
    lines = [[one_line(cell) for cell in cells] for cells in (table.columns, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [_aligned(table, cells, widths) for cells in lines]
    rule = "-" * max(map(len, text))
    head = [table.title, rule] if table.title else []
    return "\n".join([*head, text[0], rule, *text[1:]]) + "\n"


def _aligned(table: Table, cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.ljust(width) if name in table.left else cell.rjust(width)
        for cell, width, name in zip(cells, widths, table.columns, strict=True)
    )
    return " | ".join(padded).rstrip()


def rich_table(table: Table) -> RichTable:
    """The table for a terminal."""
    shown = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for name in table.columns:
        left = name in table.left
        breakable = left and name == table.columns[-1]
        shown.add_column(name, justify="left" if left else "right", overflow="fold", no_wrap=not breakable)
    for cells in table.rows:
        shown.add_row(*(escape(one_line(cell)) for cell in cells))
    return shown


def _print(table: RichTable, stream: TextIO) -> None:
    """Prints a table in the terminal's width, or in its own where that is too narrow: figures are never cut."""
    console = Console(file=stream)
    console.width = max(console.width, console.measure(table, options=console.options.update(width=10_000)).minimum)
    console.print(table)


def milliseconds(value: float | None) -> str:
    """`12.345`, `-` where there is none."""
    return "-" if value is None else f"{value:.3f}"


def shape(value: Sequence[int]) -> str:
    """`[1,3,224,224]`, empty where it does not apply."""
    return f"[{','.join(map(str, value))}]" if value else ""


def size(size_bytes: int) -> str:
    """Bytes as `1.5 MiB`."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
