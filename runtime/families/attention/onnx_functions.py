"""ONNX Runtime's operators of transformers (`com.microsoft`), quantised or not, as functions of ONNX.

ONNX Runtime's documentation of its operators defines them so. Quantised operands become floats, where they are read.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto

from runtime.errors import UnsupportedError
from runtime.importers.function_text import (
    DOMAIN,
    Shape,
    ShapedText,
    function_text,
    given,
    is_given,
    without_shapes,
)
from runtime.importers.functions import node_name

_LOWEST = float(np.finfo(np.float32).min)
_MASKED = -10000.0  # what ONNX Runtime adds to scores that do not count
_EPSILON = 1e-12


def _refused(proto: NodeProto, index: int, what: str) -> None:
    if is_given(proto, index):
        raise UnsupportedError(f"{proto.op_type} '{node_name(proto)}': {what} '{proto.input[index]}'; supported: none")


def _constant(name: str, value: float | Sequence[int]) -> str:
    kind = f"value_float = {value:.9g}" if isinstance(value, float) else f"value_ints = {list(value)}"
    return f"{name} = Constant <{kind}> () "


def _scores_mask(proto: NodeProto, shape: Shape, sizes: tuple[int, int]) -> str:
    """Adds to `scores` what masks keys: their number in each member of the batch, or a mask of them."""
    batch, length = sizes
    known = {(batch,): [1], (batch, length): [1, 2], (batch, length, length): [1]}
    if shape not in known:
        text = f"{proto.op_type} '{node_name(proto)}': a mask of shape {shape}"
        raise UnsupportedError(f"{text}; supported: {', '.join(map(str, known))}")
    body = _constant("axes", known[shape]) + _constant("hidden", given(proto, "mask_filter_value", _MASKED))
    body += _constant("open", 0.0)
    if len(shape) == 1:
        body += f"places = Constant <value = int32[1, {length}] {{{', '.join(map(str, range(length)))}}}> () "
        body += "ends = Unsqueeze (mask, axes) end = Cast <to = 6> (ends) shown = Less (places, end) "
        body += _constant("wider", [1, 2]) + "wide = Unsqueeze (shown, wider) "
    else:
        body += "nothing = Constant <value = int32 {0}> () whole = Cast <to = 6> (mask) "
        body += "shown = Greater (whole, nothing) wide = Unsqueeze (shown, axes) "
    return body + "bias_of_mask = Where (wide, open, hidden) masked = Add (scores, bias_of_mask) "


def _causal(length: int, scores: str) -> str:
    """Adds what hides the keys behind each query."""
    places = ", ".join("0" if key <= query else f"{_LOWEST:.9g}" for query in range(length) for key in range(length))
    later = f"later = Constant <value = float[{length}, {length}] {{{places}}}> () "
    return f"{later} seen = Add ({scores}, later) "


def _attention_body(proto: NodeProto, shapes: Sequence[Shape], mask: int) -> str:
    """From `xf`, `wf` and `bias` to `y`."""
    batch, length, _ = shapes[0]
    heads, width = given(proto, "num_heads", 0), shapes[1][-1] // 3
    if heads < 1 or shapes[1][-1] % (3 * heads):
        raise UnsupportedError(
            f"{proto.op_type} '{node_name(proto)}': {heads} heads of weights {shapes[1]}; supported: whole"
        )
    if given(proto, "do_rotary", 0):
        raise UnsupportedError(f"{proto.op_type} '{node_name(proto)}': do_rotary 1; supported: 0")
    depth = width // heads
    body = "product = MatMul (xf, wf) "
    body += "all = Add (product, bias) " if is_given(proto, 2) else "all = Identity (product) "
    body += "q, k, v = Split <axis = -1, num_outputs = 3> (all) " + _constant("sizes", [batch, length, heads, depth])
    for x, perm in zip("qkv", ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True):
        body += f"{x}h = Reshape ({x}, sizes) {x}t = Transpose <perm = {perm}> ({x}h) "
    body += _constant("factor", given(proto, "scale", 0.0) or 1.0 / math.sqrt(depth))
    body += "products = MatMul (qt, kt) scores = Mul (products, factor) "
    scores = "scores"
    if is_given(proto, mask):
        body, scores = body + _scores_mask(proto, shapes[mask], (batch, length)), "masked"
    if given(proto, "unidirectional", 0):
        body, scores = body + _causal(length, scores), "seen"
    body += f"weights = Softmax <axis = -1> ({scores}) values = MatMul (weights, vt) "
    body += "joined = Transpose <perm = [0, 2, 1, 3]> (values) " + _constant("flat", [batch, length, width])
    return body + "y = Reshape (joined, flat)"


def _attention(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    for index, what in ((4, "past"), (5, "attention bias"), (6, "past length")):
        _refused(proto, index, what)
    if any(each.name == "qkv_hidden_sizes" for each in proto.attribute):
        raise UnsupportedError(f"{proto.op_type} '{node_name(proto)}': qkv_hidden_sizes; supported: none")
    body = f"xf = Identity (x) wf = Identity (w) {_attention_body(proto, shapes, 3)}"
    return function_text(proto, "x w bias mask", body)


def _quantized_attention(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    _refused(proto, 8, "past")
    x_zero, w_zero = (f", {name}" if is_given(proto, index) else "" for name, index in (("xz", 6), ("wz", 7)))
    body = f"xf = DequantizeLinear (x, xs{x_zero}) wf = DequantizeLinear <axis = 1> (w, ws{w_zero}) "
    return function_text(proto, "x w bias xs ws mask xz wz", body + _attention_body(proto, shapes, 5))


def _normalized(proto: NodeProto, x: str, gamma: str, beta: str, writes: str = "y") -> str:
    epsilon = given(proto, "epsilon", _EPSILON)
    factors = ", ".join(filter(None, (x, gamma, beta)))
    return f"{writes} = LayerNormalization <axis = -1, epsilon = {epsilon:.9g}> ({factors}) "


def _embeddings(proto: NodeProto, shapes: Sequence[Shape], scales: Mapping[str, str]) -> str:
    """Sums rows of tables: of words, of their places, and of their kinds where these are given."""
    length = shapes[0][1]
    body = "word_rows = Gather (word, ids) " + _constant("begin", [0]) + _constant("end", [length])
    body += "place_rows = Slice (place, begin, end, begin) "
    names = ["word", "place"]
    if is_given(proto, 1):
        body, names = body + "kind_rows = Gather (kind, kinds) ", [*names, "kind"]
    for name in names:
        read = f"DequantizeLinear ({name}_rows, {scales[name]})" if name in scales else f"Identity ({name}_rows)"
        body += f"{name}_real = {read} "
    body += "two = Add (word_real, place_real) "
    return body + ("sum = Add (two, kind_real) " if is_given(proto, 1) else "sum = Identity (two) ")


def _mask_counts(proto: NodeProto, index: int, batch: int) -> str:
    """The number of words of each member of the batch that its mask shows; 0 without a mask."""
    if not is_given(proto, index):
        zeros = ", ".join(["0"] * batch)
        return f"counts = Constant <value = int32[{batch}] {{{zeros}}}> () "
    return _constant("along", [1]) + "counts = ReduceSum <keepdims = 0> (mask, along) "


def _embed(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    _refused(proto, 8, "position_ids")
    body = _embeddings(proto, shapes, {}) + _normalized(proto, "sum", "gamma", "beta")
    reads, writes = "ids kinds word place kind gamma beta mask", "y counts sum"
    return function_text(proto, reads, body + _mask_counts(proto, 7, shapes[0][0]), writes=writes)


def _quantized_embed(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    names = ("word", "place", "kind", "gamma", "beta")
    body = _embeddings(proto, shapes, {name: f"{name}_s, {name}_z" for name in names[:3]})
    body += "".join(f"{name}_f = DequantizeLinear ({name}, {name}_s, {name}_z) " for name in names[3:])
    body += _normalized(proto, "sum", "gamma_f", "beta_f") + _mask_counts(proto, 7, shapes[0][0])
    scales = " ".join(f"{name}_{kind}" for kind in "sz" for name in names)
    return function_text(proto, f"ids kinds word place kind gamma beta mask {scales}", body, writes="y counts")


def _skip_normalized(proto: NodeProto) -> str:
    """The fourth output is the sum that is normalised."""
    body = "two = Add (x, skip) " + ("sum = Add (two, bias) " if is_given(proto, 4) else "sum = Identity (two) ")
    body += _normalized(proto, "sum", "gamma", "beta" if is_given(proto, 3) else "", "y, mean, deviation")
    return function_text(proto, "x skip gamma beta bias", body, writes="y mean deviation sum")


def _gelu(approximate: str) -> ShapedText:
    def text(proto: NodeProto) -> str:
        body = "v = Add (x, bias) " if is_given(proto, 1) else "v = Identity (x) "
        return function_text(proto, "x bias", f'{body} y = Gelu <approximate = "{approximate}"> (v)')

    return without_shapes(text)


def _quick_gelu(proto: NodeProto) -> str:
    body = _constant("alpha", given(proto, "alpha", 1.702)) + "v = Mul (x, alpha) gate = Sigmoid (v) y = Mul (x, gate)"
    return function_text(proto, "x", body)


ONNX_FUNCTIONS: Mapping[tuple[str, str], ShapedText] = {
    (DOMAIN, op): text
    for op, text in {
        "Attention": _attention,
        "QAttention": _quantized_attention,
        "EmbedLayerNormalization": _embed,
        "QEmbedLayerNormalization": _quantized_embed,
        "SkipLayerNormalization": without_shapes(_skip_normalized),
        "Gelu": _gelu("none"),
        "BiasGelu": _gelu("none"),
        "FastGelu": _gelu("tanh"),
        "QuickGelu": without_shapes(_quick_gelu),
    }.items()
}
