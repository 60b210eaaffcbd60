"""A lower layer never imports a higher one; siblings never import each other (the ladder of the design)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Package prefix -> prefixes that it may import of our own. The longest prefix of a module decides.
ALLOWED = {
    "runtime": ("runtime",),
    "tuner": ("tuner", "runtime"),
    "farm": ("farm", "runtime"),
    "farm.jobs": ("farm", "tuner", "runtime"),
    "farm.cli": ("farm", "tuner", "runtime"),
}
COMPOSITION = ("farm.jobs", "farm.cli")
SOURCES = sorted(path for package in ("farm", "runtime", "tuner") for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.split(".")[0] in ("farm", "runtime", "tuner")}


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: module_name(path))
def test_imports_only_go_down(path: Path) -> None:
    name = module_name(path)
    layer = max((prefix for prefix in ALLOWED if within(name, prefix)), key=len)
    for target in imported(path):
        assert any(within(target, prefix) for prefix in ALLOWED[layer]), f"{name} imports {target}"
        if layer not in COMPOSITION:
            assert not any(within(target, prefix) for prefix in COMPOSITION), f"{name} imports {target}"
