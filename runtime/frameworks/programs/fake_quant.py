"""TensorFlow's FakeQuantWithMinMax operators as QuantizeLinear and DequantizeLinear, of any width and range.

tf2onnx has no more of them than eight bits of a whole tensor whose range begins at or below 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from runtime.errors import FarmError, ModelError, UnsupportedError

Array = npt.NDArray[Any]

QUANTIZED_BITS = 8


def range_with_zero(low: Array, high: Array, bits: int, is_narrow: bool) -> tuple[Array, Array, int, int]:
    """Scale and zero point of a range, moved so that 0 is a step, and the least and the greatest step."""
    least, most = int(is_narrow), 2**bits - 1
    scale = (high - low) / np.float32(most - least)
    zero = np.clip(np.floor(least - low / scale + np.float32(0.5)), least, most)
    return scale.astype(np.float32), zero, least, most


def _convert(graph: Any, node: Any, name: str) -> None:
    """Puts others in the place of a node of tf2onnx's graph."""
    bits, is_narrow = (node.get_attr_value(key, default) for key, default in (("num_bits", 8), ("narrow_range", 0)))
    low, high = _range(node)
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise ModelError(f"node '{name}' ({node.type}): its range is {low.min():g} to {high.max():g}; train it again")
    scale, zero, least, most = range_with_zero(low, high, bits, bool(is_narrow))
    x, output, shape = node.input[0], node.output[0], graph.get_shape(node.output[0])
    graph.remove_node(name)

    def number(value: Array, kind: Any = np.float32) -> str:
        made: str = graph.make_const(f"{name}/farm{len(graph.get_nodes())}", np.asarray(value, kind)).output[0]
        return made

    def add(op: str, *inputs: str, last: bool = False, kind: int = TensorProto.FLOAT, **attributes: Any) -> str:
        given = {"outputs": [output]} if last else {}
        made = graph.make_node(op, list(inputs), attr=attributes, shapes=[shape], dtypes=[kind], **given)
        written: str = made.output[0]
        return written

    if bits > QUANTIZED_BITS:
        steps = add("Round", add("Div", x, number(scale)))
        limited = add("Min", add("Max", steps, number(least - zero)), number(most - zero))
        add("Mul", limited, number(scale), last=True)
        return
    if is_narrow or bits < QUANTIZED_BITS:
        x = add("Min", add("Max", x, number((least - zero) * scale)), number((most - zero) * scale))
    axis: dict[str, Any] = {"axis": len(shape) - 1} if zero.ndim else {}
    parameters = number(scale), number(zero, np.uint8)
    whole = add("QuantizeLinear", x, *parameters, kind=TensorProto.UINT8, **axis)
    add("DequantizeLinear", whole, *parameters, last=True, **axis)


def _range(node: Any) -> tuple[Array, Array]:
    if node.type == "FakeQuantWithMinMaxArgs":
        low, high = (node.get_attr_value(key, default) for key, default in (("min", -6.0), ("max", 6.0)))
        return np.array(low, np.float32), np.array(high, np.float32)
    if not all(each.is_const() for each in node.inputs[1:3]):
        raise UnsupportedError(f"node '{node.name}' ({node.type}): its range is computed; freeze it to constants")
    low, high = (np.asarray(each.get_tensor_value(as_list=False), np.float32) for each in node.inputs[1:3])
    return low, high


_OPERATORS = ("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")


def handlers(refusals: list[FarmError]) -> dict[str, tuple[Callable[..., None], list[Any]]]:
    """What tf2onnx calls for each operator; `refusals` gets why a node has no form, since tf2onnx goes on then."""

    def convert(graph: Any, node: Any, name: str, arguments: Any) -> None:
        try:
            _convert(graph, node, name)
        except FarmError as error:
            refusals.append(error)

    return {name: (convert, []) for name in _OPERATORS}
