"""ONNX Runtime's operators of transformers (`com.microsoft`), quantised or not, as functions of ONNX.

ONNX Runtime's documentation of its operators defines them so. Quantised operands become floats, where they are read.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto

from runtime.importers.function_text import (
    DOMAIN,
    Shape,
    ShapedText,
    constant,
    function_text,
    given,
    is_given,
    refuse_input,
    unsupported,
    without_shapes,
)

LOWEST = float(np.finfo(np.float32).min)
_MASKED = -10000.0  # what ONNX Runtime adds to scores that do not count
EPSILON = 1e-12


def bias_of_mask(proto: NodeProto, shape: Shape, sizes: tuple[int, int, int]) -> str:
    """`bias_of_mask` of scores, from what masks keys: their number in each member of the batch, or a mask of them.

    `sizes`: batch, queries, keys.
    """
    batch, queries, length = sizes
    known = {(batch,): [1], (batch, length): [1, 2], (batch, queries, length): [1]}
    if shape not in known:
        raise unsupported(proto, f"a mask of shape {shape}", ", ".join(map(str, known)))
    body = constant("axes", known[shape]) + constant("hidden", given(proto, "mask_filter_value", _MASKED))
    body += constant("open", 0.0)
    if len(shape) == 1:
        body += f"places = Constant <value = int32[1, {length}] {{{', '.join(map(str, range(length)))}}}> () "
        body += "ends = Unsqueeze (mask, axes) end = Cast <to = 6> (ends) shown = Less (places, end) "
        body += constant("wider", [1, 2]) + "wide = Unsqueeze (shown, wider) "
    else:
        body += "nothing = Constant <value = int32 {0}> () whole = Cast <to = 6> (mask) "
        body += "shown = Greater (whole, nothing) wide = Unsqueeze (shown, axes) "
    return body + "bias_of_mask = Where (wide, open, hidden) "


def later_keys(queries: int, keys: int) -> str:
    """`later`: what hides the keys behind each query, the last of which stands at the last key."""
    past = keys - queries
    places = ", ".join(
        "0" if key <= query + past else f"{LOWEST:.9g}" for query in range(queries) for key in range(keys)
    )
    return f"later = Constant <value = float[{queries}, {keys}] {{{places}}}> () "


def _attention_body(proto: NodeProto, shapes: Sequence[Shape], mask: int) -> str:
    """From `xf`, `wf` and `bias` to `y`."""
    batch, length, _ = shapes[0]
    heads, width = given(proto, "num_heads", 0), shapes[1][-1] // 3
    if heads < 1 or shapes[1][-1] % (3 * heads):
        raise unsupported(proto, f"{heads} heads of weights {shapes[1]}", "whole")
    if given(proto, "do_rotary", 0):
        raise unsupported(proto, "do_rotary 1", 0)
    depth = width // heads
    body = "product = MatMul (xf, wf) "
    body += "all = Add (product, bias) " if is_given(proto, 2) else "all = Identity (product) "
    body += "q, k, v = Split <axis = -1, num_outputs = 3> (all) " + constant("sizes", [batch, length, heads, depth])
    for x, perm in zip("qkv", ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True):
        body += f"{x}h = Reshape ({x}, sizes) {x}t = Transpose <perm = {perm}> ({x}h) "
    body += constant("factor", given(proto, "scale", 0.0) or 1.0 / math.sqrt(depth))
    body += "products = MatMul (qt, kt) scores = Mul (products, factor) "
    scores = "scores"
    if is_given(proto, mask):
        body += bias_of_mask(proto, shapes[mask], (batch, length, length)) + "masked = Add (scores, bias_of_mask) "
        scores = "masked"
    if given(proto, "unidirectional", 0):
        body, scores = body + later_keys(length, length) + f"seen = Add ({scores}, later) ", "seen"
    body += f"weights = Softmax <axis = -1> ({scores}) values = MatMul (weights, vt) "
    body += "joined = Transpose <perm = [0, 2, 1, 3]> (values) " + constant("flat", [batch, length, width])
    return body + "y = Reshape (joined, flat)"


def _attention(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    for index, what in ((4, "past"), (5, "attention bias"), (6, "past length")):
        refuse_input(proto, index, what)
    if any(each.name == "qkv_hidden_sizes" for each in proto.attribute):
        raise unsupported(proto, "qkv_hidden_sizes")
    body = f"xf = Identity (x) wf = Identity (w) {_attention_body(proto, shapes, 3)}"
    return function_text(proto, "x w bias mask", body)


def _quantized_attention(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    refuse_input(proto, 8, "past")
    x_zero, w_zero = (f", {name}" if is_given(proto, index) else "" for name, index in (("xz", 6), ("wz", 7)))
    body = f"xf = DequantizeLinear (x, xs{x_zero}) wf = DequantizeLinear <axis = 1> (w, ws{w_zero}) "
    return function_text(proto, "x w bias xs ws mask xz wz", body + _attention_body(proto, shapes, 5))


def _normalized(proto: NodeProto, x: str, gamma: str, beta: str, writes: str = "y") -> str:
    epsilon = given(proto, "epsilon", EPSILON)
    factors = ", ".join(filter(None, (x, gamma, beta)))
    return f"{writes} = LayerNormalization <axis = -1, epsilon = {epsilon:.9g}> ({factors}) "


def _embeddings(proto: NodeProto, shapes: Sequence[Shape], scales: Mapping[str, str]) -> str:
    """Sums rows of tables: of words, of their places, and of their kinds where these are given."""
    length = shapes[0][1]
    body = "word_rows = Gather (word, ids) " + constant("begin", [0]) + constant("end", [length])
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
    return constant("along", [1]) + "counts = ReduceSum <keepdims = 0> (mask, along) "


def _embed(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    refuse_input(proto, 8, "position_ids")
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


def sum_of_skip(proto: NodeProto, bias: int) -> str:
    """`sum` of x, `skip` and, where that input is given, `bias`."""
    return "two = Add (x, skip) " + ("sum = Add (two, bias) " if is_given(proto, bias) else "sum = Identity (two) ")


def _skip_normalized(proto: NodeProto) -> str:
    """The fourth output is the sum that is normalised."""
    body = sum_of_skip(proto, 4) + _normalized(
        proto, "sum", "gamma", "beta" if is_given(proto, 3) else "", "y, mean, deviation"
    )
    return function_text(proto, "x skip gamma beta bias", body, writes="y mean deviation sum")


def _gelu(approximate: str) -> ShapedText:
    def text(proto: NodeProto) -> str:
        body = "v = Add (x, bias) " if is_given(proto, 1) else "v = Identity (x) "
        return function_text(proto, "x bias", f'{body} y = Gelu <approximate = "{approximate}"> (v)')

    return without_shapes(text)


def _quick_gelu(proto: NodeProto) -> str:
    body = constant("alpha", given(proto, "alpha", 1.702)) + "v = Mul (x, alpha) gate = Sigmoid (v) y = Mul (x, gate)"
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
