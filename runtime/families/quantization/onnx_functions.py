"""Quantised operators of ONNX Runtime (`com.microsoft`), as functions of ONNX: floats between integers.

ONNX Runtime's documentation of its operators defines them so. Names of what is read are those of the function's text:
an operand `x` has its scale `xs` and its zero point `xz`.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from runtime.importers.function_text import (
    DOMAIN,
    OPSET,
    FunctionText,
    ShapedText,
    function_text,
    given,
    is_given,
    without_shapes,
)


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
        body += f"ci = Cast <to = 1> (c) alpha = Constant <value_float = {alpha:.9g}> () "
        body += "scales = Mul (as, bs) steps = Mul (scales, alpha) cf = Mul (ci, steps) "
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
    """A product of integers, in floats."""
    body = f"{before} whole = MatMulInteger (a, b, az, bz) sums = Cast <to = 1> (whole) scale = Mul (as, bs) "
    return body + ("z = Mul (sums, scale) y = Add (z, bias)" if has_bias else "y = Mul (sums, scale)")


def _integers_to_float(proto: NodeProto) -> str:
    return function_text(proto, "a b as bs az bz bias", _scaled_product("", is_given(proto, 6)))


def _dynamic_product(proto: NodeProto) -> str:
    before = "a, as, az = DynamicQuantizeLinear (x)"
    return function_text(proto, "x b bs bz bias", _scaled_product(before, is_given(proto, 4)))


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
    }.items()
}
