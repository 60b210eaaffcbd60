"""What only some need is an extra, and where it is missing one line says which."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

from farm.store import Store
from runtime.errors import BuildError, ConfigError
from runtime.host import extras
from runtime.native import toolchains

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
