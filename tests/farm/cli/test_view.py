"""Progress on a terminal."""

import io
import time

import pytest
from rich.console import Console

from farm.cli.view import LINE_EVERY_S, LiveView, PlainView, SlowStagesView
from farm.rows.device_state import DeviceState


@pytest.fixture(autouse=True)
def no_slow_stage() -> None:
    """Here stages last as long as the test says."""


def test_a_long_stage_breaks_no_figure() -> None:
    view = LiveView()
    unit = "Redmi-Note-8-Pro-192.168.100.120-5555"
    view.stage(unit, "waits until the unit has cooled down, which may well take some minutes")
    view.state(unit, DeviceState(temperature_c=41.0))
    console = Console(file=io.StringIO(), width=72)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert unit in lines[0] and "41 °C" in lines[0] and "0 s" in lines[0]


def test_where_nobody_looks_only_a_stage_that_lasts_is_said_and_every_ten_seconds() -> None:
    stream = io.StringIO()
    view = SlowStagesView(stream)
    begun_s = time.monotonic()
    view.stage("phone", "farmrt")
    view.stage("board", "connecting")
    view.say_slow(begun_s + LINE_EVERY_S / 2)
    assert not stream.getvalue()
    view.ended("board", "done")
    view.say_slow(begun_s + 1.5 * LINE_EVERY_S)
    view.say_slow(begun_s + 2 * LINE_EVERY_S)
    assert stream.getvalue() == "phone: farmrt\n"
    view.stage("phone", "farmrt: compiled 9 of 40 files")
    view.say_slow(begun_s + 3 * LINE_EVERY_S)
    assert stream.getvalue().splitlines()[1:] == ["phone: farmrt: compiled 9 of 40 files (30 s)"]
    view.stage("phone", "mobilenet_v1 (gpu)")
    view.say_slow(time.monotonic() + LINE_EVERY_S)
    assert stream.getvalue().splitlines()[2:] == ["phone: mobilenet_v1 (gpu)"]


def test_why_a_unit_cannot_be_used_is_said_at_once() -> None:
    stream = io.StringIO()
    view = SlowStagesView(stream)
    view.stage("phone", "net (gpu)")
    for _ in range(2):
        view.waiting("phone", "lost, waiting for it")
        view.stage("phone", "connecting")
    view.say_slow(time.monotonic() + LINE_EVERY_S / 2)
    assert stream.getvalue() == "phone: lost, waiting for it\n"


def test_what_goes_on_is_no_line_of_its_own() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    for text in ("farmrt", "farmrt: compiled 1 of 2 files", "farmrt: compiled 2 of 2 files", "net (gpu)", "net (gpu)"):
        view.stage("phone", text)
    assert stream.getvalue().splitlines() == ["phone: farmrt", "phone: net (gpu)", "phone: net (gpu)"]
