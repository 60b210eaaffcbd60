"""Pages that are one file, which loads nothing from elsewhere."""

import functools
from collections.abc import Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from farm.report.pages import page_environment


def single_file_page(template: str, styles: Sequence[str], views: Sequence[dict[str, Any]]) -> str:
    """A page of views by its template (single_file.html), with the report's style and further ones by name."""
    assets = resources.files("farm.report") / "assets"
    style = Markup("".join((assets / name).read_text() for name in ("report.css", *styles)))
    script = Markup((assets / "theme.js").read_text())
    return _environment().get_template(template).render(views=views, style=style, script=script)


@functools.cache
def _environment() -> Environment:
    return page_environment(PackageLoader("farm.report"))
