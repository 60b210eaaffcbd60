"""The files of a plan: itself, its weights, and the library of its custom CPU operators."""

from pathlib import Path

from farm import atomic_file
from farm.workspace import data_file, operators_file
from runtime.custom.c_library import abi_key, c_kernels, operators_library
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.plan_data import PlanData, pieces


def write_plan(plan: Plan, plan_file: Path) -> None:
    """Writes a plan, its weights, and the library of the custom CPU operators that it needs."""
    _write_operators(plan, operators_file(plan_file))
    write_changed(data_file(plan_file), plan.data)
    write_changed(plan_file, encode_plan(plan))


def _write_operators(plan: Plan, library_file: Path) -> None:
    kernels = c_kernels(plan)
    if kernels:
        write_changed(library_file, operators_library(kernels, abi_key(plan.target.abi)).read_bytes())
    else:
        library_file.unlink(missing_ok=True)


def write_changed(path: Path, content: PlanData) -> None:
    """Writes a file, unless it holds the same already."""
    if not _holds(path, content):
        with atomic_file.replacing(path) as file:
            for piece in pieces(content):
                file.write(piece)


def _holds(path: Path, content: PlanData) -> bool:
    if not path.is_file() or path.stat().st_size != len(content):
        return False
    with path.open("rb") as file:
        return all(file.read(len(piece)) == bytes(piece) for piece in pieces(content))  # views compare byte by byte


def given_operators(plan_file: Path) -> dict[str, Path]:
    """The library of a plan's custom CPU operators, under the word by which it is loaded; empty without one."""
    library = operators_file(plan_file)
    return {"operators": library} if library.is_file() else {}
