"""Tables for people: boxes on a terminal, aligned plain text elsewhere, the same cells in both."""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markup import escape
from rich.table import Table as RichTable

from farm.safe_text import one_line

WIDE = Console(width=10_000)
MIN_BREAKABLE, MIN_CLIPPED = 24, 8  # cells of a column that may be broken, or clipped
ELLIPSIS = "…"


@dataclasses.dataclass(frozen=True)
class Table:
    """Title, column names and rows of text. Columns in `left` are aligned left, the others right.

    On a terminal only the last column, where it is a left one, may be broken to fit; `fitted` says what else happens.

    Attributes:
        gives_way: columns that become shorter or are left out where there is no room, the first one first.
        keys: columns that say what a row is about; empty: the left ones at the beginning.
        left_out: columns that had to be left out, which is said below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[str] = frozenset()
    gives_way: Sequence[str] = ()
    keys: Sequence[str] = ()
    left_out: Sequence[str] = ()


class FittedTable:
    """A table that a console shows in its own width, whatever that is by then."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from map(rich_table, fitted(self._table, options.max_width))


def show(tables: Iterable[Table], stream: TextIO | None = None) -> None:
    """Prints tables to a stream (default: standard output)."""
    stream = stream or sys.stdout
    if stream.isatty():
        console = Console(file=stream)
        for table in tables:
            console.print(FittedTable(table))
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
    if table.left_out:
        shown.caption, shown.caption_justify = f"no room for: {', '.join(table.left_out)}", "left"
    for name in table.columns:
        left = name in table.left
        breakable = left and name == table.columns[-1]
        widest = max(cell_len(one_line(cell)) for cell in _column(table, name))
        min_width = min(widest, MIN_BREAKABLE) if breakable else widest
        justify: JustifyMethod = "left" if left else "right"
        shown.add_column(name, justify=justify, overflow="fold", no_wrap=not breakable, min_width=min_width)
    for cells in table.rows:
        shown.add_row(*(escape(one_line(cell)) for cell in cells))
    return shown


def terminal_width(table: Table) -> int:
    """The least width of a terminal in which no cell of the table is cut, and only its last column broken."""
    return WIDE.measure(rich_table(table)).minimum


def fitted(table: Table, width: int) -> list[Table]:
    """The table as one or more that fit into `width` cells.

    First the columns in `gives_way` become shorter or are left out, one after the other. If that is not enough, the
    columns are spread over several tables with the same rows, each with the columns in `keys` (by default: the left
    columns at the beginning), as many of them as there is room for.
    """
    narrowed = _narrowed(table, width)
    if terminal_width(narrowed) <= width:
        return [narrowed]
    keys = _keys(narrowed, width)
    groups = [[*keys, *group] for group in _groups(narrowed, keys, width)]
    return [
        dataclasses.replace(_with_columns(narrowed, group), title=narrowed.title if first else "")
        for first, group in ((index == 0, group) for index, group in enumerate(groups))
    ]


def _narrowed(table: Table, width: int) -> Table:
    """The table after as many columns gave way as had to."""
    for name in table.gives_way:
        excess = terminal_width(table) - width
        if excess <= 0:
            break
        room = max(cell_len(cell) for cell in _column(table, name)) - excess
        table = _clipped(table, name, room) if room >= max(MIN_CLIPPED, cell_len(name)) else _without(table, name)
    return table


def _column(table: Table, name: str) -> list[str]:
    index = table.columns.index(name)
    return [name, *(cells[index] for cells in table.rows)]


def _clipped(table: Table, name: str, room: int) -> Table:
    index = table.columns.index(name)
    rows = [[*cells[:index], _clip(cells[index], room), *cells[index + 1 :]] for cells in table.rows]
    return dataclasses.replace(table, rows=rows)


def _clip(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + ELLIPSIS


def _without(table: Table, name: str) -> Table:
    rest = _with_columns(table, [column for column in table.columns if column != name])
    return dataclasses.replace(rest, left_out=(*table.left_out, name))


def _with_columns(table: Table, names: Sequence[str]) -> Table:
    indices = [table.columns.index(name) for name in names]
    rows = [[cells[index] for index in indices] for cells in table.rows]
    return dataclasses.replace(table, columns=tuple(names), rows=rows)


def _keys(table: Table, width: int) -> list[str]:
    """The columns that every part has: as many as leave room for any other one."""
    keys = [name for name in table.keys if name in table.columns] or _leading_left(table)
    while keys and not all(_fits(table, [*keys, name], width) for name in table.columns if name not in keys):
        keys.pop()
    return keys


def _leading_left(table: Table) -> list[str]:
    end = next((index for index, name in enumerate(table.columns) if name not in table.left), len(table.columns) - 1)
    return list(table.columns[:end])


def _groups(table: Table, keys: Sequence[str], width: int) -> Iterable[list[str]]:
    group: list[str] = []
    for name in table.columns:
        if name in keys:
            continue
        if group and not _fits(table, [*keys, *group, name], width):
            yield group
            group = []
        group.append(name)
    yield group


def _fits(table: Table, names: Sequence[str], width: int) -> bool:
    return terminal_width(_with_columns(table, names)) <= width


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
