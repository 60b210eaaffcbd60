"""One name, one meaning: a reader who meets a name anywhere in the project knows at once what it is.

Classes have names of their own across all packages. Functions may share one where the reader sees the module beside it:
`deployment.load(path)` and `inventory.load(path)`, but never a bare `load` that was imported from one of them.
"""

import ast
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("farm", "runtime", "tuner")

# The functions of these are named after the commands (`farm convert`, `farm.convert()`), and called by their module.
SURFACES = ("farm.api", "farm.cli.")
# Functions that every module of a family has: they implement one interface, and a table holds them.
FAMILIES = {
    "connect": "farm.transport",
    "assemble": "runtime.zoo.",
    "lower_": "runtime.families.",
    "state": "farm.condition.",
}
# Functions that are imported bare although another module has one of the same name. The list only becomes shorter.
SHARED_FUNCTIONS = {
    "command_line": "what the user called; what a shell is to run",
    "examine": "the machine; a case",
    "milliseconds": "in a report; in a table",
    "operators": "of a chart; of a profile",
    "plain": "Markdown text; text of a terminal",
    "read": "a file of the project; a file of an emulated phone",
    "write": "a file of this machine; a file of an emulated phone",
}


@functools.cache
def sources() -> dict[str, ast.Module]:
    """Module -> its syntax tree."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@functools.cache
def from_imports() -> list[tuple[str, ast.ImportFrom]]:
    """Each `from ... import` with the module that it stands in."""
    return [
        (module, node)
        for module, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    ]


def owners(kind: type[ast.ClassDef] | type[ast.FunctionDef], files: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Public name -> the modules that define a class or function of this name, where there are several."""
    modules: dict[str, list[str]] = defaultdict(list)
    for module, tree in files.items():
        for node in tree.body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                modules[node.name].append(module)
    return {name: defined for name, defined in modules.items() if len(defined) > 1}


def is_family(name: str, modules: Sequence[str]) -> bool:
    prefixes = [
        prefix for start, prefix in FAMILIES.items() if name == start or (start[-1] == "_" and name.startswith(start))
    ]
    return any(all(module.startswith(prefix) for module in modules) for prefix in prefixes)


def bare_imports(name: str, modules: Sequence[str]) -> set[str]:
    """Modules that import a name bare; a package's `__init__` may offer what its own modules define."""
    return {
        importer
        for importer, node in from_imports()
        if node.module in modules and not node.module.startswith(f"{importer}.")
        if any(alias.name == name and alias.asname in (None, name) for alias in node.names)
    }


def test_a_class_name_stands_for_one_class() -> None:
    assert owners(ast.ClassDef, sources()) == {}


def test_a_function_name_that_several_modules_define_is_used_with_its_module() -> None:
    inner = {module: tree for module, tree in sources().items() if not module.startswith(SURFACES)}
    found = owners(ast.FunctionDef, inner)
    shared = {name: modules for name, modules in found.items() if not is_family(name, modules)}
    bare = {name: importers for name, modules in shared.items() if (importers := bare_imports(name, modules))}
    assert set(bare) == set(SHARED_FUNCTIONS), {
        name: bare.get(name, "not any more") for name in bare.keys() ^ SHARED_FUNCTIONS
    }


@pytest.mark.parametrize(
    ("kind", "source"), [(ast.ClassDef, "class Twice: ..."), (ast.FunctionDef, "def Twice(): ...")]
)
def test_the_check_sees_names_that_stand_twice(kind: type[ast.ClassDef] | type[ast.FunctionDef], source: str) -> None:
    """The other tests would pass on an empty list of files."""
    files = {name: ast.parse(source) for name in ("farm.one", "farm.other")}
    assert owners(kind, files) == {"Twice": ["farm.one", "farm.other"]}
    assert len(sources()) > 300
