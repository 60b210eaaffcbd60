"""Quantised operators of ONNX Runtime (`com.microsoft`), as functions of ONNX: floats between integers.

ONNX Runtime's documentation of its operators defines them so. Names of what is read are those of the function's text:
an operand `x` has its scale `xs` and its zero point `xz`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx import NodeProto

from runtime.errors import UnsupportedError
from runtime.importers.function_text import (
    DOMAIN,
    OPSET,
    FunctionText,
    Shape,
    ShapedText,
    function_text,
    given,
    is_given,
    without_shapes,
)
from runtime.importers.functions import node_name


def _load(*operands: str) -> str:
    return " ".join(f"{x}f = DequantizeLinear ({x}, {x}s, {x}z)" for x in operands)


_STORE = "y = QuantizeLinear (yf, ys, yz)"


def _binary(op: str) -> FunctionText:
    return lambda proto: function_text(proto, "a as az b bs bz ys yz", f"{_load('a', 'b')} yf = {op} (af, bf) {_STORE}")


def _unary(op: str, attributes: str = "") -> FunctionText:
    """Of one operand; `attributes`: those that the node's own have, with their kinds in the parser's words."""
    passed = ", ".join(f"{kind} = @{kind.split(':')[0]}" for kind in attributes.split())
    names = " ".join(kind.split(":")[0] for kind in attributes.split())

    def text(proto: NodeProto) -> str:
        call = f"yf = {op} <{passed}> (xf)" if passed else f"yf = {op} (xf)"
        if given(proto, "channels_last", 0):
            call = f"xt = Transpose <perm = [0, 3, 1, 2]> (xf) {call.replace('yf', 'yt').replace('(xf)', '(xt)')} "
            call += "yf = Transpose <perm = [0, 2, 3, 1]> (yt)"
        return function_text(proto, "x xs xz ys yz", f"{_load('x')} {call} {_STORE}", names)

    return text


def _softmax(proto: NodeProto) -> str:
    """`opset`: that whose Softmax it is, which was of two axes before 13."""
    opset = OPSET if given(proto, "opset", OPSET) >= 13 else 11
    call = f"yf = Softmax <axis = {given(proto, 'axis', -1)}> (xf)"
    return function_text(proto, "x xs xz ys yz", f"{_load('x')} {call} {_STORE}", "axis opset", opset)


def _gemm(proto: NodeProto) -> str:
    """The bias is in steps of the product of both scales and alpha; without a scale the result stays in floats."""
    body = "af = DequantizeLinear (a, as, az) "
    body += f"bf = DequantizeLinear <axis = {0 if given(proto, 'transB', 0) else 1}> (b, bs, bz) "
    gemm = "Gemm <alpha: float = @alpha, transA: int = @transA, transB: int = @transB>"
    reads = "af, bf"
    if is_given(proto, 6):
        alpha = given(proto, "alpha", 1.0)
        body += f"scales = Mul (as, bs) alpha = Constant <value_float = {alpha:.9g}> () "
        body += "ci = DequantizeLinear <axis = -1> (c, scales) cf = Mul (ci, alpha) "
        reads += ", cf"
    is_rounded = is_given(proto, 7)
    body += f"{'yf' if is_rounded else 'y'} = {gemm} ({reads}) {_STORE if is_rounded else ''}"
    return function_text(proto, "a as az b bs bz c ys yz", body, "alpha transA transB")


def _concat(proto: NodeProto) -> str:
    count = (len(proto.input) - 2) // 3
    names = [f"x{index}" for index in range(count)]
    body = f"{_load(*names)} yf = Concat <axis: int = @axis> ({', '.join(f'{x}f' for x in names)}) {_STORE}"
    return function_text(proto, " ".join(["ys yz", *(f"{x} {x}s {x}z" for x in names)]), body, "axis")


def _where(proto: NodeProto) -> str:
    body = f"{_load('a', 'b')} yf = Where (condition, af, bf) {_STORE}"
    return function_text(proto, "condition a as az b bs bz ys yz", body)


def _scaled_product(before: str, has_bias: bool) -> str:
    """A product of integers, in floats; what their scales make of `b` is not needed, but checked so."""
    body = f"{before} unread = DequantizeLinear <axis = -1> (b, bs, bz) "
    body += "whole = MatMulInteger (a, b, az, bz) sums = Cast <to = 1> (whole) scale = Mul (as, bs) "
    return body + ("z = Mul (sums, scale) y = Add (z, bias)" if has_bias else "y = Mul (sums, scale)")


def _integers_to_float(proto: NodeProto) -> str:
    body = _scaled_product("also = DequantizeLinear (a, as, az)", is_given(proto, 6))
    return function_text(proto, "a b as bs az bz bias", body)


def _dynamic_product(proto: NodeProto) -> str:
    before = "a, as, az = DynamicQuantizeLinear (x)"
    return function_text(proto, "x b bs bz bias", _scaled_product(before, is_given(proto, 4)))


def _linear(op: str) -> FunctionText:
    """ONNX's own operator, which knew no integers of 16 and 4 bits when ONNX Runtime had this one."""
    return lambda proto: function_text(proto, "x s z", f"y = {op} <axis: int = @axis> (x, s, z)", "axis")


def _few_bits(proto: NodeProto, shapes: Sequence[Shape]) -> str:
    """A product with weights of few bits, b [rows][blocks of columns][bytes], the first in the lowest bits.

    Scales and zero points are of blocks. Zero points are integers as the weights are, or floats, one for each block.
    """
    rows, columns, block = (given(proto, name, 0) for name in ("N", "K", "block_size"))
    if (bits := given(proto, "bits", 4)) not in (4, 8):
        raise UnsupportedError(f"{proto.op_type} '{node_name(proto)}': bits {bits}; supported: 4, 8")
    if is_given(proto, 4):
        raise UnsupportedError(f"{proto.op_type} '{node_name(proto)}': g_idx '{proto.input[4]}'; supported: none")
    blocks = -(-columns // block)

    def parted(source: str, target: str, shape: list[int]) -> str:
        last = f"{target}l = Constant <value_ints = [-1]> () {target}s = Constant <value_ints = {shape}> () "
        if bits == 8:
            return f"{last} {target}p = Cast <to = 7> ({source}) {target} = Reshape ({target}p, {target}s) "
        pair = f"{target}i = Cast <to = 7> ({source}) {target}n = Constant <value_int = 16> () "
        pair += f"{target}a = Mod ({target}i, {target}n) {target}b = Div ({target}i, {target}n) "
        pair += f"{target}c = Unsqueeze ({target}a, {target}l) {target}d = Unsqueeze ({target}b, {target}l) "
        pair += f"{target}p = Concat <axis = -1> ({target}c, {target}d) "
        return f"{last} {pair} {target} = Reshape ({target}p, {target}s) "

    body = parted("b", "q", [rows, blocks, block]) + "qf = Cast <to = 1> (q) "
    body += f"each = Constant <value_ints = {[rows, blocks, 1]}> () start = Constant <value_ints = [0]> () "
    body += "second = Constant <value_ints = [1]> () "
    per_row = -(-blocks * bits // 8)
    if not is_given(proto, 3):
        body += f"zf = Constant <value_float = {float(2 ** (bits - 1))}> () "
    elif bits == 8 or math.prod(shapes[3]) != rows * per_row:
        body += "zo = Cast <to = 1> (z) zf = Reshape (zo, each) "
    else:
        body += f"zr = Constant <value_ints = {[rows, per_row]}> () zb = Reshape (z, zr) "
        body += parted("zb", "zw", [rows, 2 * per_row]) + f"zend = Constant <value_ints = {[blocks]}> () "
        body += "zc = Slice (zw, start, zend, second) zo = Cast <to = 1> (zc) zf = Reshape (zo, each) "
    body += "centred = Sub (qf, zf) steps = Reshape (s, each) real = Mul (centred, steps) "
    body += f"wide = Constant <value_ints = {[rows, blocks * block]}> () flat = Reshape (real, wide) "
    body += f"end = Constant <value_ints = {[columns]}> () own = Slice (flat, start, end, second) "
    body += "turned = Transpose <perm = [1, 0]> (own) "
    body += "sum = MatMul (a, turned) y = Add (sum, bias)" if is_given(proto, 5) else "y = MatMul (a, turned)"
    return function_text(proto, "a b s z g bias", body, "K N bits block_size accuracy_level weight_prepacked")


_POOL = "auto_pad:string ceil_mode:int count_include_pad:int kernel_shape:ints pads:ints strides:ints"
ONNX_FUNCTIONS: Mapping[tuple[str, str], ShapedText] = {
    (DOMAIN, op): without_shapes(text)
    for op, text in {
        "QLinearAdd": _binary("Add"),
        "QLinearMul": _binary("Mul"),
        "QLinearSigmoid": _unary("Sigmoid"),
        "QLinearLeakyRelu": _unary("LeakyRelu", "alpha:float"),
        "QLinearAveragePool": _unary("AveragePool", _POOL),
        "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
        "QLinearSoftmax": _softmax,
        "QLinearConcat": _concat,
        "QLinearWhere": _where,
        "QGemm": _gemm,
        "MatMulIntegerToFloat": _integers_to_float,
        "DynamicQuantizeMatMul": _dynamic_product,
        "QuantizeLinear": _linear("QuantizeLinear"),
        "DequantizeLinear": _linear("DequantizeLinear"),
    }.items()
} | {(DOMAIN, "MatMulNBits"): _few_bits}
