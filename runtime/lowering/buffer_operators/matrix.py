"""Lowers FullyConnected and MatMul, on row-major matrices."""

from __future__ import annotations

import math

import numpy as np

from runtime.graph import Node
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder, Rows, Tensors, node_error
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_fully_connected(builder: Builder, node: Node) -> None:
    """Lowers FullyConnected: y[n, o] = activation(sum_k x[n, k] w[o, k] + b[o])."""
    x, y = builder.read(node.inputs[0], Storage.FLAT), builder.write(node.output, Storage.FLAT)
    weights = builder.graph.constants[node.inputs[1]]
    out_c, in_c = weights.shape
    bias = builder.graph.constants[node.input(2)] if node.input(2) else np.zeros(out_c, np.float32)
    code, numbers = activation_code(node.attrs)
    tensors: Tensors = {"x": x, "w": Rows(node.inputs[1], weights[None]), "y": y}
    tensors["b"] = builder.constant(node.input(2) or f"{node.name}:bias", bias)
    dims = {"rows": x.shape[0], "in_c": in_c, "out_c": out_c}
    shown = ProfileInfo(y.shape, weights.shape)
    defines = {"ACTIVATION": code}
    builder.launch("fully_connected", node.name, "FullyConnected", tensors, dims, numbers, defines, shown)


def lower_matmul(builder: Builder, node: Node) -> None:
    """Lowers MatMul of two stacks of the same number of matrices, or of a stack and a single matrix."""
    a, b = (builder.read(name, Storage.FLAT) for name in node.inputs)
    y = builder.write(node.output, Storage.FLAT)
    stacks = [math.prod(value.shape[:-2]) for value in (a, b)]
    batch = math.prod(y.shape[:-2])
    if any(stack not in (1, batch) for stack in stacks):
        raise node_error(
            node, f"stacks of shapes {a.shape[:-2]} and {b.shape[:-2]}; equal ones or one matrix are supported"
        )
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    dims = {"batch": batch, "m": m, "k": k, "n": n}
    dims |= {"a_batch_stride": m * k if stacks[0] > 1 else 0, "b_batch_stride": k * n if stacks[1] > 1 else 0}
    builder.launch("matmul", node.name, "MatMul", {"a": a, "b": b, "y": y}, dims, shown=ProfileInfo(y.shape))


LOWERINGS = {"FullyConnected": lower_fully_connected, "MatMul": lower_matmul}
