"""Imports go one way: down the written order of the rooms, and within every folder without a circle.

A folder's entries are its files and its rooms (folders). What a room's files import counts for the room, so that a
circle between two rooms shows even where no two files form one. docs/tour.md draws the same order as a picture.
"""

import ast
import functools
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("farm", "runtime", "tuner")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
FOLDERS = sorted({path.parent for path in SOURCES})

# Every entry of a folder, the highest first: an entry imports only what stands on a later line. Those on one line know
# nothing of each other.
ORDER = {
    "": ["farm", "tuner", "runtime"],
    "farm": [
        "__main__",
        "cli",
        "serve",
        "api cluster",
        "jobs",
        "doctor",
        "report",
        "tables",
        "store",
        "nightly",
        "decision",
        "artifacts plans",
        "kept_choices",
        "emulation units",
        "engines lease",
        "farmrt",
        "quantization",
        "condition model",
        "transport",
        "config operators rows",
        "soc toolchain workspace",
        "atomic_file",
        "host_system processes safe_text",
    ],
    "farm.jobs": [
        "accept demo",
        "nightly sharing",
        "tune",
        "bisect",
        "compare",
        "benchmark build convert forecast inspect opbench operator_check quantize",
        "run",
        "engines example samples",
        "loading",
        "further",
        "custom_cases fleet joined_graph targets turn_journal validate",
        "opbench_cases choices",
        "commit models",
    ],
    # What collects the rooms of the families, and works on whole graphs; the rooms; machinery, which is handed what is
    # collected (runtime/registry.py) and knows no family; the ground.
    "runtime": [
        "convert",
        "passes selection",
        "custom families",
        "exporters",
        "importers lowering zoo",
        "native reference",
        "operators",
        "plan",
        "formats kernels peaks",
        "frameworks layout oracle",
        "graph target",
        "semantics",
        "host",
        "errors registry statistics types version",
    ],
}
# Packages that only these may import: the tuner measures what it is given, and never knows the controller.
ONLY_FROM = {"tuner": ("farm.jobs", "farm.cli", "tuner")}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path) for path in SOURCES}


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The modules of ours that a file imports, wherever in the file, deferred imports included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (named & MODULES) or ({node.module} & MODULES)
    return frozenset(found)


def within(name: str, package: str) -> bool:
    return not package or name == package or name.startswith(package + ".")


def entry(name: str, package: str) -> str:
    """The entry of a package's folder that a module belongs to; empty for the package's own `__init__`."""
    return name.removeprefix(package).removeprefix(".").split(".")[0]


def edges(package: str) -> dict[str, set[str]]:
    """Entry -> the entries that it imports. A package's `__init__` may gather what its entries offer."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        name = module_name(path)
        if within(name, package) and entry(name, package):
            targets = {entry(target, package) for target in imported(path) if within(target, package)}
            found.setdefault(entry(name, package), set()).update(targets - {entry(name, package), ""})
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: module_name(folder / "__init__.py"))
def test_a_folder_has_no_circle(folder: Path) -> None:
    graphlib.TopologicalSorter(edges(module_name(folder / "__init__.py"))).prepare()


@pytest.mark.parametrize("package", ORDER, ids=lambda package: package or "packages")
def test_imports_follow_the_written_order(package: str) -> None:
    level = {name: at for at, line in enumerate(ORDER[package]) for name in line.split()}
    found = edges(package)
    assert set(found) == set(level), f"entries of {package or 'the project'} that ORDER lacks, or has in vain"
    for name, targets in found.items():
        for target in targets:
            assert level[target] > level[name], f"{package}.{name} imports {package}.{target}, which is not below it"


@pytest.mark.parametrize("package", ONLY_FROM)
def test_some_packages_are_known_by_few(package: str) -> None:
    for path in SOURCES:
        if any(within(target, package) for target in imported(path)):
            assert any(within(module_name(path), one) for one in ONLY_FROM[package]), f"{path} imports {package}"


@pytest.mark.parametrize("package", ["farm", "runtime"])
def test_a_package_has_at_most_a_dozen_loose_files(package: str) -> None:
    assert len(list((ROOT / package).glob("[!_]*.py"))) < 12


def test_the_tour_draws_the_order() -> None:
    """Each line of the order of farm's rooms stands in the tour's picture, in this order."""
    tour = (ROOT / "docs/tour.md").read_text()
    places = [tour.find("    " + line.replace(" ", " · ")) for line in ORDER["farm"]]
    assert -1 not in places and places == sorted(places)
