"""Tables are collected from the rooms of the families; what a room offers under a wrong name would be lost silently."""

import inspect
import re
import types

import pytest

from runtime import families, registry
from runtime.importers.handlers import FARM_HANDLERS, HANDLERS
from runtime.kernels.source import source_files
from runtime.kernels.spec import MemoryType
from runtime.kernels.table import KERNELS, PROBES, find_kernel
from runtime.native.features import FAMILIES
from runtime.operators.table import OPERATORS
from tests.runtime import families as kernel_families

KINDS = sorted({kind for kinds in registry.TABLES.values() for kind in kinds})


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_of_a_kind_has_tables_of_it_alone(kind: str) -> None:
    own = {table for table, kinds in registry.TABLES.items() if kind in kinds}
    assert registry.files(kind)
    for file in registry.files(kind):
        defined = {table for table in registry.TABLES if re.search(rf"^{table}\b", inspect.getsource(file), re.M)}
        assert defined and defined <= own, f"{file.__name__} has {sorted(defined)}; of its kind are {sorted(own)}"


def test_the_rooms_document_names_every_kind() -> None:
    assert families.__doc__ and all(f"{kind}.py" in families.__doc__ for kind in KINDS)


def test_a_key_of_two_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = types.ModuleType("first"), types.ModuleType("second")
    first.OPERATORS, second.OPERATORS = {"Mish": 1, "Relu": 2}, {"Mish": 3}  # type: ignore[attr-defined]
    monkeypatch.setattr(registry, "files", lambda kind: (first, second) if kind == "rows" else ())
    with pytest.raises(ValueError, match="second: OPERATORS has Mish, which another room has, too"):
        registry.collect("OPERATORS")


def test_every_kernel_has_a_source_of_its_own() -> None:
    for kernel in (*KERNELS, *PROBES):
        assert source_files(kernel)[-1].name == kernel.source, kernel.name


def test_the_collected_tables_are_as_large_as_they_are_known_to_be() -> None:
    assert {"Conv", "LSTM", "Suppression"} <= OPERATORS.keys() and {"Gemm", "Einsum", "QLinearConv"} <= HANDLERS.keys()
    assert FARM_HANDLERS.keys() == {"SpaceToBatch", "BatchToSpace", "PSROIPooling", "PSROIAlign", "Proposal"}


def test_the_cases_of_a_kernel_lie_in_the_file_of_its_family() -> None:
    """So that who adds a kernel finds where; a kernel without a case fails the tests of kernels."""
    for name, file in kernel_families.FILES.items():
        found = {case.kernel.source for case in getattr(file, "CASES", {}).values()}
        found |= {find_kernel(kernel, MemoryType.IMAGE).source for kernel in getattr(file, "IMAGE_CASES", {})}
        room = FAMILIES / name if name != "machinery" else FAMILIES.parent / "kernels"
        assert found <= {path.name for path in room.rglob("*.cl")}, f"tests/runtime/families/{name}.py"
