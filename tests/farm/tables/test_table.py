import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from farm.rows.latency import Latency
from farm.rows.run import KernelsUse, RunRow, TensorComparison, TunedUse
from farm.rows.status import Status
from farm.rows.tune import TuneRow
from farm.tables import artifacts, benchmark, compare, forecast, inspect, nightly, run, table, tune
from farm.tables.run import artifact_lines, run_tables
from farm.tables.table import FittedTable, Table

SMALL = Table("Title", ("name", "value"), [["a", "1"], ["long name", "12.5"]], frozenset({"name"}))


def a_row(status: Status) -> RunRow:
    names = {"unit": "host", "soc": "host", "device_model": "host", "library": "lib", "model": "net", "runtime": "gpu"}
    return RunRow.model_validate(names | {"status": status})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_text_is_aligned() -> None:
    assert table.plain(SMALL).splitlines() == [
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
    table.show([SMALL], piped)
    table.show([SMALL], terminal)
    assert piped.getvalue() == table.plain(SMALL)
    assert "\x1b[1m" in terminal.getvalue() and "long name" in terminal.getvalue()


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    table.show([SMALL, SMALL])
    assert capsys.readouterr().out.count("Title") == 2
    assert not sys.stdout.isatty()


def test_names_from_a_file_neither_format_nor_control_the_terminal() -> None:
    hostile = Table("", ("name",), [["[red]x[/red]\x1b[2J\n"]], frozenset({"name"}))
    terminal = Terminal()
    table.show([hostile], terminal)
    for text in (terminal.getvalue(), table.plain(hostile)):
        assert "[red]x[/red]" in text and "\x1b[2J" not in text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert table.size(size_bytes) == text


def test_a_failed_run_has_dashes() -> None:
    row = a_row(Status.TIMEOUT)
    (times,) = run_tables([row])
    assert list(times.rows[0][4:]) == ["timeout", *["-"] * 6]
    (times,) = run_tables([row.model_copy(update={"latency_ms": Latency.of([1.0, 2.0, 4.0])})])
    assert list(times.rows[0][-4:]) == ["2.000", "4.000", "1.000", "1.247"]


def test_each_compared_output_has_a_line() -> None:
    output = TensorComparison(name="prob", status=Status.OK, cosine=1.0, sqnr_db=87.25, max_abs_error=1e-5)
    row = a_row(Status.OK).model_copy(update={"outputs": (output, output)})
    _, accuracy = run_tables([row])
    assert len(accuracy.rows) == 2
    assert list(accuracy.rows[0][3:]) == ["1.000000", "87.2", "-", "1.00e-05", "-", "0", "prob"]


ARTIFACTS = {
    "tuned": TunedUse(match="exact", entries=30, used=28),
    "kernels": KernelsUse(match="none", loaded=0, built=7, build_ms=12.0, reason="driver differs"),
}


def test_artifacts_that_were_given_are_told_used_or_not() -> None:
    settings = {"tuned_file": "t.bin", "kernels_file": "k.bin"}
    row = a_row(Status.OK).model_copy(update={**ARTIFACTS, "settings": settings})
    assert artifact_lines([row]) == [
        "net on host: tuned parameters: match exact, 30 entries, used by 28 steps",
        "net on host: compiled kernels: match none, 0 loaded, 7 built in 12 ms (driver differs)",
    ]
    assert artifact_lines([row.model_copy(update={"settings": {}})]) == []


def test_a_narrow_terminal_cuts_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    table.show(run_tables([a_row(Status.OK).model_copy(update={"init_ms": 1234567.25})]), terminal)
    assert "1234567.250" in terminal.getvalue() and "Median(ms)" in terminal.getvalue()


@pytest.mark.parametrize(
    ("figures", "cells"),
    [
        ({"outcome": "no change"}, ["-", "-", "no change"]),
        ({"outcome": "kept", "gain_percent": -0.7, "gain_ci": (-7.3, 6.2)}, ["-0.7", "-7.3 to 6.2", "kept"]),
    ],
    ids=["none", "some"],
)
def test_a_gain_is_only_told_where_something_was_tuned(figures: dict[str, object], cells: list[str]) -> None:
    row = TuneRow.model_validate(a_row(Status.OK).model_dump() | {"job": "tune", "launches": 23} | figures)
    assert list(tune.tune_table([row]).rows[0][7:10]) == cells


WIDTHS = (80, 120, 200)
FIGURE = "1234567.250"
# The widest tables of the commands: title of the test -> columns, and those that are aligned left.
WIDE_TABLES = {
    "run": (run.TIME_COLUMNS, run.LEFT),
    "accuracy": (run.ACCURACY_COLUMNS, run.LEFT),
    "tune": (tune.TUNE_COLUMNS, tune.TUNE_LEFT),
    "artifacts": (artifacts.ARTIFACT_COLUMNS, frozenset(artifacts.ARTIFACT_COLUMNS[:6])),
    "operators": (benchmark.OPERATOR_COLUMNS, benchmark.LEFT),
    "rounds": (benchmark.ROUND_COLUMNS, benchmark.LEFT),
    "compare": (compare.COLUMNS, compare.LEFT),
    "forecast": (forecast.OPERATOR_COLUMNS, forecast.LEFT),
    "inspect": (inspect.OPERATOR_COLUMNS, inspect.LEFT),
    "tensors": (inspect.TENSOR_COLUMNS, inspect.LEFT_TENSORS),
    "cases": (("Unit", "Model", "Runtime", "Median(ms)", "Change", "Verdict", "Tuned files"), nightly.LEFT),
}


def on_terminal(shown: Table, width: int) -> list[str]:
    """The lines of a table on a terminal of that width; each of them has room there."""
    console = Console(file=io.StringIO(), width=width)
    console.print(FittedTable(shown))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return lines


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", WIDE_TABLES)
def test_no_table_wraps_a_figure(name: str, width: int) -> None:
    columns, left = WIDE_TABLES[name]
    rows = [[f"name_of_{line}" if name in left else f"{line}{FIGURE}" for name in columns] for line in range(3)]
    text = "\n".join(on_terminal(Table("", columns, rows, left), width))
    for line in range(3):
        assert text.count(f"{line}{FIGURE}") == sum(name not in left for name in columns)
    assert all(name in text for name in columns)


@pytest.mark.slow
@given(st.integers(40, 220), st.lists(st.tuples(st.booleans(), st.integers(1, 30)), min_size=1, max_size=15))
def test_every_figure_is_whole_at_any_width(width: int, columns: list[tuple[bool, int]]) -> None:
    names = [f"c{index}" for index in range(len(columns))]
    left = frozenset(name for name, (is_left, _) in zip(names, columns, strict=True) if is_left)
    cells = [f"<{'x' * size} {index}>" for index, (_, size) in enumerate(columns)]
    text = "\n".join(on_terminal(Table("", names, [cells], left), width))
    assert all(cell in text for name, cell in zip(names, cells, strict=True) if name not in left)


def test_every_part_of_a_wide_table_says_what_its_rows_are_about() -> None:
    columns = ("Model", "Unit", *(f"Figure {index}" for index in range(12)))
    rows = [["net", unit, *[FIGURE] * 12] for unit in ("left_phone", "right_phone")]
    lines = on_terminal(Table("Title", columns, rows, frozenset({"Model", "Unit"})), 80)
    parts = [line for line in lines if "Figure" in line]
    assert len(parts) == 3 and all("Model" in line and "Unit" in line for line in parts)
    assert sum("left_phone" in line for line in lines) == 3
    assert sum("Title" in line for line in lines) == 1


def test_columns_give_way_in_their_order_and_that_is_said() -> None:
    rows = [["pixel", "Adreno 630 (a driver of some words)", "12.5", "ready"]]
    shown = Table("", ("Unit", "GPU", "°C", "State"), rows, frozenset({"Unit", "GPU", "State"}), ("GPU", "°C"))
    assert "(a driver of some words)" in on_terminal(shown, 80)[3]
    assert "Adreno 630 (a driver of…" in on_terminal(shown, 52)[3]
    narrow = on_terminal(shown, 20)
    assert " ".join(" ".join(narrow).split()).endswith("pixel ready no room for: GPU, °C")
