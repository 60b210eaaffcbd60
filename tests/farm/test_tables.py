from __future__ import annotations

import io
import sys

import pytest

from farm import tables
from farm.results import Latency, RunRow, Status
from farm.tables import Table
from farm.tables_run import COLUMNS, run_table

SMALL = Table("Title", ("name", "value"), [["a", "1"], ["long name", "12.5"]], frozenset({"name"}))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_text_is_aligned() -> None:
    assert tables.plain(SMALL).splitlines() == [
        "Title",
        "-----------------",
        "name      | value",
        "-----------------",
        "a         |     1",
        "long name |  12.5",
    ]


def test_a_pipe_gets_plain_text_and_a_terminal_gets_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    piped, terminal = io.StringIO(), Terminal()
    tables.show([SMALL], piped)
    tables.show([SMALL], terminal)
    assert piped.getvalue() == tables.plain(SMALL)
    assert "\x1b[1m" in terminal.getvalue() and "long name" in terminal.getvalue()


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show([SMALL, SMALL])
    assert capsys.readouterr().out.count("Title") == 2
    assert not sys.stdout.isatty()


def test_names_from_a_file_neither_format_nor_control_the_terminal() -> None:
    hostile = Table("", ("name",), [["[red]x[/red]\x1b[2J\n"]], frozenset({"name"}))
    terminal = Terminal()
    tables.show([hostile], terminal)
    for text in (terminal.getvalue(), tables.plain(hostile)):
        assert "[red]x[/red]" in text and "\x1b[2J" not in text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert tables.size(size_bytes) == text


def test_a_failed_run_has_dashes() -> None:
    row = RunRow(
        unit="host",
        soc="host",
        device_model="host",
        library="lib",
        model="net",
        runtime="gpu",
        status=Status.TIMEOUT,
        reason="slow",
    )
    (cells,) = run_table([row]).rows
    assert len(cells) == len(COLUMNS)
    assert cells[4:] == ["timeout", *["-"] * 12]
    (cells,) = run_table([row.model_copy(update={"latency_ms": Latency.of([1.0, 2.0, 4.0])})]).rows
    assert cells[-6:] == ["2.000", "4.000", "1.000", "4.000", "1.247", "3"]
