"""What a plan holds: operators, and tensors with origin and storage, of a plan in memory or of a plan file. Pure."""

import dataclasses
from collections.abc import Iterable, Sequence

from farm.plans.forecast import forecast
from farm.rows.forecast import PlannedOperator
from farm.rows.inspect import InspectedTensor, InspectFigures, StorageConversion
from runtime.plan.plan import Plan, StoredTensor
from runtime.plan.reading import ReadPlan, StepRecord
from runtime.plan.records import StepKind
from runtime.types import ELEMENT_NAMES


def inspection(plan: Plan) -> InspectFigures:
    """The figures of a plan."""
    figures = forecast(plan)
    return InspectFigures(
        operators=figures.operators,
        tensors=inspected_tensors(plan.contents),
        conversions=_conversions(figures.operators, plan.contents),
        weights_bytes=figures.weights_bytes,
        activations_peak_bytes=figures.activations_peak_bytes,
        padding_bytes=_padding(plan.contents),
    )


def inspection_of_file(file: ReadPlan) -> InspectFigures:
    """The figures of a plan file, which knows the storages of inputs, outputs, images and packed weights alone."""
    operators = tuple(map(_operator, file.steps))
    tensors = [dataclasses.replace(one, quantization=file.quantizations.get(one.name)) for one in file.tensors]
    return InspectFigures(
        operators=operators,
        tensors=inspected_tensors(tensors),
        conversions=_conversions(operators, file.tensors),
        weights_bytes=file.weights_bytes,
        activations_peak_bytes=file.activations_bytes,
        padding_bytes=_padding(file.tensors),
    )


def inspected_tensors(tensors: Sequence[StoredTensor]) -> tuple[InspectedTensor, ...]:
    """Tensors as rows have them."""
    return tuple(map(_tensor, tensors))


def _tensor(tensor: StoredTensor) -> InspectedTensor:
    storage = tensor.storage
    return InspectedTensor(
        name=tensor.name,
        kind=tensor.kind.value,
        element_type=ELEMENT_NAMES[tensor.element_type],
        memory=tensor.memory,
        origin_format=storage.origin.format.value,
        origin_shape=storage.origin.shape,
        storage_format=storage.format.name,
        storage_shape=storage.shape,
        size_bytes=tensor.size_bytes,
        padding_bytes=tensor.padding_bytes,
        part_of=tensor.part_of,
        written_by=tensor.written_by,
        read_by=tensor.read_by,
        quantization=str(tensor.quantization or ""),
    )


def _operator(step: StepRecord) -> PlannedOperator:
    return PlannedOperator(
        name=step.name,
        type=step.op,
        device="cpu" if step.kind == StepKind.CPU else "gpu",
        kernel=step.kernel,
        variant="",
        macs=step.macs,
        output_shape=(),
        note="",
        precision="" if step.precision is None else step.precision.label,
    )


def _conversions(
    operators: Sequence[PlannedOperator], tensors: Sequence[StoredTensor]
) -> tuple[StorageConversion, ...]:
    return tuple(
        _conversion(index, operator.name, tensors) for index, operator in enumerate(operators) if operator.is_conversion
    )


def _conversion(index: int, name: str, tensors: Sequence[StoredTensor]) -> StorageConversion:
    """What an operator converts; the element types are told where they differ."""
    source = _operand(tensor for tensor in tensors if index in tensor.read_by)
    target = _operand(tensor for tensor in tensors if index in tensor.written_by)
    is_cast = source is not None and target is not None and source.element_type != target.element_type
    source_format, target_format = (_format(tensor, is_cast) for tensor in (source, target))
    return StorageConversion(operator=index, name=name, source_format=source_format, target_format=target_format)


def _operand(tensors: Iterable[StoredTensor]) -> StoredTensor | None:
    """The part that was named, where it lies in a wider tensor."""
    return min(tensors, key=lambda tensor: not tensor.part_of, default=None)


def _format(tensor: StoredTensor | None, with_type: bool) -> str:
    if tensor is None:
        return ""
    name = tensor.storage.format.name
    return f"{name} {ELEMENT_NAMES[tensor.element_type]}" if with_type else name


def _padding(tensors: Sequence[StoredTensor]) -> int:
    """Bytes of padding in all tensors that have memory of their own."""
    return sum(tensor.padding_bytes for tensor in tensors if not tensor.part_of)
