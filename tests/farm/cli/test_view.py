"""Progress on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from farm.cli.view import LiveView
from farm.rows.device_state import DeviceState


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
