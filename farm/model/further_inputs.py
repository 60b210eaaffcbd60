"""Draws further inputs for a model within the ranges that its inputs are declared to have: noise, and their edges."""

import zlib
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx

from farm.config.deployment import Input
from runtime.graph import Array

Inputs = Mapping[str, Array]

SEED, NUDGE_SEED = 2, 3
DEVIATIONS = 3  # of the normal noise, from the middle to the ends of the range, where it is cut
SCALE_NUDGE = 2.0**-20  # as a share; sums of a hundred floats differ so by their order
SCALES = {
    "QuantizeLinear": (1,),
    "DequantizeLinear": (1,),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (1, 4, 6)),
}
NUDGE = 2.0**-11  # half a step of half precision, as a share of the largest value of the range


def further_inputs(tensors: Sequence[Input], own: Inputs, given: Collection[str]) -> dict[str, Inputs]:
    """Inputs by what they are called, for what the model has not been `given`: all else is as in its `own`.

    Integers are drawn anew within their range, and have no edges: the highest index may be none.
    """
    free = [tensor for tensor in tensors if tensor.name not in given]
    sets: dict[str, dict[str, Array]] = {"normal noise": {tensor.name: _normal(tensor) for tensor in free}}
    floats = _floats(free)
    edges = {tensor.name: tensor.value_range for tensor in floats}
    sets["the lowest values"] = {tensor.name: _constant(tensor, edges[tensor.name][0]) for tensor in floats}
    sets["the highest values"] = {tensor.name: _constant(tensor, edges[tensor.name][1]) for tensor in floats}
    sets["zeros"] = {name: np.zeros_like(own[name]) for name, (low, high) in edges.items() if low < 0 < high}
    changed = {
        what: {name: value for name, value in values.items() if not np.array_equal(value, own[name])}
        for what, values in sets.items()
    }
    return {what: {**own, **values} for what, values in changed.items() if values}


def nudged(
    tensors: Sequence[Input], inputs: Inputs, given: Collection[str], share: float = NUDGE, number: int = 0
) -> Inputs:
    """The inputs, each element of free floats moved at random by up to a share of the largest value of its range.

    `number`: of one such movement among others.
    """
    moved = dict(inputs)
    for tensor in _floats([tensor for tensor in tensors if tensor.name not in given]):
        reach = share * max(map(abs, tensor.value_range))
        noise = generator(NUDGE_SEED + number, tensor).uniform(-reach, reach, tensor.shape)
        moved[tensor.name] = (inputs[tensor.name] + noise).astype(tensor.data_type)
    return moved


def with_nudged_scales(model: onnx.ModelProto, number: int) -> onnx.ModelProto:
    """The model with each constant scale of its quantised tensors moved at random, by what rounding a float may."""
    random = np.random.default_rng([NUDGE_SEED, number])
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    places = ((node, SCALES.get(node.op_type, ())) for node in model.graph.node)
    names = {node.input[place] for node, of_operator in places for place in of_operator}
    for tensor in moved.graph.initializer:
        if tensor.name in names and tensor.data_type == onnx.TensorProto.FLOAT:
            scale = onnx.numpy_helper.to_array(tensor)
            noise = random.uniform(-SCALE_NUDGE, SCALE_NUDGE, scale.shape)
            tensor.CopyFrom(onnx.numpy_helper.from_array((scale * (1 + noise)).astype(scale.dtype), tensor.name))
    return moved


def generator(seed: int, tensor: Input) -> np.random.Generator:
    """Random numbers of a tensor, the same in every run: they hang on its name."""
    return np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])


def _floats(tensors: Sequence[Input]) -> list[Input]:
    return [tensor for tensor in tensors if np.dtype(tensor.data_type).kind == "f"]


def _normal(tensor: Input) -> Array:
    """Normal noise in the middle of the range; integers and truth values are uniform in it."""
    random, (low, high) = generator(SEED, tensor), tensor.value_range
    if tensor.data_type == "bool":
        return random.random(tensor.shape) > 0.5
    if np.dtype(tensor.data_type).kind != "f":
        return random.uniform(low, high, tensor.shape).astype(tensor.data_type)
    noise = random.normal((low + high) / 2, (high - low) / (2 * DEVIATIONS), tensor.shape)
    return noise.clip(low, high).astype(tensor.data_type)


def _constant(tensor: Input, value: float) -> Array:
    return np.full(tensor.shape, value, tensor.data_type)
