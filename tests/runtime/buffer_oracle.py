"""What each buffer kernel computes, in NumPy: dense float64 arrays in, the dense output out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from runtime.families.recurrent.oracle import COMPUTE
from runtime.kernels.codes import Binary, Pad, Pooling, Reduce
from runtime.layout.winograd import INPUT_TRANSFORM, OUTPUT_TRANSFORM
from runtime.recurrence import GATES, RecurrentFunction, RecurrentKind
from runtime.unary import FUNCTIONS, Unary

Array = NDArray[np.float64]
Arrays = Mapping[str, Array]
Dims = Mapping[str, int]
Floats = Mapping[str, float]


def activate(v: Array, defines: Dims, floats: Floats) -> Array:
    """The fused activation."""
    return unary_function(defines.get("ACTIVATION", 0), v, floats.get("act_a", 0), floats.get("act_b", 0))


def unary_function(code: int, v: Array, a: float, b: float) -> Array:
    """Computes a function by its code: written anew here, or, where it is younger, by its own oracle."""
    functions: dict[int, Callable[[], Array]] = {
        Unary.CLAMP: lambda: np.clip(v, a, b),
        Unary.SIGMOID: lambda: 1 / (1 + np.exp(-v)),
        Unary.TANH: lambda: np.tanh(v),
        Unary.LEAKY_RELU: lambda: np.where(v < 0, v * a, v),
        Unary.ELU: lambda: np.where(v < 0, np.expm1(v) * a, v),
        Unary.HARD_SIGMOID: lambda: np.clip(v * a + b, 0, 1),
        Unary.HARD_SWISH: lambda: v * np.clip(v / 6 + 0.5, 0, 1),
        Unary.EXP: lambda: np.exp(v),
        Unary.LOG: lambda: np.log(v),
        Unary.SQRT: lambda: np.sqrt(v),
        Unary.NEG: lambda: -v,
        Unary.ABS: lambda: np.abs(v),
        Unary.FLOOR: lambda: np.floor(v),
        Unary.CEIL: lambda: np.ceil(v),
        Unary.ERF: lambda: erf(v),
        Unary.RECIPROCAL: lambda: 1 / v,
        Unary.ROUND: lambda: np.round(v),
        Unary.SOFTPLUS: lambda: np.log1p(np.exp(v)),
        Unary.SIN: lambda: np.sin(v),
        Unary.COS: lambda: np.cos(v),
        Unary.GELU: lambda: v * (1 + erf(v / np.sqrt(2))) / 2,
        Unary.GELU_TANH: lambda: v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))) / 2,
        Unary.SWISH: lambda: v / (1 + np.exp(-a * v)),
        Unary.MISH: lambda: v * np.tanh(np.log1p(np.exp(v))),
        Unary.SELU: lambda: b * np.where(v < 0, np.expm1(v) * a, v),
        Unary.CELU: lambda: np.where(v < 0, np.expm1(v / a) * a, v),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        return functions[code]() if code in functions else FUNCTIONS[code].computed(v, {"alpha": a, "beta": b})


def erf(v: Array) -> Array:
    """2/sqrt(pi) times the integral of exp(-t^2) from 0 to v, by Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    half = v[..., None] / 2
    return 2 / np.sqrt(np.pi) * (np.exp(-((half * (nodes + 1)) ** 2)) * weights).sum(-1) * half[..., 0]


def taps(x: Array, dims: Dims, fill: float) -> Array:
    """Every input under every window: [batch, out_h, out_w, k_h, k_w, channels]; `fill` in the padding."""
    image = x.reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    shape = (dims["batch"], dims["out_h"], dims["out_w"], dims["k_h"], dims["k_w"], image.shape[-1])
    result = np.full(shape, fill)
    for oh, ow, i, j in itertools.product(*map(range, shape[1:5])):
        row = oh * dims["stride_h"] - dims["pad_t"] + i * dims["dil_h"]
        column = ow * dims["stride_w"] - dims["pad_l"] + j * dims["dil_w"]
        if 0 <= row < dims["in_h"] and 0 <= column < dims["in_w"]:
            result[:, oh, ow, i, j] = image[:, row, column]
    return result


def finish(v: Array, arrays: Arrays, defines: Dims, floats: Floats) -> Array:
    """Adds bias and residual to [pixels, channels] and applies the activation."""
    v = v + arrays["b"]
    if defines.get("RESIDUAL"):
        v = v + arrays["residual"]
    return activate(v, defines, floats)


def conv2d(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    windows = taps(arrays["x"], dims, 0.0)
    per_group = windows.reshape(*windows.shape[:5], dims["groups"], dims["in_c"])
    weights = arrays["w"].reshape(dims["groups"], dims["out_c"], dims["k_h"], dims["k_w"], dims["in_c"])
    sums = np.einsum("nhwijgc,goijc->nhwgo", per_group, weights, optimize=True)
    return finish(sums.reshape(-1, dims["groups"] * dims["out_c"]), arrays, defines, floats)


def conv2d_planes(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    batch, in_c, rows, columns = (dims[name] for name in ("batch", "in_c", "in_h", "in_w"))
    pixels = arrays["x"].reshape(batch, in_c, rows, columns).transpose(0, 2, 3, 1).reshape(-1, in_c)
    windows = taps(pixels, dims, 0.0)
    weights = arrays["w"].reshape(dims["out_c"], in_c, dims["k_h"], dims["k_w"])
    sums = np.einsum("nhwijc,ocij->nhwo", windows, weights, optimize=True)
    return finish(sums.reshape(-1, dims["out_c"]), arrays, defines, floats)


def conv1x1(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return finish(arrays["x"] @ arrays["w"][0].T, arrays, defines, floats)


def depthwise(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    weights = arrays["w"].reshape(dims["k_h"], dims["k_w"], dims["channels"])
    sums = np.einsum("nhwijc,ijc->nhwc", taps(arrays["x"], dims, 0.0), weights)
    return finish(sums.reshape(-1, dims["channels"]), arrays, defines, floats)


def tap_order(dims: Dims) -> list[tuple[int, int]]:
    """The taps as their weights lie: by row class, column class, row, column."""
    taps = itertools.product(range(dims["k_h"]), range(dims["k_w"]))
    return sorted(taps, key=lambda t: (t[0] % dims["step_h"], t[1] % dims["step_w"], *t))


def spread(arrays: Arrays, dims: Dims, multiply: Callable[[Array, Array], Array], weights: Array) -> Array:
    """Adds what each tap makes of each input pixel [batch, channels] to where it lands, as [pixels, channels]."""
    image = arrays["x"].reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    result = np.zeros((dims["batch"], dims["out_h"], dims["out_w"], arrays["b"].size))
    for index, (i, j) in enumerate(tap_order(dims)):
        for h, w in itertools.product(range(dims["in_h"]), range(dims["in_w"])):
            row = h * dims["stride_h"] + i * dims["dil_h"] - dims["pad_t"]
            column = w * dims["stride_w"] + j * dims["dil_w"] - dims["pad_l"]
            if 0 <= row < dims["out_h"] and 0 <= column < dims["out_w"]:
                result[:, row, column] += multiply(image[:, h, w], weights[index])
    return result.reshape(-1, arrays["b"].size)


def deconv2d(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    groups, in_c, out_c = (dims[name] for name in ("groups", "in_c", "out_c"))
    weights = arrays["w"].reshape(groups, out_c, -1, in_c).transpose(2, 0, 1, 3)

    def multiply(pixel: Array, weight: Array) -> Array:
        return np.einsum("ngc,goc->ngo", pixel.reshape(-1, groups, in_c), weight).reshape(-1, groups * out_c)

    return finish(spread(arrays, dims, multiply, weights), arrays, defines, floats)


def deconv_depthwise(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    weights = arrays["w"].reshape(-1, dims["channels"])
    return finish(spread(arrays, dims, np.multiply, weights), arrays, defines, floats)


def recurrent_attributes(defines: Dims, floats: Floats, backwards: int, directions: int) -> dict[str, object]:
    """The attributes of the graph's operator that a launch runs."""
    direction = "bidirectional" if directions == 2 else "reverse" if backwards else "forward"
    attributes: dict[str, object] = {"direction": direction, "clip": floats["clip"]}
    for role in ("gate", "cell", "out"):
        attributes[role] = RecurrentFunction(defines[role.upper()]).name.lower()
        attributes[f"{role}_parameters"] = (floats[f"{role}_a"], floats[f"{role}_b"])
    return attributes | {"linear_before_reset": bool(defines["LINEAR"]), "input_forget": bool(defines["COUPLED"])}


def recurrent_sequence(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    times, batch, hidden, directions = (dims[name] for name in ("times", "batch", "hidden", "directions"))
    op = RecurrentKind(defines["RECURRENT"]).name
    state, width = (directions * batch, hidden), dims["gates"] * hidden
    x, r = arrays["x"].reshape(times, batch, -1), arrays["r"].reshape(directions, hidden, width)
    h, c = arrays["h"].reshape(state), arrays["c"].reshape(state) if op == "LSTM" else None
    p = arrays["p"].reshape(directions, -1) if defines["EXTRA"] else None
    attributes = recurrent_attributes(defines, floats, dims["backwards"], directions)
    return COMPUTE[op]([x, r, h, c, p], attributes).reshape(-1)


def recurrent_step(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    """One step; the second part of a GRU starts from what the first has left in s."""
    batch, hidden = dims["batch"], dims["hidden"]
    width = GATES[RecurrentKind(defines["RECURRENT"]).name] * hidden
    x = as_strided(arrays["x"], (1, batch, width), (0, dims["x_step"] * 8, 8))
    if RecurrentKind(defines["RECURRENT"]) == RecurrentKind.GRU and not defines["LINEAR"]:
        z, kept = (arrays["s"][start:][: batch * hidden].reshape(batch, hidden) for start in (0, dims["s_step"]))
        inner = x[0, :, 2 * hidden :] + kept @ arrays["r"].reshape(hidden, width)[:, 2 * hidden :]
        return ((1 - z) * np.tanh(inner) + z * arrays["h"].reshape(batch, hidden)).reshape(-1)
    whole = dict(dims) | {"times": 1, "directions": 1, "gates": dims["products"], "backwards": 0}
    return recurrent_sequence(dict(arrays) | {"x": x.reshape(-1)}, whole, defines, floats)[: batch * hidden]


def fully_connected(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return activate(arrays["x"].reshape(dims["rows"], -1) @ arrays["w"][0].T + arrays["b"], defines, floats)


def matmul(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    batch = [dims[f"d{axis}"] for axis in range(3)]
    a, b = (
        nest(arrays[t], [*batch, *(dims[e] for e in es)], [*numbered(dims, f"{t}s", 3), *(dims[t + e] for e in es)])
        for t, es in (("a", "mk"), ("b", "kn"))
    )
    return a @ b


def winograd_input(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    tile, alpha = defines["WINO"], defines["WINO"] + 2
    window = {"out_h": dims["tiles_h"], "out_w": dims["tiles_w"], "k_h": alpha, "k_w": alpha, "stride_h": tile}
    patches = taps(arrays["x"], dict(dims) | window | {"stride_w": tile, "dil_h": 1, "dil_w": 1}, 0.0)
    matrix = INPUT_TRANSFORM[tile]
    return np.einsum("ai,nhwijc,bj->abnhwc", matrix, patches, matrix, optimize=True)


def winograd_gemm(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    v = arrays["v"].reshape(dims["points"], dims["tiles"], dims["in_c"])
    return v @ arrays["u"].transpose(0, 2, 1)


def winograd_output(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    tile, alpha = defines["WINO"], defines["WINO"] + 2
    m = arrays["m"].reshape(alpha, alpha, dims["batch"], dims["tiles_h"], dims["tiles_w"], dims["out_c"])
    matrix = OUTPUT_TRANSFORM[tile]
    tiles = np.einsum("ia,abnhwc,jb->nhiwjc", matrix, m, matrix, optimize=True)
    image = tiles.reshape(dims["batch"], dims["tiles_h"] * tile, dims["tiles_w"] * tile, -1)
    inside = image[:, : dims["out_h"], : dims["out_w"]].reshape(-1, dims["out_c"])
    return finish(inside, arrays, defines, floats)


def pool(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    if defines["POOL"] == Pooling.MAX:
        return taps(arrays["x"], dims, -np.inf).max((3, 4))
    total = taps(arrays["x"], dims, 0.0).sum((3, 4))
    inside = taps(np.ones_like(arrays["x"]), dims, 0.0).sum((3, 4))
    return total / (dims["k_h"] * dims["k_w"] if dims["count_include_pad"] else inside)


def scale_shift(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return activate(arrays["x"] * arrays["s"] + arrays["t"], defines, floats)


def normalization(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    """Returns [batch, pixels, all channels]."""
    batch, groups, channels, pixels = (dims[name] for name in ("batch", "groups", "channels", "pixels"))
    steps = [dims[f"x_{axis}_stride"] for axis in ("batch", "channel", "channel", "pixel")]
    steps[1] *= channels
    x = nest(arrays["x"], [batch, groups, channels, pixels], steps)
    v = x - x.mean((2, 3), keepdims=True) if dims["centered"] else x
    v = v / np.sqrt((v * v).mean((2, 3), keepdims=True) + floats["epsilon"])
    rows = v.transpose(0, 3, 1, 2).reshape(batch, pixels, groups * channels)
    return activate(rows * arrays["s"] + arrays["t"], defines, floats)


def attention(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    """Returns [batch, heads, queries, values]."""
    batch, heads, queries, keys, depth, values = (
        dims[name] for name in ("batch", "heads", "queries", "keys", "depth", "values")
    )
    q = nest(arrays["q"], [batch, heads, queries, depth], numbered(dims, "qs", 4))
    k = nest(arrays["k"], [batch, heads, keys, depth], numbered(dims, "ks", 4))
    v = nest(arrays["v"], [batch, heads, keys, values], numbered(dims, "vs", 4))
    scores = np.einsum("bhld,bhsd->bhls", q, k) * floats["scale"]
    if dims["masked"]:
        scores = scores + nest(arrays["mask"], [batch, heads, queries, keys], numbered(dims, "ms", 4))
    if dims["causal"]:
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None], scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhls,bhsd->bhld", powers / powers.sum(-1, keepdims=True), v)


def lrn(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    x, size = arrays["x"], dims["size"]
    sums = np.zeros_like(x)
    for c in range(dims["channels"]):
        sums[:, c] = (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
    return x / (floats["bias"] + floats["alpha"] / size * sums) ** floats["beta"]


def resize_nearest(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    image = arrays["x"].reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    return image.take(arrays["rows"], 1, mode="clip").take(arrays["columns"], 2, mode="clip")


def resize_bilinear(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    image = arrays["x"].reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    rows = np.arange(dims["out_h"]) * floats["scale_h"] + floats["shift_h"]
    columns = np.arange(dims["out_w"]) * floats["scale_w"] + floats["shift_w"]
    return interpolate(interpolate(image, rows, 1), columns, 2)


def interpolate(image: Array, coordinates: Array, axis: int) -> Array:
    last = image.shape[axis] - 1
    inside = np.clip(coordinates, 0, last)
    low = np.floor(inside).astype(int)
    share = (inside - low).reshape([-1 if a == axis else 1 for a in range(image.ndim)])
    return image.take(low, axis) * (1 - share) + image.take(np.minimum(low + 1, last), axis) * share


def nest(array: Array, extents: list[int], strides: list[int]) -> Array:
    """Views flat elements as nested loops with these extents and strides read them."""
    return as_strided(array, extents, [stride * 8 for stride in strides], writeable=False)


def numbered(dims: Dims, prefix: str, rank: int) -> list[int]:
    return [dims[f"{prefix}{axis}"] for axis in range(rank)]


def reduce(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    loops = [dims["outer"], dims["reduced"], dims["inner"]]
    x = nest(arrays["x"], loops, [dims["x_outer_stride"], dims["x_reduced_stride"], dims["x_inner_stride"]])
    functions = {Reduce.MEAN: np.mean, Reduce.SUM: np.sum, Reduce.MAX: np.max, Reduce.MIN: np.min}
    return functions[Reduce(defines["REDUCE"])](x, 1)


def softmax(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    loops = [dims["outer"], dims["length"], dims["inner"]]
    x = nest(arrays["x"], loops, [dims["x_outer_stride"], dims["x_stride"], dims["x_inner_stride"]])
    powers = np.exp(x - x.max(1, keepdims=True))
    result = powers / powers.sum(1, keepdims=True)
    return np.log(result) if defines["LOG"] else result


def peak_macs(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    factor, step, *starts = arrays["x"]
    sums = np.resize(starts, dims["elements"]) + np.arange(12)[:, None]
    for _ in range(dims["rounds"]):
        sums = sums * factor + step
    return sums.sum(0)


def copy(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return nest(arrays["x"], numbered(dims, "d", 6), numbered(dims, "xs", 6))


def unary(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    x = nest(arrays["x"], numbered(dims, "d", 4), numbered(dims, "xs", 4))
    return unary_function(Unary(defines["UNARY"]), x, floats["alpha"], floats["beta"])


def binary(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    a, b = (nest(arrays[t], numbered(dims, "d", 4), numbered(dims, f"{t}s", 4)) for t in "ab")
    functions: dict[Binary, Callable[[Array, Array], Array]] = {
        Binary.ADD: np.add,
        Binary.SUB: np.subtract,
        Binary.MUL: np.multiply,
        Binary.DIV: np.divide,
        Binary.MAX: np.maximum,
        Binary.MIN: np.minimum,
        Binary.POW: np.power,
        Binary.PRELU: lambda a, b: np.where(a < 0, a * b, a),
    }
    return activate(functions[Binary(defines["BINARY"])](a, b), defines, floats)


def pad(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    extents, outputs, before = (numbered(dims, prefix, 4) for prefix in "idp")
    x = nest(arrays["x"], extents, numbered(dims, "xs", 4))
    widths = [(b, d - i - b) for b, d, i in zip(before, outputs, extents, strict=True)]
    if defines["PAD"] == Pad.CONSTANT:
        return np.pad(x, widths, constant_values=floats["value"])
    return np.pad(x, widths, mode="reflect" if defines["PAD"] == Pad.REFLECT else "edge")
