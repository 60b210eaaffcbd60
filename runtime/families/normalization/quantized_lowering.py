"""Lowers LayerNormalization of rows on activations of eight bits."""

import numpy as np

from runtime.families.normalization.block_kernels import QUANTIZED_NORMALIZATION
from runtime.families.normalization.node import scale_and_shift
from runtime.graph import Node
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import IMAGE_RANK, Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.value import byte_bounds
from runtime.plan.plan import ProfileInfo
from runtime.semantics.quantization import EIGHT_BITS

_MOST_CHANNELS = 32768  # of which sums of squares fit 31 bits


def _serves(builder: Builder, node: Node) -> bool:
    """Rows of whole blocks, each of which is normalised alone."""
    shape = builder.graph.shape(node.inputs[0])
    are_rows = len(shape) != IMAGE_RANK and node.attrs["axes"] == (len(shape) - 1,)
    fits = are_rows and shape[-1] % builder.block == 0 and shape[-1] <= _MOST_CHANNELS
    return fits and node.attrs.get("activation", "fake_quantize") == "fake_quantize"


def _pays(builder: Builder, node: Node) -> bool:
    """Whether rows of floats can be brought into bytes, which takes less than what is gained."""
    known = builder.graph.tensors[node.inputs[0]].quantization
    return known is not None and known.is_whole and known.integers in EIGHT_BITS


def _lower(builder: Builder, node: Node) -> None:
    x, y = builder.read_bytes(node.inputs[0]), builder.write_bytes(builder.result(node))
    assert x.steps and y.steps
    rows, channels = x.shape[:2]
    ends = zip("st", scale_and_shift(builder.graph, node, channels), strict=True)
    s, t = (builder.constant(f"{node.name}:{end}", (data / y.steps.step).astype(np.float32)) for end, (_, data) in ends)
    tensors: Tensors = {"x": x, "s": s, "t": t, "y": y}
    dims = {"rows": rows, "channels": channels, "centered": int(node.attrs["centered"]), "zero": x.steps.zero}
    epsilon = min(node.attrs["epsilon"] / x.steps.step**2, float(np.finfo(np.float32).max))
    floats = {"epsilon": epsilon, **byte_bounds(y.steps, "act_a act_b")}
    shown, defines = ProfileInfo((rows, channels)), {"BLOCK": builder.block}
    builder.launch(QUANTIZED_NORMALIZATION, node.name, node.op, tensors, dims, floats, defines, shown, "eight bits")


QUANTIZED_OPERATORS = {"LayerNormalization": QuantizedOperator(_serves, _lower, _pays, inputs=1)}
