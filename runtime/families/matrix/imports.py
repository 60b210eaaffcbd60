"""Gemm and MatMul: FullyConnected where the right operand is constant, MatMul otherwise."""

from collections.abc import Mapping

import numpy as np
import onnx

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import OnnxWriting, Writer, write_same
from runtime.graph import Array, Node
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


def _gemm(node: OnnxNode, builder: GraphBuilder) -> None:
    a = node.input(0)
    if node.integer("transA", 0):
        a = builder.emit(node, "Transpose", [a], {"perm": (1, 0)})
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    transposed = bool(node.integer("transB", 0))
    if builder.constant(node.input(1)) is None or builder.dtype(a) != np.float32:
        _gemm_at_run_time(node, builder, a, transposed, alpha, beta)
        return
    w = _weights(node, builder, transposed, alpha)
    bias, addend = _bias(node, builder, builder.shape(w)[0], beta)
    if not addend:
        builder.emit(node, "FullyConnected", [a, w, bias], {}, node.output)
        return
    builder.emit(node, "Add", [builder.emit(node, "FullyConnected", [a, w]), addend], {}, node.output)


def _weights(node: OnnxNode, builder: GraphBuilder, transposed: bool, alpha: float) -> str:
    """Name of the weights as [outputs, inputs], times alpha."""
    w = builder.weights(node, 1, "weight matrix")
    if w.ndim != 2:
        raise ModelError(f"{node}: weight matrix '{node.input(1)}' has shape {w.shape}; 2 axes are needed")
    if transposed and alpha == 1:
        return node.input(1)
    rows = w if transposed else w.T  # a view: no copy of a large matrix
    derived = builder.derived(f"{node.input(1)}/weights", rows if alpha == 1 else np.float32(alpha) * rows)
    known = builder.graph.tensors[node.input(1)].quantization
    if alpha == 1 and known is not None:
        builder.describe(derived, known if known.axis is None else known.at(1 - known.axis))
    return derived


def _bias(node: OnnxNode, builder: GraphBuilder, channels: int, beta: float) -> tuple[str, str]:
    """Returns the bias of FullyConnected and the tensor to add after it, both times beta; at least one is empty."""
    if not node.optional(2):
        return "", ""
    value = builder.constant(node.input(2))
    if value is None or (value.size != 1 and (value.shape[-1] != channels or value.size != channels)):
        return "", _scaled(node, builder, node.input(2), beta)
    if beta == 1 and value.shape == (channels,):
        return node.input(2), ""
    bias: Array = np.broadcast_to(builder.weights(node, 2, "bias").reshape(-1), (channels,))
    return builder.derived(f"{node.input(2)}/bias", np.float32(beta) * bias), ""


def _gemm_at_run_time(
    node: OnnxNode, builder: GraphBuilder, a: str, transposed: bool, alpha: float, beta: float
) -> None:
    b = node.input(1)
    if transposed:
        b = builder.emit(node, "Transpose", [b], {"perm": (1, 0)})
    addend = _scaled(node, builder, node.optional(2), beta) if node.optional(2) else ""
    if not addend and alpha == 1:
        builder.emit(node, "MatMul", [a, b], {}, node.output)
        return
    multiplied = builder.emit(node, "MatMul", [a, b])
    if not addend:
        builder.emit(node, "Mul", [multiplied, _factor(node, builder, alpha, multiplied)], {}, node.output)
        return
    builder.emit(node, "Add", [_scaled(node, builder, multiplied, alpha), addend], {}, node.output)


def _scaled(node: OnnxNode, builder: GraphBuilder, tensor: str, factor: float) -> str:
    return tensor if factor == 1 else builder.emit(node, "Mul", [tensor, _factor(node, builder, factor, tensor)])


def _factor(node: OnnxNode, builder: GraphBuilder, factor: float, like: str) -> str:
    return builder.derived(f"{node.output}/factor", np.asarray(factor).astype(builder.dtype(like)))


def _matmul(node: OnnxNode, builder: GraphBuilder) -> None:
    a, b = node.input(0), node.input(1)
    is_matrix = len(builder.shape(a)) > 1 and len(builder.shape(b)) == 2
    if builder.dtype(a) != np.float32 or builder.constant(b) is None or not is_matrix:
        product(Emitter(node, builder), a, b, node.output)
        return
    builder.emit(node, "FullyConnected", [a, _weights(node, builder, False, 1.0)], {}, node.output)


def product(emit: Emitter, a: str, b: str, output: str | None = None) -> str:
    """The product of two tensors as NumPy has it, written to `output`.

    A vector on the left counts as one row, one on the right as one column; the result lacks that axis.
    """
    left, right = emit.shape(a), emit.shape(b)
    if len(left) > 1 and len(right) > 1:
        return emit.op("MatMul", a, b, output=output)
    if not left or not right:
        raise ModelError(f"{emit.node}: shapes {left} and {right} do not multiply")
    rows = emit.reshape(a, (1, *left)) if len(left) == 1 else a
    columns = emit.reshape(b, (*right, 1)) if len(right) == 1 else b
    found = emit.op("MatMul", rows, columns)
    shape = emit.shape(found)
    kept = (*shape[:-2], *shape[-2:-1][: len(left) > 1], *shape[-1:][: len(right) > 1])
    return emit.reshape(found, kept, output)


HANDLERS: Mapping[str, Handler] = {"Gemm": _gemm, "MatMul": _matmul}


def _write_fully_connected(writing: OnnxWriting, node: Node) -> onnx.NodeProto | None:
    """Writes Gemm, which has two axes and no residual; others are left to the project's domain."""
    is_gemm = len(writing.graph.shape(node.output)) == 2 and len(node.inputs) < 4
    return writing.plain(node, "Gemm", node.inputs, transB=1) if is_gemm else None


def _write_matmul(writing: OnnxWriting, node: Node) -> onnx.NodeProto | None:
    """Leaves a product with a constant matrix to the own domain: the importer reads ONNX's as FullyConnected."""
    b = node.inputs[1]
    return None if writing.graph.is_constant(b) and len(writing.graph.shape(b)) == 2 else write_same(writing, node)


WRITERS: Mapping[str, Writer] = {"FullyConnected": _write_fully_connected, "MatMul": _write_matmul}
