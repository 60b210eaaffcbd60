"""ONNX Runtime's operators of decoders, as its optimiser and model builder write them, in ONNX's.

ONNX Runtime's documentation of its operators defines them so; ONNX's own Attention, RotaryEmbedding and
RMSNormalization (opset 23) do most of the work.
"""

from collections.abc import Mapping, Sequence

from onnx import NodeProto

from runtime.families.attention.onnx_functions import EPSILON, LOWEST, bias_of_mask, later_keys, sum_of_skip
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

_OPSET = 23


def _of_squares(proto: NodeProto, x: str, epsilon: float) -> str:
    options = f"axis = {given(proto, 'axis', -1)}, epsilon = {given(proto, 'epsilon', epsilon):.9g}"
    return f"y = RMSNormalization <{options}> ({x}, gamma) "


def _simplified(proto: NodeProto) -> str:
    return function_text(proto, "x gamma", _of_squares(proto, "x", 1e-5), opset=_OPSET)


def _skip_simplified(proto: NodeProto) -> str:
    """The fourth output is the sum that is normalised."""
    body = sum_of_skip(proto, 3) + _of_squares(proto, "sum", EPSILON)
    return function_text(proto, "x skip gamma bias", body, opset=_OPSET, writes="y mean deviation sum")


def _rotary(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    """`places` are those of all rows, or of the first one."""
    if given(proto, "scale", 1.0) != 1:
        raise unsupported(proto, f"scale {given(proto, 'scale', 1.0)}", 1)
    if given(proto, "is_packed_batching", 0):
        raise unsupported(proto, "is_packed_batching 1", 0)
    x, places, angles, _ = shapes
    body = "ids = Identity (places) "
    if len(places) == 1:
        body = _counted("steps", x[-2]) + constant("rows", [x[0], x[-2]])
        body += "each = Add (steps, places) ids = Expand (each, rows) "
    heads = given(proto, "num_heads", 0) or x[-1] // (2 * angles[-1])
    size, options = given(proto, "rotary_embedding_dim", 0), f", num_heads = {heads}" if len(x) == 3 else ""
    body += _turned("x", "y", f"interleaved = {given(proto, 'interleaved', 0)}, rotary_embedding_dim = {size}{options}")
    return function_text(proto, "x places cos sin", body, opset=_OPSET)


def _counted(name: str, number: int) -> str:
    """A row of whole numbers from 0."""
    return f"{name} = Constant <value = int64[1, {number}] {{{', '.join(map(str, range(number)))}}}> () "


def _turned(x: str, y: str, options: str) -> str:
    """`y`: x, turned by the angles `cos` and `sin` at the places `ids`."""
    return f"{y} = RotaryEmbedding <{options}> ({x}, cos, sin, ids) "


def _by_heads(x: str, shape: Shape, heads: int, y: str = "") -> str:
    """`Xn`, or `y`: rows of joined heads (batch, places, elements) as (batch, heads, places, elements)."""
    sizes = constant(f"{x}_sizes", [*shape[:2], heads, shape[2] // heads])
    return f"{sizes} {x}h = Reshape ({x}r, {x}_sizes) {y or f'{x}n'} = Transpose <perm = [0, 2, 1, 3]> ({x}h) "


def _joined(name: str, is_past: bool) -> str:
    """`Xt`: the keys or values before, where there are any, then the new ones."""
    return f"{name}t = Concat <axis = 2> (past_{name}, {name}n) " if is_past else f"{name}t = Identity ({name}n) "


def _attended(proto: NodeProto, biases: Sequence[str], shape: Shape) -> str:
    """`y` of this shape, with heads joined, from `qn`, `kt` and `vt`; the biases are added to scores."""
    numbers = [(name, given(proto, name, 0.0)) for name in ("scale", "softcap")]
    options = ", ".join(f"{name} = {value:.9g}" for name, value in numbers if value)
    body = "".join(f"b{number} = {_sum(number, bias)} " for number, bias in enumerate(biases))
    inputs = ", ".join(["qn", "kt", "vt", *(f"b{len(biases) - 1}" for _ in biases[:1])])
    body += f"attended = Attention {f'<{options}>' if options else ''} ({inputs}) "
    body += "joined = Transpose <perm = [0, 2, 1, 3]> (attended) " + constant("flat", shape)
    return body + "y = Reshape (joined, flat)"


def _sum(number: int, bias: str) -> str:
    return f"Add (b{number - 1}, {bias})" if number else f"Identity ({bias})"


def _multi_head(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    """Queries are rows of joined heads; so are keys and values, or they are by heads already."""
    for index, what in ((8, "past length"), (9, "cache indirection")):
        refuse_input(proto, index, what)
    absent: Shape = ()
    q, k, v, _, mask, _, past, *_ = *shapes, *[absent] * 8
    heads = given(proto, "num_heads", 0)
    if not k or 5 in (len(q), len(k)):
        raise unsupported(proto, "packed queries, keys or values", "three tensors, as ONNX Runtime's on CPUs")
    if heads < 1 or q[-1] % heads:
        raise unsupported(proto, f"{heads} heads of rows {q}", "whole")
    body = _parted(proto, (q, k, v), heads)
    body += "".join(_joined(name, is_given(proto, 6)) for name in "kv")
    keys = k[-2] + (past[2] if past else 0)
    values = v[-1] * (heads if len(v) == 4 else 1)
    biases = []
    if is_given(proto, 4):
        body, biases = body + bias_of_mask(proto, mask, (q[0], q[1], keys)), ["bias_of_mask"]
    if is_given(proto, 5):
        biases.append("attention_bias")
    if given(proto, "unidirectional", 0):
        body, biases = body + later_keys(q[1], keys), [*biases, "later"]
    body += "present_k = Identity (kt) present_v = Identity (vt) " + _attended(proto, biases, (q[0], q[1], values))
    reads = "q k v bias mask attention_bias past_k past_v"
    return function_text(proto, reads, body, opset=_OPSET, writes="y present_k present_v")


def _parted(proto: NodeProto, shapes: Sequence[Shape], heads: int) -> str:
    """`qn`, `kn`, `vn` of three tensors; the bias counts for those that are rows of joined heads."""
    widths, body = [shape[-1] * (heads if len(shape) == 4 else 1) for shape in shapes], ""
    if is_given(proto, 3):
        body = constant("widths", widths) + "qb, kb, vb = Split <axis = 0> (bias, widths) "
    for x, shape in zip("qkv", shapes, strict=True):
        if len(shape) == 4:
            body += f"{x}n = Identity ({x}) "
        else:
            body += f"{x}r = Add ({x}, {x}b) " if is_given(proto, 3) else f"{x}r = Identity ({x}) "
            body += _by_heads(x, shape, heads)
    return body


def _grouped(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    """Several heads of queries share one of keys; rotary positions are found here.

    `counted` (batch) tells how many keys count, less one. Rows of a cache behind those do not, and in `present_k` and
    `present_v`, which have as many rows as the cache and the new ones together, the new ones take their place.
    """
    q, k, _, past, *_ = shapes
    heads, key_heads = given(proto, "num_heads", 0), given(proto, "kv_num_heads", 0)
    before = past[2] if past else 0
    _check_grouped(proto, before)
    depth = q[-1] // (heads if k else heads + 2 * key_heads)
    widths = [heads * depth, key_heads * depth, key_heads * depth]
    body = "qr = Identity (q) kr = Identity (k) vr = Identity (v) "
    if not k:
        body = constant("widths", widths) + "qr, kr, vr = Split <axis = -1> (q, widths) "
    body += _places(proto, q[1], before)
    turned = "qk" if given(proto, "do_rotary", 0) else ""
    for x, width in zip("qkv", widths, strict=True):
        body += _by_heads(x, (*q[:2], width), width // depth, f"{x}u" if x in turned else "")
    for x in turned:
        options = f"interleaved = {given(proto, 'rotary_interleaved', 0)}, rotary_embedding_dim = {2 * shapes[7][-1]}"
        body += _turned(f"{x}u", f"{x}n", options)
    body += "".join(_joined(x, bool(before)) for x in "kv")
    body += _present((q[0], key_heads, before + q[1], depth), q[1]) if before else _IN_PLACE
    biases = ["unseen", *(["attention_bias"] if is_given(proto, 10) else [])]
    body += _attended(proto, biases, (*q[:2], widths[0]))
    reads = "q k v past_k past_v counted total cos sin place_ids attention_bias"
    return function_text(proto, reads, body, opset=_OPSET, writes="y present_k present_v")


def _check_grouped(proto: NodeProto, before: int) -> None:
    if before:
        refuse_input(proto, 10, "an attention bias beside a cache")
    for index, what in (
        (11, "a sink"),
        (12, "a scale"),
        (13, "a scale"),
        (14, "a norm"),
        (15, "a norm"),
        (16, "lengths"),
    ):
        refuse_input(proto, index, what)
    for name, value in (("smooth_softmax", 0), ("qk_output", 0), ("sliding_window_cache", 0), ("causal", 1)):
        if given(proto, name, value) not in (value, -1):
            raise unsupported(proto, f"{name} {given(proto, name, value)}", value)


def _places(proto: NodeProto, places: int, before: int) -> str:
    """`ids` (batch, places) of queries, and `unseen`, which hides keys behind them, or that do not count."""
    if before:
        body = _counted("old", before) + constant("column", [-1, 1]) + f"new = Constant <value_int = {1 - places}> () "
        body += "long = Cast <to = 7> (counted) less = Add (long, new) begins = Reshape (less, column) "
        body += "never = Constant <value_int = 1073741824> () counts = Less (old, begins) "
        body += "old_ids = Where (counts, old, never) "
    else:
        body = constant("column", [-1, 1]) + "begins = Constant <value = int64[1, 1] {0}> () "
    body += _counted("steps", places) + "found = Add (begins, steps) "
    body += "key_ids = Concat <axis = 1> (old_ids, found) " if before else "key_ids = Identity (found) "
    body += constant("apart", [1, 3]) + constant("across", [1, 2]) + constant("low", LOWEST)
    body += "query_at = Unsqueeze (found, apart) key_at = Unsqueeze (key_ids, across) "
    body += "seen = LessOrEqual (key_at, query_at) "
    window = given(proto, "local_window_size", -1)
    if window >= 0:
        body += f"window = Constant <value_int = {window}> () oldest = Sub (query_at, window) "
        body += "near = Greater (key_at, oldest) shown = And (seen, near) "
    else:
        body += "shown = Identity (seen) "
    body += constant("open", 0.0) + "unseen = Where (shown, open, low) "
    return body + ("ids = Identity (place_ids) " if is_given(proto, 9) else "ids = Identity (found) ")


_IN_PLACE = "present_k = Identity (kt) present_v = Identity (vt) "


def _present(sizes: Shape, places: int) -> str:
    """`present_k` and `present_v` of these sizes: the rows of `kt` and `vt` that count, then zeros."""
    keys = sizes[2]
    body = (
        _counted("rows", keys) + f"skipped = Constant <value_int = {keys - places}> () shift = Sub (skipped, begins) "
    )
    body += "moved = Add (rows, shift) is_old = Less (rows, begins) from = Where (is_old, rows, moved) "
    body += f"last = Constant <value_int = {keys - 1}> () there = Min (from, last) "
    body += f"more = Constant <value_int = {places}> () ends = Add (begins, more) holds = Less (rows, ends) "
    body += constant("zero", 0.0) + constant("sizes", sizes) + constant("outer", [1, 3])
    body += "there_at = Unsqueeze (there, outer) each = Expand (there_at, sizes) holds_at = Unsqueeze (holds, outer) "
    for x in "kv":
        body += f"{x}_there = GatherElements <axis = 2> ({x}t, each) present_{x} = Where (holds_at, {x}_there, zero) "
    return body


ONNX_FUNCTIONS: Mapping[tuple[str, str], ShapedText] = {
    ("", "SimplifiedLayerNormalization"): without_shapes(_simplified),
    **{
        (DOMAIN, op): text
        for op, text in {
            "SkipSimplifiedLayerNormalization": without_shapes(_skip_simplified),
            "RotaryEmbedding": _rotary,
            "MultiHeadAttention": _multi_head,
            "GroupQueryAttention": _grouped,
        }.items()
    },
}
