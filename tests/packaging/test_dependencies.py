"""What the packages import is declared: what another dependency happens to bring may stay away in another version."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

from farm.engines.python_engine import PythonEngine  # an adapter names its package where it is missing
from farm.engines.registry import adapters

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OURS = ("farm", "runtime", "tuner")
BOUND = {"dask": "distributed", "markupsafe": "jinja2", "pydantic-core": "pydantic"}  # come with it in any version


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return {normalized(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines}


def imported(path: Path) -> set[str]:
    """Top modules that a file imports absolutely."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_what_is_imported_is_declared() -> None:
    modules = {module for folder in OURS for path in (ROOT / folder).rglob("*.py") for module in imported(path)}
    packages = importlib.metadata.packages_distributions()
    used = {
        module: {normalized(name) for name in packages[module]}
        for module in modules - sys.stdlib_module_names - set(OURS)
        if module in packages  # what is not installed here is an extra: runtime/host/extras.py names it
    }
    known = declared() | {normalized(each.package) for each in adapters().values() if isinstance(each, PythonEngine)}
    assert {module for module, names in used.items() if not names & known and not names & BOUND.keys()} == set()
    assert set(BOUND.values()) <= known
