"""What a plan holds as tables: operators, tensors where they are asked for, conversions, totals."""

from collections.abc import Iterator, Sequence

from farm.rows.forecast import has_several_precisions
from farm.rows.inspect import InspectedTensor, InspectRow
from farm.tables.forecast import made_by
from farm.tables.table import Table, shape, size

OPERATOR_COLUMNS = ("#", "Op Type", "Runs on", "Kernel", "Writes", "Origin", "Storage", "name")
TENSOR_COLUMNS = ("Tensor", "Kind", "Type", "Origin", "Storage", "Bytes", "Padding", "Operators", "Lies in")
CONVERSION_COLUMNS = ("#", "From", "To", "name")
LEFT = frozenset({"Op Type", "Runs on", "Kernel", "Writes", "Origin", "Storage", "name", "From", "To"})
LEFT_TENSORS = frozenset({"Tensor", "Kind", "Type", "Origin", "Storage", "Operators", "Lies in", "Quantization"})


def inspect_tables(row: InspectRow, with_tensors: bool) -> Iterator[Table]:
    """Tables of one good row."""
    where = f" on {row.unit} ({row.runtime})" if row.unit else ""
    yield Table(f"{row.model}{where}", OPERATOR_COLUMNS, list(_operators(row)), LEFT, keys=("#",))
    if with_tensors:
        last = ("Quantization",) if any(tensor.quantization for tensor in row.tensors) else ()
        cells = [[*_tensor(tensor), *(tensor.quantization or "-" for _ in last)] for tensor in row.tensors]
        yield Table("", (*TENSOR_COLUMNS, *last), cells, LEFT_TENSORS, keys=("Tensor",))
    if row.conversions:
        cells = [
            [str(one.operator), one.source_format or "-", one.target_format or "-", one.name] for one in row.conversions
        ]
        yield Table("conversions", CONVERSION_COLUMNS, cells, LEFT, keys=("#",))
    yield Table("", ("total", ""), list(_totals(row)), frozenset({"total"}))


def origin(tensor: InspectedTensor) -> str:
    """`NCHW [1,3,224,224]`."""
    return f"{tensor.origin_format} {shape(tensor.origin_shape)}".rstrip()


def storage(tensor: InspectedTensor) -> str:
    """`nchw8c [1,1,224,224,8]`."""
    return f"{tensor.storage_format} {shape(tensor.storage_shape)}".rstrip()


def tensor_line(tensor: InspectedTensor) -> str:
    """A tensor in words: `relu1: NCHW [1,3,8,8] in nchw8c [1,1,8,8,8], 2.0 KiB, 1.2 KiB of it padding`."""
    padding = f", {size(tensor.padding_bytes)} of it padding" if tensor.padding_bytes else ""
    part = f", part of {tensor.part_of}" if tensor.part_of else ""
    return f"{tensor.name}: {origin(tensor)} in {storage(tensor)}, {size(tensor.size_bytes)}{padding}{part}"


def _operators(row: InspectRow) -> Iterator[list[str]]:
    written, several = _written(row.tensors), has_several_precisions(row.operators)
    for index, operator in enumerate(row.operators):
        tensor = written.get(index)
        shown = [tensor.name, origin(tensor), storage(tensor)] if tensor else ["-", "-", "-"]
        yield [str(index), operator.type, operator.where(several), operator.kernel, *shown, operator.name]


def _written(tensors: Sequence[InspectedTensor]) -> dict[int, InspectedTensor]:
    """The tensor that each operator writes: the part, where it writes a part of a wider one."""
    ordered = sorted(tensors, key=lambda tensor: bool(tensor.part_of))
    return {index: tensor for tensor in ordered for index in tensor.written_by}


def _tensor(tensor: InspectedTensor) -> list[str]:
    steps = f"{_numbers(tensor.written_by)} -> {_numbers(tensor.read_by)}"
    return [
        *(tensor.name, tensor.kind, tensor.element_type, origin(tensor), storage(tensor)),
        *(f"{tensor.size_bytes:,}", f"{tensor.padding_bytes:,}", steps, tensor.part_of or tensor.memory),
    ]


def _numbers(steps: Sequence[int]) -> str:
    """At most three operators by number."""
    shown = ",".join(map(str, steps[:3]))
    return f"{shown},..." if len(steps) > 3 else shown or "-"


def _totals(row: InspectRow) -> Iterator[tuple[str, str]]:
    if row.unit:
        yield "plan", "as tuned for this CPU" if row.is_tuned_for_cpu else made_by(row.selection)
    yield "operators", str(len(row.operators))
    yield "transpositions and format conversions", str(len(row.conversions))
    yield "weights", size(row.weights_bytes or 0)
    yield "activations, memory shared (peak)", size(row.activations_peak_bytes or 0)
    yield "padding in tensors and weights", size(row.padding_bytes or 0)
