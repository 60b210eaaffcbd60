"""Infers the data format of inputs and outputs whose deployment file names none: the one in which the shape fits.

MACE writes shapes in the order NHWC, ONNX in NCHW. Where a file's shape fits the model's in one of the two orders, that
is the format; where it fits in both, only the user can know, and is asked. A Caffe network is always NCHW: there the
channels tell whether a file is written in MACE's order, and what fits in both is as Caffe has it.
"""

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import onnx

from farm.config.deployment import Input, Output
from farm.config.platforms import DataFormat
from farm.model.boundary import TO_NCHW
from runtime.errors import ModelError
from runtime.frameworks.model_tensors import ModelTensor

IMAGE_RANK = 4
ORDERS: tuple[DataFormat, ...] = ("NCHW", "NHWC")

Sizes = Sequence[int | None]  # None: any
Tensor = TypeVar("Tensor", Input, Output)


def infer_inputs(model: onnx.ModelProto, inputs: Sequence[Input]) -> tuple[Input, ...]:
    """The inputs, each with its format; ModelError where both orders fit."""
    declared = {value.name: _sizes(value) for value in (*model.graph.value_info, *model.graph.input)}
    return tuple(
        _with_format(tensor, tensor.shape, declared.get(tensor.name) or (None,) * IMAGE_RANK)
        if _is_open(tensor, tensor.shape)
        else tensor
        for tensor in inputs
    )


def infer_caffe_inputs(network: Sequence[ModelTensor], inputs: Sequence[Input]) -> tuple[Input, ...]:
    """The inputs of a Caffe network, each with its format: NHWC where only so its channels are where the network's are.

    Height and width say nothing: a network is reshaped to what the file asks. `network`: the inputs that it declares.
    """
    channels = {tensor.name: tensor.shape[1] for tensor in network if tensor.shape and len(tensor.shape) == IMAGE_RANK}

    def inferred(tensor: Input) -> Input:
        wanted = channels.get(tensor.name)
        if tensor.has_format or len(tensor.shape) != IMAGE_RANK or not isinstance(wanted, int):
            return tensor
        is_nhwc = tensor.shape[1] != wanted == tensor.shape[3]
        return dataclasses.replace(tensor, data_format="NHWC" if is_nhwc else "NCHW", has_format=True)

    return tuple(map(inferred, inputs))


def infer_outputs(
    shapes: Sequence[tuple[int, ...]], outputs: Sequence[Output], inputs: Sequence[Input], follow: bool = False
) -> tuple[Output, ...]:
    """The outputs, each with its format; `shapes` are what the model computes, in its own order.

    An output without a shape is in the model's order, as long as all inputs are; ModelError where a format is needed.
    `follow`: where nothing tells, outputs are in the order of the inputs.
    """
    is_nhwc = any(given.data_format == "NHWC" for given in inputs)
    known: DataFormat | None = ("NHWC" if is_nhwc else "NCHW") if follow else None
    return tuple(_output(tensor, shape, is_nhwc, known) for tensor, shape in zip(outputs, shapes, strict=True))


def _output(tensor: Output, computed: tuple[int, ...], is_nhwc: bool, known: DataFormat | None) -> Output:
    if not _is_open(tensor, computed):
        return tensor
    if tensor.shape is not None:
        return _with_format(tensor, tensor.shape, computed, known)
    if known or not is_nhwc:
        return dataclasses.replace(tensor, data_format=known or tensor.data_format)
    raise _question(tensor, f"an input is NHWC, and the model computes {_text(computed)} in the order NCHW")


def _is_open(tensor: Input | Output, shape: Sequence[int]) -> bool:
    """Whether a tensor's format makes a difference and is not known."""
    return not tensor.has_format and len(shape) == IMAGE_RANK and sum(size > 1 for size in shape[1:]) > 0


def _with_format(tensor: Tensor, shape: tuple[int, ...], sizes: Sizes, known: DataFormat | None = None) -> Tensor:
    """The tensor in the only order that fits; in the model's own where none does, which is then told as an error."""
    fitting = [order for order in ORDERS if _fits(_in_graph_order(shape, order), sizes)]
    if len(fitting) == len(ORDERS) and known:
        return dataclasses.replace(tensor, data_format=known)
    if len(fitting) == len(ORDERS):
        shown = ",".join("?" if size is None else str(size) for size in sizes)
        raise _question(tensor, f"the shape {_text(shape)} fits the model's {shown} in both orders")
    return dataclasses.replace(tensor, data_format=fitting[0]) if fitting else tensor


def _in_graph_order(shape: tuple[int, ...], order: DataFormat) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in TO_NCHW) if order == "NHWC" else shape


def _fits(shape: Sequence[int], sizes: Sizes) -> bool:
    return len(shape) == len(sizes) and all(size in (None, wanted) for wanted, size in zip(shape, sizes, strict=True))


def _question(tensor: Input | Output, why: str) -> ModelError:
    kind = "input" if isinstance(tensor, Input) else "output"
    return ModelError(f"{kind} {tensor.name!r}: {why}; say which with {kind}_data_formats: NHWC or NCHW")


def _sizes(value: onnx.ValueInfoProto) -> Sizes | None:
    declared = value.type.tensor_type
    return [dim.dim_value or None for dim in declared.shape.dim] if declared.HasField("shape") else None


def _text(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape))
