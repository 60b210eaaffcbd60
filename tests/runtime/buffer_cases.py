"""Launches that test each buffer kernel where it can go wrong: odd sizes, edges, strides, groups, every function."""

from __future__ import annotations

import dataclasses
import math

from runtime.kernels.codes import Binary, Pad, Pooling, Reduce
from runtime.recurrence import GATES, RecurrentFunction, RecurrentKind
from runtime.unary import ACTIVATIONS, Unary
from tests.runtime.buffer_launch import TABLE, Case

RELU6 = {"act_a": 0.0, "act_b": 6.0}
_NAMES = {"alpha": "act_a", "beta": "act_b"}
# Of each activation its defaults, and others where these would tell less.
ACTIVATION_FLOATS: dict[int, dict[str, float]] = {
    **{
        code: dict.fromkeys(("act_a", "act_b"), 0.0)
        | {_NAMES[each.name]: each.default for each in code.function.parameters}
        for code in ACTIVATIONS
    },
    Unary.CLAMP: {"act_a": -0.25, "act_b": 0.5},
    Unary.LEAKY_RELU: {"act_a": 0.1, "act_b": 0.0},
    Unary.ELU: {"act_a": 1.5, "act_b": 0.0},
    Unary.SWISH: {"act_a": 1.5, "act_b": 0.0},
    Unary.SELU: {"act_a": 1.5, "act_b": 1.25},
    Unary.CELU: {"act_a": 1.5, "act_b": 0.0},
}


def window(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    batch: int = 1,
) -> dict[str, int]:
    """Dims of a sliding window; pads are top, left, bottom, right."""
    out = [(size[i] + pad[i] + pad[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    pairs = {"in": size, "out": out, "k": kernel, "stride": stride, "dil": dilation}
    dims = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return dims | {"batch": batch, "pad_t": pad[0], "pad_l": pad[1]}


def conv2d(in_c: int, out_c: int, groups: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    dims = shape | {"in_c": in_c, "out_c": out_c, "groups": groups}
    return fused("conv2d", dims, activation, residual)


def conv2d_planes(in_c: int, out_c: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    return fused("conv2d_planes", shape | {"in_c": in_c, "out_c": out_c}, activation, residual)


def fused(name: str, dims: dict[str, int], activation: int = 0, residual: int = 0, **defines: int) -> Case:
    defines = {"ACTIVATION": int(activation), "RESIDUAL": residual, **defines}
    return Case(TABLE[name], dims, defines, ACTIVATION_FLOATS[activation])


def conv1x1(pixels: int, in_c: int, out_c: int, activation: int = 0, residual: int = 0) -> Case:
    return fused("conv1x1", {"pixels": pixels, "in_c": in_c, "out_c": out_c}, activation, residual)


def depthwise(channels: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    return fused("depthwise", shape | {"channels": channels}, activation, residual)


def spread(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    batch: int = 1,
) -> dict[str, int]:
    """Dims of a transposed convolution; pads are top, left, bottom, right, and negative ones add to the output."""
    out = [(size[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - pad[i] - pad[i + 2] for i in range(2)]
    step = [stride[i] // math.gcd(stride[i], dilation[i]) for i in range(2)]
    pairs = {"in": size, "out": out, "k": kernel, "stride": stride, "dil": dilation, "step": step}
    dims = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return dims | {"batch": batch, "pad_t": pad[0], "pad_l": pad[1]}


def deconv2d(in_c: int, out_c: int, groups: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    dims = shape | {"in_c": in_c, "out_c": out_c, "groups": groups}
    return fused("deconv2d", dims, activation, residual)


def deconv_depthwise(channels: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    return fused("deconv_depthwise", shape | {"channels": channels}, activation, residual)


def winograd(tile: int, size: tuple[int, int], in_c: int, out_c: int, batch: int = 1) -> list[Case]:
    """The three steps of a 3x3 convolution with padding 1."""
    grid = {"batch": batch, "tiles_h": -(-size[0] // tile), "tiles_w": -(-size[1] // tile)}
    tiles = batch * grid["tiles_h"] * grid["tiles_w"]
    wino = {"WINO": tile}
    inputs = grid | {"in_h": size[0], "in_w": size[1], "in_c": in_c, "pad_t": 1, "pad_l": 1}
    outputs = grid | {"out_h": size[0], "out_w": size[1], "out_c": out_c}
    products = {"points": (tile + 2) ** 2, "tiles": tiles, "in_c": in_c, "out_c": out_c}
    return [
        Case(TABLE["winograd_input"], inputs, wino),
        Case(TABLE["winograd_gemm"], products, wino),
        fused("winograd_output", outputs, Unary.CLAMP, 1, **wino),
    ]


def pool(channels: int, shape: dict[str, int], kind: int, count_include_pad: int = 0) -> Case:
    dims = shape | {"channels": channels, "count_include_pad": count_include_pad}
    return Case(TABLE["pool"], dims, {"POOL": kind})


def resize_bilinear(size: tuple[int, int], out: tuple[int, int], channels: int) -> Case:
    scale = [i / o for i, o in zip(size, out, strict=True)]
    shift = [0.5 * s - 0.5 for s in scale]
    floats = {"scale_h": scale[0], "scale_w": scale[1], "shift_h": shift[0], "shift_w": shift[1]}
    return Case(TABLE["resize_bilinear"], resize_dims(size, out, channels), floats=floats)


def resize_nearest(size: tuple[int, int], rows: tuple[int, ...], columns: tuple[int, ...], channels: int) -> Case:
    dims = resize_dims(size, (len(rows), len(columns)), channels)
    return Case(TABLE["resize_nearest"], dims, tables={"rows": rows, "columns": columns})


def resize_dims(size: tuple[int, int], out: tuple[int, int], channels: int) -> dict[str, int]:
    return {"batch": 2, "in_h": size[0], "in_w": size[1], "channels": channels, "out_h": out[0], "out_w": out[1]}


def row_major(extents: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for extent in extents[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


def numbered(prefix: str, values: tuple[int, ...]) -> dict[str, int]:
    return {f"{prefix}{axis}": value for axis, value in enumerate(values)}


def copy(extents: tuple[int, ...], xs: tuple[int, ...], ys: tuple[int, ...], source: int = 1, target: int = 1) -> Case:
    lead = 6 - len(extents)
    dims = numbered("d", (1,) * lead + extents)
    dims |= numbered("xs", (0,) * lead + xs) | numbered("ys", (0,) * lead + ys)
    return Case(TABLE["copy"], dims, {"SRC_F32": source, "DST_F32": target})


def unary(code: int, extents: tuple[int, int, int, int], xs: tuple[int, ...] = (), ys: tuple[int, ...] = ()) -> Case:
    dims = numbered("d", extents)
    dims |= numbered("xs", xs or row_major(extents)) | numbered("ys", ys or row_major(extents))
    return Case(TABLE["unary"], dims, {"UNARY": code}, {"alpha": 0.2, "beta": 0.5})


def binary(
    code: int,
    extents: tuple[int, int, int, int],
    left: tuple[int, ...] = (),
    right: tuple[int, ...] = (),
    ys: tuple[int, ...] = (),
    activation: int = 0,
) -> Case:
    dense = row_major(extents)
    dims = numbered("d", extents) | numbered("as", left or dense) | numbered("bs", right or dense)
    floats = ACTIVATION_FLOATS[activation]
    return Case(TABLE["binary"], dims | numbered("ys", ys or dense), {"BINARY": code, "ACTIVATION": activation}, floats)


def pad(
    kind: int, extents: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...], nhwc: bool = False
) -> Case:
    out = tuple(e + b + a for e, b, a in zip(extents, before, after, strict=True))
    xs, ys = row_major(extents), row_major(out)
    if nhwc:
        xs, ys = channels_last(extents), channels_last(out)
    dims = numbered("d", out) | numbered("i", extents) | numbered("p", before) | numbered("xs", xs) | numbered("ys", ys)
    return Case(TABLE["pad"], dims, {"PAD": kind}, {"value": 0.5})


def channels_last(extents: tuple[int, ...], gap: int = 0) -> tuple[int, ...]:
    """Strides of (n, c, h, w) axes in NHWC."""
    _, c, h, w = extents
    return (h * w * (c + gap), 1, w * (c + gap), c + gap)


def reduce(
    kind: int, outer: int, reduced: int, inner: int, strides: tuple[int, int, int, int, int] | None = None
) -> Case:
    names = ("x_outer_stride", "x_reduced_stride", "x_inner_stride", "y_outer_stride", "y_inner_stride")
    values = strides or (reduced * inner, inner, 1, inner, 1)
    dims = {"outer": outer, "reduced": reduced, "inner": inner, **dict(zip(names, values, strict=True))}
    return Case(TABLE["reduce"], dims, {"REDUCE": kind})


def softmax(outer: int, length: int, inner: int, log: int = 0, order: tuple[int, int, int] = (0, 1, 2)) -> Case:
    """`order`: which of the loops (outer, length, inner) lies outermost, ..., innermost in both tensors."""
    extents = (outer, length, inner)
    dense = row_major(tuple(extents[axis] for axis in order))
    strides = {axis: dense[place] for place, axis in enumerate(order)}
    names = {0: "outer_stride", 1: "stride", 2: "inner_stride"}
    dims = {"outer": outer, "length": length, "inner": inner}
    dims |= {f"{tensor}_{name}": strides[axis] for tensor in "xy" for axis, name in names.items()}
    return Case(TABLE["softmax"], dims, {"LOG": log})


def lrn(pixels: int, channels: int, size: int) -> Case:
    dims = {"pixels": pixels, "channels": channels, "size": size}
    return Case(TABLE["lrn"], dims, {}, {"alpha": 0.3, "beta": 0.75, "bias": 1.5})


def scale_shift(pixels: int, channels: int, activation: int = 0) -> Case:
    return fused("scale_shift", {"pixels": pixels, "channels": channels}, activation)


def fully_connected(rows: int, in_c: int, out_c: int, activation: int = 0) -> Case:
    return fused("fully_connected", {"rows": rows, "in_c": in_c, "out_c": out_c}, activation)


def layer_norm(rows: int, length: int, centered: int = 1, activation: int = 0) -> Case:
    """Rows of a matrix that is as wide as a row is long."""
    strides = {
        f"{tensor}_{axis}_stride": step for tensor in "xy" for axis, step in zip(AXES, (length, 1, 1), strict=True)
    }
    dims = {"batch": rows, "groups": 1, "channels": length, "pixels": 1, "centered": centered}
    return normalization(dims | strides, activation)


def group_norm(batch: int, groups: int, channels: int, pixels: int, nhwc: bool = True, activation: int = 0) -> Case:
    """Groups of so many channels, in NHWC with gaps or in NCHW; NHWC out."""
    width = groups * channels
    steps = (pixels * (width + 3), 1, width + 3) if nhwc else (width * pixels, pixels, 1)
    strides = {f"x_{axis}_stride": step for axis, step in zip(AXES, steps, strict=True)}
    strides |= {f"y_{axis}_stride": step for axis, step in zip(AXES, (pixels * width, 1, width), strict=True)}
    dims = {"batch": batch, "groups": groups, "channels": channels, "pixels": pixels, "centered": 1}
    return normalization(dims | strides, activation)


def normalization(dims: dict[str, int], activation: int) -> Case:
    case = fused("normalization", dims, activation)
    return dataclasses.replace(case, floats={"epsilon": 0.01, **case.floats})


def attention(extents: tuple[int, ...], packed: bool = False, mask: tuple[int, ...] = (), causal: bool = False) -> Case:
    """Heads side by side in each place, with queries, keys and values in one row where they are packed."""
    _, heads, queries, keys, depth, values = extents
    width = heads * (2 * depth + values)
    dims = dict(zip(("batch", "heads", "queries", "keys", "depth", "values"), extents, strict=True))
    loops = {"q": (queries, depth), "k": (keys, depth), "v": (keys, values), "y": (queries, values)}
    for tensor, (places, size) in loops.items():
        row = width if packed and tensor != "y" else heads * size
        dims |= {f"{tensor}s{axis}": step for axis, step in enumerate((places * row, size, row, 1))}
    dims |= {f"ms{axis}": step for axis, step in enumerate(mask or (0, 0, 0, 0))}
    dims |= {"masked": int(bool(mask)), "causal": int(causal)}
    return Case(TABLE["attention"], dims, {"DEPTH": depth, "VALUES": values}, {"scale": 0.75})


def matmul(batch: int, m: int, k: int, n: int, one_a: bool = False, one_b: bool = False) -> Case:
    a, b = (0, 0, 0 if one_a else m * k, k, 1), (0, 0, 0 if one_b else k * n, n, 1)
    return strided_matmul((1, 1, batch, m, k, n), a, b, (0, 0, m * n, n, 1))


def strided_matmul(extents: tuple[int, ...], *strides: tuple[int, ...]) -> Case:
    """Extents d0-2, m, k, n; for a, b and the output the strides of the first three, of rows and of columns."""
    dims = dict(zip(("d0", "d1", "d2", "m", "k", "n"), extents, strict=True))
    for tensor, axes, steps in zip("aby", ("mk", "kn", "mn"), strides, strict=True):
        names = [f"{tensor}s0", f"{tensor}s1", f"{tensor}s2", *(tensor + axis for axis in axes)]
        dims |= dict(zip(names, steps, strict=True))
    return Case(TABLE["matmul"], dims)


def recurrent(
    kind: RecurrentKind,
    times: int,
    batch: int,
    hidden: int,
    directions: int = 1,
    backwards: int = 0,
    functions: tuple[RecurrentFunction, ...] = (RecurrentFunction.SIGMOID, RecurrentFunction.TANH),
    **defines: int,
) -> Case:
    dims = {"times": times, "batch": batch, "hidden": hidden, "directions": directions}
    dims |= {"gates": GATES[kind.name], "backwards": backwards}
    return recurrent_case("recurrent_sequence", kind, dims, functions, **{"STEPWISE": 0, **defines})


def recurrent_step(kind: RecurrentKind, batch: int, hidden: int, products: int = 0, **defines: int) -> Case:
    gates = GATES[kind.name]
    dims = {"batch": batch, "hidden": hidden, "products": products or gates}
    dims |= {"x_step": 2 * gates * hidden, "s_step": 2 * batch * hidden}
    functions = (RecurrentFunction.SIGMOID, RecurrentFunction.TANH)
    return recurrent_case("recurrent_step", kind, dims, functions, **{"STEPWISE": 1, **defines})


def recurrent_case(
    kernel: str, kind: RecurrentKind, dims: dict[str, int], functions: tuple[RecurrentFunction, ...], **defines: int
) -> Case:
    """Functions of gate and cell, and of the output the cell's again where none is given; all have parameters."""
    gate, cell, out = (*functions, functions[-1])[:3]
    defines = {"LINEAR": 0, "EXTRA": 0, "COUPLED": 0, "GATE": gate, "CELL": cell, "OUT": out, **defines}
    floats = {"clip": 2.5, "gate_a": 0.3, "gate_b": 0.4, "cell_a": 0.6, "cell_b": 0.7, "out_a": 0.8, "out_b": 0.9}
    return Case(TABLE[kernel], dims, {"RECURRENT": int(kind), **defines}, floats)


SAME = (1, 1, 1, 1)
AXES = ("batch", "channel", "pixel")
CASES: dict[str, Case] = {
    "conv2d 3x3 same": conv2d(5, 7, 1, window((6, 5), (3, 3), pad=SAME)),
    "conv2d 3x3 wide": conv2d(19, 37, 1, window((5, 7), (3, 3), pad=SAME), residual=1),
    "conv2d 3x3 stride 2": conv2d(3, 16, 1, window((11, 9), (3, 3), (2, 2), pad=SAME)),
    "conv2d first layer": conv2d(3, 24, 1, window((15, 17), (7, 7), (2, 2), pad=(3, 3, 3, 3), batch=2)),
    "conv2d 1x1 stride 2": conv2d(8, 8, 1, window((7, 7), (1, 1), (2, 2))),
    "conv2d 5x2 uneven": conv2d(4, 9, 1, window((9, 6), (5, 2), (2, 1), pad=(2, 0, 1, 1))),
    "conv2d dilation": conv2d(6, 10, 1, window((9, 11), (3, 3), pad=(2, 3, 2, 3), dilation=(2, 3))),
    "conv2d groups": conv2d(6, 5, 3, window((6, 5), (3, 3), pad=SAME, batch=2), residual=1),
    "conv2d last block of 64 without a vector": conv2d(2, 112, 1, window((4, 3), (2, 2))),
    "conv2d last block of 48 without a vector": conv2d(2, 125, 1, window((4, 4), (2, 2)), residual=1),
    "conv2d one pixel": conv2d(1, 1, 1, window((1, 1), (1, 1))),
    "conv2d planes 3x3 stride 2": conv2d_planes(3, 32, window((11, 9), (3, 3), (2, 2), pad=SAME), Unary.CLAMP),
    "conv2d planes 7x7": conv2d_planes(3, 24, window((15, 17), (7, 7), (2, 2), pad=(3, 3, 3, 3), batch=2)),
    "conv2d planes inside": conv2d_planes(4, 37, window((9, 12), (3, 3), batch=2), residual=1),
    "conv2d planes 5x2 uneven": conv2d_planes(2, 9, window((9, 6), (5, 2), (2, 1), pad=(2, 0, 1, 1))),
    "conv2d planes dilation": conv2d_planes(3, 10, window((9, 11), (3, 3), pad=(2, 3, 2, 3), dilation=(2, 3))),
    "conv2d planes last block of 64": conv2d_planes(2, 112, window((4, 3), (2, 2))),
    "conv2d planes last block of 48": conv2d_planes(2, 125, window((4, 4), (2, 2)), residual=1),
    "conv2d planes one pixel": conv2d_planes(1, 1, window((1, 1), (1, 1))),
    "conv2d window beyond": conv2d(4, 4, 1, window((2, 2), (5, 5), pad=(2, 2, 2, 2))),
    **{f"conv1x1 {a.name}": conv1x1(13, 9, 21, a, residual=a % 2) for a in ACTIVATIONS},
    "conv1x1 one pixel": conv1x1(1, 33, 40),
    "conv1x1 one channel": conv1x1(5, 1, 1),
    "conv1x1 blocks": conv1x1(64, 32, 64),
    "conv1x1 7x7": conv1x1(49, 64, 70, residual=1),
    "conv1x1 last block of 64 without a vector": conv1x1(13, 3, 112, residual=1),
    "conv1x1 last block of 48 without a vector": conv1x1(20, 3, 125),
    "depthwise 3x3 same": depthwise(19, window((7, 9), (3, 3), pad=SAME, batch=2), residual=1),
    "depthwise 3x3 blocks": depthwise(32, window((14, 14), (3, 3), pad=SAME), Unary.LEAKY_RELU),
    "depthwise 3x3 stride 2": depthwise(16, window((10, 11), (3, 3), (2, 2), pad=(0, 0, 1, 1))),
    "depthwise 5x5 stride 2": depthwise(5, window((12, 9), (5, 5), (2, 3), pad=(2, 2, 2, 2))),
    "depthwise dilation": depthwise(8, window((9, 8), (3, 2), pad=(2, 2, 2, 1), dilation=(2, 3))),
    "depthwise one pixel": depthwise(1, window((1, 1), (3, 3), pad=SAME)),
    "deconv2d 2x2 stride 2": deconv2d(9, 21, 1, spread((4, 5), (2, 2), (2, 2)), residual=1),
    "deconv2d 4x4 stride 2": deconv2d(5, 37, 1, spread((4, 6), (4, 4), (2, 2), SAME, batch=2), Unary.LEAKY_RELU),
    "deconv2d 3x3 uneven": deconv2d(7, 64, 1, spread((8, 8), (3, 3), (2, 2), (1, 1, 0, 0))),
    "deconv2d 8x8": deconv2d(16, 64, 1, spread((8, 8), (3, 3), pad=SAME)),
    "deconv2d gaps": deconv2d(3, 8, 1, spread((3, 4), (2, 2), (4, 3))),
    "deconv2d dilation": deconv2d(4, 16, 1, spread((5, 6), (3, 3), (2, 3), (1, 2, 0, 1), (4, 2)), residual=1),
    "deconv2d negative pads": deconv2d(3, 5, 1, spread((3, 3), (3, 2), (2, 1), (-1, -2, -3, 1))),
    "deconv2d groups": deconv2d(6, 5, 3, spread((3, 4), (3, 4), (2, 2), SAME, batch=2), residual=1),
    "deconv2d one pixel": deconv2d(1, 1, 1, spread((1, 1), (1, 1))),
    "deconv2d from one pixel": deconv2d(32, 16, 1, spread((1, 1), (4, 4))),
    "deconv_depthwise 4x4 stride 2": deconv_depthwise(19, spread((5, 6), (4, 4), (2, 2), SAME, batch=2), residual=1),
    "deconv_depthwise 16x16 stride 8": deconv_depthwise(21, spread((3, 4), (16, 16), (8, 8), (4, 4, 4, 4))),
    "deconv_depthwise gaps": deconv_depthwise(8, spread((4, 7), (2, 3), (3, 5)), Unary.ELU),
    "deconv_depthwise dilation": deconv_depthwise(5, spread((6, 5), (3, 2), (2, 3), (2, 0, 1, 3), (3, 6))),
    "deconv_depthwise one": deconv_depthwise(1, spread((1, 3), (3, 3), pad=(1, 1, 1, 1))),
    "fully_connected 1 row": fully_connected(1, 37, 21),
    "fully_connected rows": fully_connected(6, 20, 33, Unary.TANH),
    "fully_connected one": fully_connected(1, 1, 1),
    "recurrent RNN": recurrent(RecurrentKind.RNN, 4, 2, 19),
    "recurrent RNN both ways": recurrent(RecurrentKind.RNN, 3, 7, 16, directions=2),
    **{f"recurrent RNN {f.name}": recurrent(RecurrentKind.RNN, 2, 1, 5, functions=(f, f)) for f in RecurrentFunction},
    "recurrent GRU": recurrent(RecurrentKind.GRU, 4, 2, 21, directions=2),
    "recurrent GRU backwards": recurrent(RecurrentKind.GRU, 3, 1, 32, backwards=1),
    "recurrent GRU linear": recurrent(RecurrentKind.GRU, 4, 3, 19, directions=2, LINEAR=1, EXTRA=1),
    "recurrent GRU linear, no bias": recurrent(RecurrentKind.GRU, 2, 1, 16, LINEAR=1),
    "recurrent LSTM": recurrent(RecurrentKind.LSTM, 4, 2, 19, directions=2),
    "recurrent LSTM backwards": recurrent(RecurrentKind.LSTM, 3, 1, 37, backwards=1),
    "recurrent LSTM peepholes": recurrent(RecurrentKind.LSTM, 4, 8, 16, directions=2, EXTRA=1),
    "recurrent LSTM coupled": recurrent(RecurrentKind.LSTM, 3, 1, 7, COUPLED=1),
    "recurrent LSTM functions": recurrent(
        *(RecurrentKind.LSTM, 2, 1, 40),
        functions=(RecurrentFunction.HARD_SIGMOID, RecurrentFunction.SCALED_TANH, RecurrentFunction.ELU),
    ),
    "recurrent LSTM one value": recurrent(RecurrentKind.LSTM, 1, 1, 1),
    "recurrent LSTM wide": recurrent(RecurrentKind.LSTM, 2, 2, 300),
    "recurrent_step LSTM": recurrent_step(RecurrentKind.LSTM, 3, 21, EXTRA=1),
    "recurrent_step LSTM whole": recurrent_step(RecurrentKind.LSTM, 1, 32),
    "recurrent_step RNN": recurrent_step(RecurrentKind.RNN, 2, 19),
    "recurrent_step GRU second part": recurrent_step(RecurrentKind.GRU, 2, 19, products=1),
    "recurrent_step GRU linear": recurrent_step(RecurrentKind.GRU, 2, 16, LINEAR=1, EXTRA=1),
    "matmul": matmul(3, 5, 7, 19),
    "matmul one b": matmul(2, 4, 8, 16, one_b=True),
    "matmul one a": matmul(2, 9, 3, 1, one_a=True),
    "attention": attention((1, 2, 5, 7, 16, 16)),
    "attention packed": attention((2, 3, 6, 6, 20, 18), packed=True, mask=(0, 0, 6, 1)),
    "attention causal": attention((1, 2, 5, 9, 8, 24), mask=(45, 0, 9, 1), causal=True),
    "attention narrow": attention((1, 1, 3, 70, 3, 5)),
    "attention long": attention((1, 1, 98, 260, 3, 5), mask=(0, 0, 260, 1)),
    "attention long causal": attention((1, 1, 70, 70, 16, 20), causal=True),
    "matmul heads": strided_matmul((2, 1, 3, 5, 8, 19), (120, 0, 8, 24, 1), (456, 0, 8, 1, 24), (285, 0, 95, 19, 1)),
    "matmul broadcast": strided_matmul(
        (2, 3, 2, 7, 5, 17), (0, 70, 35, 5, 1), (255, 85, 0, 17, 1), (714, 238, 17, 34, 1)
    ),
    **{f"{c.kernel.name} F{t}": c for t in (2, 4) for c in winograd(t, (7, 9), 19, 21, batch=2)},
    **{f"{c.kernel.name} F{t} even": c for t in (2, 4) for c in winograd(t, (8, 8), 16, 16)},
    **{f"{c.kernel.name} F2 of {out}": c for out in (45, 112) for c in winograd(2, (8, 6), 3, out)},
    "pool max": pool(19, window((7, 8), (3, 3), (2, 2), pad=SAME, batch=2), Pooling.MAX),
    "pool average": pool(16, window((7, 8), (3, 3), (1, 1), pad=SAME), Pooling.AVERAGE),
    "pool average all": pool(5, window((6, 6), (3, 2), (2, 2), pad=(1, 1, 0, 0)), Pooling.AVERAGE, count_include_pad=1),
    "pool dilation": pool(8, window((7, 9), (2, 2), dilation=(2, 3)), Pooling.MAX),
    "scale_shift": scale_shift(13, 19),
    "normalization rows": layer_norm(5, 37),
    "normalization row": layer_norm(1, 192, activation=Unary.GELU),
    "normalization rms": layer_norm(3, 64, centered=0),
    "normalization short rows": layer_norm(19, 3, activation=Unary.SWISH),
    "normalization groups": group_norm(2, 3, 7, 10),
    "normalization groups of 16": group_norm(1, 2, 16, 9, activation=Unary.TANH),
    "normalization instances": group_norm(2, 5, 1, 21),
    "normalization groups NCHW": group_norm(2, 3, 2, 35, nhwc=False),
    "normalization instances NCHW": group_norm(1, 4, 1, 33, nhwc=False),
    "scale_shift relu": scale_shift(7, 16, Unary.HARD_SWISH),
    "lrn 5": lrn(6, 19, 5),
    "lrn 4": lrn(3, 32, 4),
    "lrn wide": lrn(2, 3, 9),
    "resize nearest": resize_nearest((5, 6), (0, 0, 1, 2, 2, 3, 4, 4, 4), (5, 0, 3, 1), 5),
    "resize nearest x2": resize_nearest((3, 4), (0, 0, 1, 1, 2, 2), (0, 0, 1, 1, 2, 2, 3, 3), 19),
    "resize bilinear up": resize_bilinear((4, 5), (9, 11), channels=19),
    "resize bilinear down": resize_bilinear((9, 8), (4, 3), channels=16),
    **{f"reduce {kind.name}": reduce(kind, 3, 5, 19) for kind in Reduce},
    "reduce rows": reduce(Reduce.MEAN, 7, 37, 1, (37, 1, 0, 1, 0)),
    "reduce rows max": reduce(Reduce.MAX, 2, 5, 1, (5, 1, 0, 1, 0)),
    "reduce spatial NHWC": reduce(Reduce.MEAN, 2, 49, 33, (49 * 40, 40, 1, 33, 1)),
    "reduce strided": reduce(Reduce.SUM, 3, 4, 5, (1, 15, 3, 1, 3)),
    "softmax row": softmax(1, 1000, 1),
    "softmax rows": softmax(5, 37, 1),
    "softmax row short": softmax(3, 3, 1),
    "softmax inner": softmax(2, 9, 19),
    "softmax strided": softmax(3, 7, 5, order=(0, 2, 1)),
    "softmax log": softmax(2, 21, 1, log=1),
    "copy row": copy((67,), (1,), (1,)),
    "copy NCHW to NHWC": copy((35, 3), (1, 35), (3, 1)),
    "copy NHWC to NCHW": copy((19, 35), (1, 19), (35, 1)),
    "copy shuffle": copy((6, 3, 8), (24, 8, 1), (24, 1, 3)),
    "copy 6 axes": copy((2, 3, 2, 3, 2, 5), (180, 60, 30, 10, 5, 1), (1, 2, 6, 12, 36, 72)),
    "copy to plan": copy((5, 19), (19, 1), (25, 1), source=1, target=0),
    "copy from plan": copy((5, 19), (25, 1), (19, 1), source=0, target=1),
    "copy narrow": copy((4, 33), (40, 1), (33, 1), source=0, target=0),
    **{f"unary {code.name}": unary(code, (1, 1, 1, 43)) for code in Unary},
    "unary strided": unary(Unary.TANH, (2, 3, 4, 5), (60, 20, 5, 1), (1, 2, 6, 24)),
    "unary view": unary(Unary.CLAMP, (1, 1, 6, 19), (0, 0, 25, 1), (0, 0, 19, 1)),
    **{f"binary {code.name}": binary(code, (1, 1, 1, 43)) for code in Binary},
    "binary scalar": binary(Binary.MUL, (1, 1, 3, 37), (0, 0, 37, 1), (0, 0, 0, 0)),
    "binary channel": binary(Binary.ADD, (1, 2, 5, 16), right=(0, 0, 0, 1), activation=Unary.CLAMP),
    "binary pixel": binary(Binary.MUL, (1, 2, 5, 21), right=(0, 5, 1, 0)),
    "binary strided": binary(Binary.SUB, (2, 3, 4, 5), (60, 20, 5, 1), (1, 2, 6, 24), (60, 1, 3, 12)),
    "binary view": binary(Binary.MAX, (1, 1, 6, 19), (0, 0, 25, 1), (0, 0, 19, 1), (0, 0, 22, 1), Unary.SIGMOID),
    **{f"pad {kind.name}": pad(kind, (2, 3, 4, 7), (0, 1, 2, 3), (0, 1, 2, 1)) for kind in Pad},
    **{f"pad {kind.name} NHWC": pad(kind, (1, 19, 4, 3), (0, 0, 1, 2), (0, 0, 2, 1), nhwc=True) for kind in Pad},
    **{
        f"peak_macs of {elements}": Case(TABLE["peak_macs"], {"rounds": 5, "elements": elements})
        for elements in (37, 64)
    },
}
