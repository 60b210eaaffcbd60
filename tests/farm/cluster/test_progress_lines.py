"""Progress that crosses a process as lines of JSON arrives as it was."""

import io
from typing import Any

from farm.jobs.fleet.progress import ProgressLines, parse_event, replay
from farm.rows.device_state import DeviceState
from tuner.progress import Progress as SearchProgress

STATE = DeviceState(temperature_c=41.5)
SEARCH = SearchProgress(1.0, 4.0, 2.5, 10.0, 7, "conv2d")


class Recorded:
    """A view that remembers."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def stage(self, unit: str, text: str) -> None:
        self.seen.append(("stage", unit, text))

    def waiting(self, unit: str, text: str) -> None:
        self.seen.append(("waiting", unit, text))

    def search(self, unit: str, progress: SearchProgress) -> None:
        self.seen.append(("search", unit, progress))

    def state(self, unit: str, state: DeviceState) -> None:
        self.seen.append(("state", unit, state))

    def ended(self, unit: str, text: str) -> None:
        self.seen.append(("ended", unit, text))


def test_all_that_is_shown_arrives_under_the_units_name_here() -> None:
    stream, view = io.StringIO(), Recorded()
    lines = ProgressLines(stream)
    lines.stage("host", "pushing\nfiles")
    lines.waiting("host", "reserved by bob")
    lines.search("host", SEARCH)
    lines.state("host", STATE)
    lines.ended("host", "done")
    for line in stream.getvalue().splitlines():
        event = parse_event(line)
        assert event and event["unit"] == "host"
        replay(event, view, "lab")
    assert view.seen == [
        ("stage", "lab", "pushing\nfiles"),
        ("waiting", "lab", "reserved by bob"),
        ("search", "lab", SEARCH),
        ("state", "lab", STATE),
    ]


def test_other_lines_are_no_events() -> None:
    assert [parse_event(line) for line in ("", "error: x", "[1]", '{"event": "stage"}')] == [None] * 4
