"""Tables are collected from the rooms of the families; what a room offers under a wrong name would be lost silently."""

from __future__ import annotations

import types

import pytest

from runtime import families, registry
from runtime.importers.handlers import FARM_HANDLERS, HANDLERS
from runtime.kernels.source import source_files
from runtime.kernels.table import KERNELS, PROBES
from runtime.operators import OPERATORS

TABLES = {
    "rows": {"OPERATORS"},
    "imports": {"OPERATORS"},
    "farm_domain": {"OPERATORS"},
    "oracle": {"COMPUTE", "COMPUTE_GENERIC", "ACTIVATIONS"},
    "buffer_kernels": {"KERNELS"},
    "image_kernels": {"KERNELS"},
    "block_kernels": {"KERNELS"},
    "strided_kernels": {"KERNELS"},
    "buffer_lowering": {"LOWERINGS"},
    "image_lowering": {"LOWERINGS"},
    "block_lowering": {"OPERATORS"},
    "strided_lowering": {"LOWERINGS"},
}


@pytest.mark.parametrize("kind", TABLES)
def test_each_file_of_a_kind_has_a_table_of_it(kind: str) -> None:
    assert registry.files(kind)
    for file in registry.files(kind):
        assert TABLES[kind] & set(vars(file)), f"{file.__name__} has none of {sorted(TABLES[kind])}"


def test_the_rooms_document_names_every_kind() -> None:
    assert families.__doc__ and all(f"{kind}.py" in families.__doc__ for kind in TABLES)


def test_a_key_of_two_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = types.ModuleType("first"), types.ModuleType("second")
    first.OPERATORS, second.OPERATORS = {"Mish": 1, "Relu": 2}, {"Mish": 3}  # type: ignore[attr-defined]
    monkeypatch.setattr(registry, "files", lambda kind: (first, second))
    with pytest.raises(ValueError, match="second: OPERATORS has Mish, which another room has, too"):
        registry.collect("rows", "OPERATORS")


def test_every_kernel_has_a_source_of_its_own() -> None:
    for kernel in (*KERNELS, *PROBES):
        assert source_files(kernel)[-1].name == kernel.source, kernel.name


def test_the_collected_tables_are_as_large_as_they_are_known_to_be() -> None:
    assert {"Conv", "LSTM", "Suppression"} <= OPERATORS.keys() and {"Gemm", "Einsum", "QLinearConv"} <= HANDLERS.keys()
    assert FARM_HANDLERS.keys() == {"SpaceToBatch", "BatchToSpace", "PSROIPooling", "PSROIAlign", "Proposal"}
