"""The style sheets and scripts of all pages: those of reports, of the service, and Plotly."""

from __future__ import annotations

from importlib import resources
from pathlib import PurePosixPath

from starlette.responses import Response

from farm.report.write import PLOTLY

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
