"""How MaxPool and AveragePool are lowered to buffers, images and blocks of channels, and at which sizes measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from runtime.families.pooling.definition import BLOCKED_POOL, QUANTIZED_POOL
from runtime.graph import Graph, Node
from runtime.kernels.codes import BYTES_FIXED, INPUT_IN_BYTES, OUTPUT_IN_BYTES, Pooling
from runtime.lowering.blocks import BlockedOperator, QuantizedOperator, any_image
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit
from runtime.lowering.value import Steps, byte_bounds
from runtime.operators.case import OperatorCase, in_bytes, shape_text
from runtime.oracle.fixed_point import fixed_point_of, mean_factor
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_QUOTIENT, _PRODUCT = 1, 2  # means by fixed point (rt_quantized_pool)
_MOST_OF_QUOTIENT = 1 << 14  # elements of a window whose mean a quotient of floats has exactly


def _dims(graph: Graph, node: Node) -> dict[str, int]:
    """Returns the kernel's integer arguments: window, strides, pads, and the extents of input and output."""
    attrs = node.attrs
    n, channels, in_h, in_w = graph.shape(node.inputs[0])
    out_h, out_w = graph.shape(node.output)[2:]
    dims = {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}
    dims |= {"k_h": attrs["kernel"][0], "k_w": attrs["kernel"][1]}
    dims |= {"stride_h": attrs["strides"][0], "stride_w": attrs["strides"][1]}
    dims |= {"pad_t": attrs["pads"][0], "pad_l": attrs["pads"][1], "dil_h": 1, "dil_w": 1}
    return dims | {"count_include_pad": int(attrs.get("count_include_pad", False))}


def _kind(node: Node) -> Pooling:
    """Returns the value of the kernel's POOL option."""
    return Pooling.MAX if node.op == "MaxPool" else Pooling.AVERAGE


def _shown(graph: Graph, node: Node) -> ProfileInfo:
    """Returns what profiles print of a pooling node."""
    attrs = node.attrs
    return ProfileInfo(graph.shape(node.output), tuple(attrs["kernel"]), tuple(attrs["strides"]), tuple(attrs["pads"]))


def _on_buffers(builder: Builder, node: Node) -> None:
    """One launch over NHWC buffers."""
    tensors = {"x": builder.read(node.inputs[0], Storage.NHWC), "y": builder.write(node.output, Storage.NHWC)}
    shown = _shown(builder.graph, node)
    defines = {"POOL": _kind(node)}
    builder.launch("pool", node.name, "Pooling", tensors, _dims(builder.graph, node), None, defines, shown)


def _on_images(builder: Builder, node: Node) -> str:
    """One launch on images; returns why not."""
    defines, shown = {"POOL": _kind(node)}, _shown(builder.graph, node)
    return emit(builder, node, "pool", "Pooling", _dims(builder.graph, node), defines=defines, shown=shown)


def _on_blocks(builder: Builder, node: Node) -> None:
    """One step on blocked activations."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    defines = {"POOL": _kind(node), "BLOCK": builder.block}
    dims, shown = _dims(builder.graph, node), _shown(builder.graph, node)
    builder.launch(BLOCKED_POOL, node.name, "Pooling", {"x": x, "y": y}, dims, None, defines, shown)


def emit_bytes(builder: Builder, node: Node, kind: Pooling, dims: dict[str, int], shown: ProfileInfo) -> None:
    """One step on activations of eight bits, in blocks on a CPU."""
    x, y = builder.read_bytes(node.inputs[0]), builder.write_bytes(builder.result(node))
    assert x.steps and y.steps
    defines, numbers = {"POOL": int(kind), "ZERO": x.steps.zero}, {"scale": x.steps.step / y.steps.step}
    tensors, ends = {"x": x, "y": y}, y.steps
    found = fixed_point_of(builder.graph, node)
    multiplier = shift = np.zeros((), np.int64)
    if found and node.op == "AveragePool":  # of the integers themselves
        defines["ZERO"] = zero = -int(np.iinfo(found.target.integers).min)
        ends = Steps(y.steps.step, zero)
    elif found:
        multiplier, shift = mean_factor(found, dims["k_h"] * dims["k_w"])
    dims |= {"multiplier": int(multiplier), "shift": int(shift)}
    if builder.target.memory != "cpu":
        defines["BYTES"] = INPUT_IN_BYTES | OUTPUT_IN_BYTES | BYTES_FIXED * (found is not None)
        numbers |= byte_bounds(ends, "act_a act_b")
        builder.launch("pool_bytes", node.name, "Pooling", tensors, dims, numbers, defines, shown, "eight bits")
        return
    defines["BLOCK"] = builder.block
    numbers |= byte_bounds(ends, "low high")
    dims["fixed"] = 0 if found is None else _QUOTIENT if node.op == "AveragePool" else _PRODUCT
    builder.launch(QUANTIZED_POOL, node.name, "Pooling", tensors, dims, numbers, defines, shown, "eight bits")


def _serves_bytes(builder: Builder, node: Node) -> bool:
    """Fixed point is for windows that are not too large."""
    return math.prod(node.attrs["kernel"]) <= _MOST_OF_QUOTIENT or not fixed_point_of(builder.graph, node)


def _on_bytes(builder: Builder, node: Node) -> None:
    emit_bytes(builder, node, _kind(node), _dims(builder.graph, node), _shown(builder.graph, node))


def _pool(op: str, c: int, size: int, k: int, stride: int, pad: int) -> OperatorCase:
    attrs: dict[str, Any] = {"kernel": (k, k), "strides": (stride,) * 2, "pads": (pad,) * 4}
    attrs |= {"count_include_pad": False} if op == "AveragePool" else {}
    x = (1, c, size, size)
    return OperatorCase(f"{op}_{shape_text(x)}_K{k}x{k}S{stride}x{stride}", op, (x,), (), attrs)


_POOLS = ("MaxPool", "AveragePool")
BUFFER_LOWERINGS = dict.fromkeys(_POOLS, _on_buffers)
IMAGE_LOWERINGS = dict.fromkeys(_POOLS, _on_images)
BLOCKED_OPERATORS = dict.fromkeys(_POOLS, BlockedOperator(any_image, _on_blocks))
QUANTIZED_OPERATORS = dict.fromkeys(_POOLS, QuantizedOperator(_serves_bytes, _on_bytes))
BYTE_OPERATORS = QUANTIZED_OPERATORS
OPBENCH_CASES = (
    _pool("MaxPool", 64, 112, 3, 2, 1),
    _pool("AveragePool", 128, 28, 2, 2, 0),
    in_bytes(_pool("MaxPool", 64, 112, 3, 2, 1)),
)
