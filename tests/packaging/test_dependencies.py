"""What the packages import is declared: what another dependency happens to bring may stay away in another version."""

import ast
import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

from farm.engines.python_engine import PythonEngine  # an adapter names its package where it is missing
from farm.engines.registry import adapters
from farm.store import Store
from runtime.errors import BuildError, ConfigError
from runtime.host import extras
from runtime.native import toolchains

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


@pytest.mark.slow
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


PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    """The packages that requirements name."""
    return {re.split(r"[^A-Za-z0-9._-]", each)[0] for each in requirements}


def test_each_extra_brings_its_package_and_nothing_else_does() -> None:
    for package, extra in extras.EXTRAS.items():
        assert package in names(PROJECT["optional-dependencies"][extra])
        assert package not in names(PROJECT["dependencies"])


def test_a_store_in_postgresql_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    line = r"A PostgreSQL store needs psycopg, which is not installed: pip install 'farm\[postgresql\]'"
    with pytest.raises(ConfigError, match=f"^{line}$"):
        Store.open("postgresql://nobody@localhost/rows")


def test_compiling_for_a_phone_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv(toolchains.NDK_VARIABLE, raising=False)
    line = "farmrt for arm64-v8a: building needs ziglang, which is not installed: pip install 'farm[compiler]'"
    assert toolchains.why_missing("arm64-v8a") == line
    with pytest.raises(BuildError, match=re.escape(line)):
        toolchains.find_toolchain("arm64-v8a")


def test_this_machines_own_compiler_serves_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "pip install 'farm[compiler]'" in toolchains.why_missing("host")
    (tmp_path / "cc").write_text("#!/bin/sh\n")
    (tmp_path / "cc").chmod(0o755)
    assert toolchains.why_missing("host") == ""


PATHS = re.findall(r"`((?:farm|runtime|tuner|tests|benchmarks|docs)/[^` ]*)`", (ROOT / "CONTRIBUTING.md").read_text())


def test_the_page_names_files_that_are_there() -> None:
    assert len(PATHS) > 30
    assert [path for path in PATHS if not list(ROOT.glob(path.rstrip("/")))] == []
