"""Lowers FullyConnected and MatMul, on row-major matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.families.matrix.byte_products import MOST_PRODUCTS, ByteProduct, bias_of, byte_product
from runtime.families.matrix.loops import product_loops
from runtime.families.matrix.row_buffer_lowering import RowProduct, row_product
from runtime.graph import Node
from runtime.kernels.codes import Residual
from runtime.layout.integer_rows import integer_rows
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import PIXEL_BYTES, Builder, node_error
from runtime.lowering.launch import Rows, Tensors
from runtime.lowering.value import Value, row_major
from runtime.plan.plan import ProfileInfo
from runtime.semantics.generic_forms import generic_form
from runtime.types import Storage

MANY_ROWS, AVX512_ROWS = 4, 2  # fewer fill no tile; with AVX-512 there are some of two and three rows


def lower_fully_connected(builder: Builder, node: Node) -> None:
    """Lowers FullyConnected: y[..., o] = activation(sum_k x[..., k] w[o, k] + b[o] (+ or * residual[..., o]))."""
    row = row_product(builder, node)
    weights, bias = row.weights, row.bias
    layers, out_c, in_c = weights.shape
    product, rows = None, Rows(node.inputs[1], weights)
    if builder.reads_bytes(node):
        found = integer_rows(weights)
        assert found
        product = byte_product(builder, node, found.integers, found.scales.reshape(-1), bias)
        bias, rows = product.bias, Rows(node.inputs[1], weights, product.rows)
    x = builder.read_bytes(row.x) if product else builder.read(row.x, Storage.FLAT)
    y = builder.write_bytes(node.output) if builder.in_bytes(node.output) else builder.write(node.output, Storage.FLAT)
    tensors: Tensors = {"x": x, "w": rows, "y": y}
    if row.residual:
        tensors["residual"] = builder.read(row.residual, Storage.FLAT)
    tensors["b"] = bias_of(builder, node, bias)
    dims = {"rows": math.prod(x.shape[:-1]), "in_c": in_c, "out_c": out_c}
    shown = ProfileInfo(y.shape, (layers * out_c, in_c))
    emit_fully_connected(builder, node, tensors, dims, shown, row.joined, product, row)


def takes_bytes(builder: Builder, node: Node) -> bool:
    """Whether rows in bytes meet integers with a scale for each row, with nothing joined to the product."""
    weights = builder.graph.constants.get(node.inputs[1])
    if weights is None or any(node.inputs[3:]) or builder.graph.tensors[node.inputs[0]].quantization is None:
        return False
    found, in_c = integer_rows(weights[None]), weights.shape[1]
    return found is not None and not found.group and in_c % PIXEL_BYTES == 0 and in_c <= MOST_PRODUCTS


def emit_fully_connected(
    builder: Builder,
    node: Node,
    tensors: Tensors,
    dims: Mapping[str, int],
    shown: ProfileInfo,
    joined: Residual = Residual.NONE,
    product: ByteProduct | None = None,
    row: RowProduct | None = None,
) -> None:
    """Emits the product of dense rows x with packed rows w, joined with a residual of its shape; options and activation
    are those of `row`.

    Many rows are the pixels of a 1x1 convolution, whose tiles use what they load for several; few have a kernel that
    reads the weights in long runs.
    """
    code, numbers = activation_code(row.attrs if row else node.attrs)
    kernel, defines = "fully_connected", {"ACTIVATION": code, "RESIDUAL": int(joined), **(row.defines if row else {})}
    if product:
        defines, numbers = defines | product.defines, numbers | product.numbers
    tensors = {"residual": tensors["x"]} | tensors
    if dims["rows"] >= (AVX512_ROWS if "avx512" in builder.target.gpu_family else MANY_ROWS):
        kernel, widths = "conv1x1", {"x": "in_c", "residual": "out_c" if joined else "in_c", "y": "out_c"}
        tensors |= {name: _as_pixels(tensors[name], dims["rows"], dims[width]) for name, width in widths.items()}
        dims = {**dims, "pixels": dims["rows"]}
    builder.launch(kernel, node.name, "FullyConnected", tensors, dims, numbers, defines, shown)


def _as_pixels(rows: Value | Rows, count: int, width: int) -> Value:
    """The memory of dense rows as an image of so many pixels."""
    assert isinstance(rows, Value)
    return Value(rows.name, (count, width, 1, 1), Storage.NHWC, rows.element, width, rows)


def lower_matmul(builder: Builder, node: Node) -> None:
    """Lowers MatMul of stacks of matrices that broadcast in up to three loops."""
    shapes = [builder.graph.shape(name) for name in node.inputs]
    form = generic_form("MatMul", shapes, np.dtype(np.float32), {})
    if form is None or not emit_product(builder, node, form[1]):
        raise node_error(node, f"stacks of shapes {shapes[0][:-2]} and {shapes[1][:-2]} that need too many loops")


def emit_product(builder: Builder, node: Node, attributes: Mapping[str, Any]) -> bool:
    """Emits a StridedProduct of float32 as a launch of `matmul`; False, and nothing, where its loops are others."""
    if any(builder.graph.tensors[name].dtype != np.float32 for name in node.inputs):
        return False
    shape, summed, a_strides, b_strides = (attributes[name] for name in ("shape", "summed", "a_strides", "b_strides"))
    dims = product_loops(shape, summed, a_strides, b_strides, row_major(shape))
    if dims is None or (builder.on_cpu and not _suits_cpu(dims)):
        return False
    a, b = (builder.read(name, Storage.FLAT) for name in node.inputs)
    y = builder.write(node.output, Storage.FLAT)
    builder.launch("matmul", node.name, "MatMul", {"a": a, "b": b, "y": y}, dims, shown=ProfileInfo(y.shape))
    return True


def _suits_cpu(dims: Mapping[str, int]) -> bool:
    """Whether rows of a and of the output are runs of neighbours, as farmrt's operator needs."""
    return (dims["k"] == 1 or dims["ak"] == 1) and (dims["n"] == 1 or dims["yn"] == 1)


BUFFER_LOWERINGS = {"FullyConnected": lower_fully_connected, "MatMul": lower_matmul}
BYTE_OPERATORS = {"FullyConnected": QuantizedOperator(takes_bytes, lower_fully_connected, rounds=False, inputs=1)}
