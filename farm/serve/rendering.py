"""The page's templates, beside those of the reports, whose tables and charts they use."""

import datetime
import functools
from collections.abc import Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader
from starlette.responses import Response

from farm.cluster.queue import JobReport
from farm.report.pages import page_environment
from farm.report.write import PLOTLY
from farm.serve.watcher import WatchedUnit
from farm.units.survey import UnitState

SIGNS = {
    UnitState.READY: ("✓", "good"),
    UnitState.BUSY: ("▶", "maybe"),
    UnitState.RESERVED: ("◆", "maybe"),
    UnitState.QUARANTINED: ("!", "bad"),
    UnitState.FAILING: ("✕", "bad"),
    UnitState.NOT_CONNECTED: ("∅", "quiet"),
}
UNREACHED = ("✕", "bad")  # all other states


@functools.cache
def _environment() -> Environment:
    reports = PackageLoader("farm.report")
    environment = page_environment(ChoiceLoader([PackageLoader("farm.serve"), PrefixLoader({"report": reports})]))
    environment.filters |= {"sign": state_sign, "clock": clock, "iso": iso_time}
    return environment


def render(template: str, values: Mapping[str, Any]) -> str:
    """A page, or a part of one."""
    return _environment().get_template(template).render(values)


def unit_row(unit: WatchedUnit, base: str) -> str:
    """The row of a unit in the table of all; `base` stands before each address."""
    return render("unit_row.html", {"unit": unit.members, "held": unit.report.holder, "base": base})


def job_row(job: JobReport, can_cancel: bool) -> str:
    """The row of a job in the table of the queue; its button belongs to the form `cancel` of the page."""
    return render("job_row.html", {"job": job, "can_cancel": can_cancel})


def state_sign(state: str) -> tuple[str, str]:
    """The sign and the tone of a unit's state; colour is never alone."""
    return SIGNS.get(UnitState(state), UNREACHED)


def clock(moment: datetime.datetime) -> str:
    """`14:30` today, else `2026-03-01 14:30`, by this machine's clock."""
    local = moment.astimezone()
    is_today = local.date() == datetime.datetime.now().astimezone().date()
    return f"{local:%H:%M}" if is_today else f"{local:%Y-%m-%d %H:%M}"


def iso_time(seconds: float) -> str:
    """A Unix time as ISO 8601 in UTC."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


TYPES = {".css": "text/css", ".js": "text/javascript"}
# Asset -> the package that it comes with.
ASSETS = {
    **dict.fromkeys(("report.css", "theme.js", "tables.js", "charts.js", "rows.js"), ("farm.report", "assets")),
    **dict.fromkeys(("serve.css", "live.js"), ("farm.serve", "assets")),
    PLOTLY: ("plotly", "package_data"),
}


def asset_answer(name: str) -> Response | None:
    """An asset; None where there is none of this name."""
    if name not in ASSETS:
        return None
    package, folder = ASSETS[name]
    content = (resources.files(package) / folder / name).read_bytes()
    return Response(content, media_type=TYPES[PurePosixPath(name).suffix])
