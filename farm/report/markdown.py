"""A report as Markdown: headed sections of tables."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from farm import atomic_file
from farm.safe_text import one_line
from farm.tables.table import Table

# What Markdown or HTML would read as markup, in text that a device or a model supplies.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~&])")
# What sites make links and notifications of, without any markup: a space without width keeps them from it.
_LINK = re.compile(r"(@|:(?=//)|www(?=\.))", re.IGNORECASE)
_NO_SPACE = "\u200b"


@dataclasses.dataclass(frozen=True)
class ReportSection:
    """A heading, a few sentences, and tables."""

    title: str
    text: str
    tables: Sequence[Table]


def write(path: Path, title: str, sections: Sequence[ReportSection]) -> None:
    """Writes the report whole."""
    parts = [f"# {plain(title)}", *(_section(section) for section in sections)]
    atomic_file.write(path, ("\n\n".join(parts) + "\n").encode())


def _section(section: ReportSection) -> str:
    parts = [f"## {plain(section.title)}", plain(section.text), *map(markdown, section.tables)]
    return "\n\n".join(filter(None, parts))


def markdown(table: Table) -> str:
    """A table in Markdown, under its title where it has one."""
    rule = (":---" if name in table.left else "---:" for name in table.columns)
    lines = [_line(map(plain, table.columns)), _line(rule), *(_line(map(plain, row)) for row in table.rows)]
    return "\n".join(([f"### {plain(table.title)}", ""] if table.title else []) + lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Text that shows as it is, on one line."""
    return _LINK.sub(rf"\1{_NO_SPACE}", _MARKUP.sub(r"\\\1", one_line(text)))
