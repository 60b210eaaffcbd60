"""What a model grows by: one step appends nodes that read a float32 tensor, and returns the float32 tensor they make.

A step draws anything the operator allows; what ONNX Runtime refuses is not added (`Refused`).
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.random_models.maker import FLOAT, Maker, Refused

Step = Callable[[Maker, str], str]
FAR = 2**31 - 1


def grow(make: Maker, x: str, steps: Sequence[Step]) -> str:
    """The tensor after one of these steps, with at least one axis before it."""
    return make.rng.choice(steps)(make, with_rank(make, x, max(1, len(make.shape(x)))))


def with_rank(make: Maker, x: str, rank: int) -> str:
    """The tensor with so many axes: the last ones joined, or some of length 1 added before or behind."""
    shape = make.shape(x)
    if len(shape) < rank:
        ones = (1,) * (rank - len(shape))
        shape = (*ones, *shape) if make.rng.random() < 0.7 else (*shape, *ones)
    elif len(shape) > rank:
        shape = (*shape[: rank - 1], math.prod(shape[rank - 1 :]))
    return x if shape == make.shape(x) else make.add("Reshape", x, make.constant(shape, np.int64))


def _axis(make: Maker, x: str) -> int:
    rank = len(make.shape(x))
    return make.rng.randrange(-rank, rank) if rank else 0


def _some(make: Maker, choices: Sequence[Any], most: int = 3) -> list[Any]:
    return sorted(make.rng.sample(list(choices), make.rng.randint(1, min(most, len(choices)))))


# --- Strides: views of views.


def slice_(make: Maker, x: str) -> str:
    """Any steps, forwards and backwards, bounds inside, behind and far beyond."""
    shape = make.shape(x)
    axes = _some(make, range(len(shape))) if shape else []
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        step = make.rng.choice([1, 1, 2, 3, -1, -1, -2, -3])
        low, high = make.rng.choice([0, 0, 1, size // 3]), make.rng.choice([size, size, size - 1, FAR])
        starts.append(low if step > 0 else make.rng.choice([size - 1, -1, FAR, size - 2]))
        ends.append(high if step > 0 else make.rng.choice([-FAR, -FAR, 0, -size - 1]))
        steps.append(step)
    signed = [make.rng.choice([axis, axis - len(shape)]) for axis in axes]
    return make.add("Slice", x, *(make.constant(each, np.int64) for each in (starts, ends, signed, steps)))


def transpose(make: Maker, x: str) -> str:
    rank = len(make.shape(x))
    return make.add("Transpose", x, perm=make.rng.sample(range(rank), rank))


def reshape(make: Maker, x: str) -> str:
    """Splits or joins neighbouring axes, at times with a 0 or a -1 in the shape."""
    shape = list(make.shape(x))
    at = make.rng.randrange(len(shape)) if shape else 0
    factors = [each for each in range(2, 5) if shape and shape[at] % each == 0]
    if factors and make.rng.random() < 0.5:
        factor = make.rng.choice(factors)
        wanted = [*shape[:at], factor, shape[at] // factor, *shape[at + 1 :]]
    else:
        wanted = [*shape[:at], math.prod(shape[at : at + 2]), *shape[at + 2 :]]
    if make.rng.random() < 0.3:
        wanted[make.rng.randrange(len(wanted))] = -1
    return make.add("Reshape", x, make.constant(wanted, np.int64))


def concat(make: Maker, x: str) -> str:
    """With tensors that differ along one axis at most, itself too."""
    shape, axis = make.shape(x), _axis(make, x)
    at = axis % max(1, len(shape))
    fits = [n for n in make.floats() if len(make.shape(n)) == len(shape) and _but(make.shape(n), at) == _but(shape, at)]
    parts = [x, *make.rng.choices(fits, k=make.rng.randint(1, 2))]
    make.rng.shuffle(parts)
    return make.add("Concat", *parts, axis=axis)


def _but(shape: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*shape[:at], *shape[at + 1 :])


def pad(make: Maker, x: str) -> str:
    """Of every mode; negative ones cut."""
    mode, rank = make.rng.choice(["constant", "constant", "reflect", "edge", "wrap"]), len(make.shape(x))
    low = -1 if mode == "constant" else 0
    pads = [make.rng.choice([0, 0, make.rng.randint(low, 2)]) for _ in range(2 * rank)]
    value = [make.constant(make.rng.choice([0.0, 1.5, -1.0]))] if mode == "constant" and make.rng.random() < 0.5 else []
    return make.add("Pad", x, make.constant(pads, np.int64), *value, mode=mode)


def split(make: Maker, x: str) -> str:
    """One of its parts, or two of them joined in another order."""
    axis, shape = _axis(make, x), make.shape(x)
    count = make.rng.randint(2, 3)
    if shape[axis] < count:
        raise Refused("too short")
    if make.rng.random() < 0.5:
        parts = make.add_all("Split", x, outputs=count, axis=axis, num_outputs=count)
    else:
        cuts = sorted(make.rng.sample(range(1, shape[axis]), count - 1))
        sizes = np.diff([0, *cuts, shape[axis]])
        parts = make.add_all("Split", x, make.constant(sizes, np.int64), outputs=count, axis=axis)
    return parts[make.rng.randrange(count)] if make.rng.random() < 0.5 else make.add("Concat", *parts[::-1], axis=axis)


def repeat(make: Maker, x: str) -> str:
    shape = make.shape(x)
    if make.rng.random() < 0.5:
        return make.add("Tile", x, make.constant([make.rng.choice([1, 1, 2]) for _ in shape], np.int64))
    wide = [make.rng.randint(2, 3) if size == 1 else make.rng.choice([1, size]) for size in shape]
    return make.add("Expand", x, make.constant([*make.rng.choice([[], [1], [2]]), *wide], np.int64))


def gather(make: Maker, x: str) -> str:
    axis, shape = _axis(make, x), make.shape(x)
    count = make.rng.choice([None, 1, 3])
    drawn = make.rng.randrange(-shape[axis], shape[axis])
    indices = drawn if count is None else [make.rng.randrange(-shape[axis], shape[axis]) for _ in range(count)]
    return make.add("Gather", x, make.constant(indices, np.int64), axis=axis)


def axes_of_one(make: Maker, x: str) -> str:
    shape = make.shape(x)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if ones and make.rng.random() < 0.6:
        return make.add("Squeeze", x, make.constant(_some(make, ones), np.int64))
    if make.rng.random() < 0.3:
        return make.add("Flatten", x, axis=make.rng.randint(-len(shape), len(shape)))
    return make.add("Unsqueeze", x, make.constant(_some(make, range(-len(shape) - 1, len(shape) + 1), 1), np.int64))


def depth(make: Maker, x: str) -> str:
    x = with_rank(make, x, 4)
    if make.rng.random() < 0.5:
        return make.add("SpaceToDepth", x, blocksize=2)
    return make.add("DepthToSpace", x, blocksize=2, mode=make.rng.choice(["DCR", "CRD"]))


# --- Ranks: what broadcasts, and what names its axes.


def _broadcast(make: Maker, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts with another: fewer axes, ones in it, or ones before it."""
    sizes = [make.rng.choice([size, size, 1]) for size in shape][make.rng.choice([0, 0, 1, len(shape)]) :]
    return (*[1] * make.rng.choice([0, 0, 0, 1]), *sizes)


def _operand(make: Maker, x: str) -> str:
    """A constant or a tensor that broadcasts with one."""
    same = [name for name in make.floats() if make.shape(name) == make.shape(x)]
    if make.rng.random() < 0.3:
        return make.rng.choice(same)
    return make.constant(make.noise(_broadcast(make, make.shape(x))))


def binary(make: Maker, x: str) -> str:
    op = make.rng.choice(["Add", "Sub", "Mul", "Div", "Min", "Max", "Mean", "Sum"])
    other = _operand(make, x)
    if op == "Div":
        other = make.constant(np.abs(make.noise(_broadcast(make, make.shape(x)))) + 0.5)
    elif make.rng.random() < 0.5:
        return make.add(op, other, x)
    return make.add(op, x, other)


PLAIN = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus", "Softsign", "Neg", "Abs", "Erf", "Mish", "Identity", "Exp")
WITH_ALPHA = ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu")


def activation(make: Maker, x: str) -> str:
    op = make.rng.choice([*PLAIN, *WITH_ALPHA, "Sin", "Floor", "Round", "Gelu", "HardSigmoid", "Clip", "PRelu"])
    if op == "Clip":
        bounds = [make.constant(make.rng.choice([-1.0, 0.0])), make.constant(make.rng.choice([1.0, 6.0]))]
        return make.add(op, x, *make.rng.choice([bounds, bounds[:1], ["", bounds[1]]]))
    if op == "PRelu":
        return make.add(op, x, make.constant(make.noise(_broadcast(make, make.shape(x))[-len(make.shape(x)) :])))
    return make.add(op, x, **({"alpha": make.rng.choice([0.1, 1.3])} if op in WITH_ALPHA else {}))


def where(make: Maker, x: str) -> str:
    condition = make.add(make.rng.choice(["Greater", "LessOrEqual"]), x, _operand(make, x))
    return make.add("Where", condition, *make.rng.sample([x, _operand(make, x)], 2))


def reduction(make: Maker, x: str) -> str:
    op = make.rng.choice(["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod"])
    axes = _some(make, range(-len(make.shape(x)), 0))
    keep = make.rng.randint(0, 1)
    return make.add(f"Reduce{op}", x, *make.rng.choice([[make.constant(axes, np.int64)]] * 3 + [[]]), keepdims=keep)


def of_an_axis(make: Maker, x: str) -> str:
    op = make.rng.choice(["Softmax", "LogSoftmax", "Hardmax", "CumSum", "ArgMax", "LpNormalization", "TopK"])
    axis = _axis(make, x)
    if op == "CumSum":
        flags = {"exclusive": make.rng.randint(0, 1), "reverse": make.rng.randint(0, 1)}
        return make.add(op, x, make.constant(axis, np.int64), **flags)
    if op == "ArgMax":
        found = make.add(op, x, axis=axis, keepdims=make.rng.randint(0, 1), select_last_index=make.rng.randint(0, 1))
        return make.add("Cast", found, to=FLOAT)
    if op == "TopK":
        count = make.constant([make.rng.randint(1, make.shape(x)[axis])], np.int64)
        values, places = make.add_all(op, x, count, outputs=2, axis=axis, largest=make.rng.randint(0, 1))
        return values if make.rng.random() < 0.5 else make.add("Cast", places, to=FLOAT)
    return make.add(op, x, axis=axis)


def normalization(make: Maker, x: str) -> str:
    op = make.rng.choice(
        ["BatchNormalization", "InstanceNormalization", "LayerNormalization", "LRN", "GroupNormalization"]
    )
    if op == "LayerNormalization":
        axis = _axis(make, x)
        sizes = make.shape(x)[axis % len(make.shape(x)) :]
        return make.add(op, x, *(make.constant(make.noise(sizes)) for _ in range(make.rng.randint(1, 2))), axis=axis)
    x = with_rank(make, x, make.rng.randint(3, 5) if op != "LRN" else 4)
    channels = make.shape(x)[1]
    scale, bias = (make.constant(make.noise((channels,))) for _ in range(2))
    if op == "LRN":
        return make.add(op, x, size=make.rng.choice([1, 3, 5]))
    if op == "GroupNormalization":
        groups = make.rng.choice([each for each in range(1, channels + 1) if channels % each == 0])
        return make.add(op, x, scale, bias, num_groups=groups)
    if op == "BatchNormalization":
        mean, variance = make.constant(make.noise((channels,))), make.constant(np.abs(make.noise((channels,))) + 0.5)
        return make.add(op, x, scale, bias, mean, variance)
    return make.add(op, x, scale, bias)


def product(make: Maker, x: str) -> str:
    """MatMul of any ranks, vectors too, or Gemm with all that it scales and turns."""
    shape = make.shape(x)
    width = make.rng.randint(1, 5)
    if make.rng.random() < 0.4:
        x = with_rank(make, x, 2)
        turn_a, turn_b = make.rng.randint(0, 1), make.rng.randint(0, 1)
        rows, depth_ = make.shape(x)[::-1] if turn_a else make.shape(x)
        other = make.constant(make.noise((width, depth_) if turn_b else (depth_, width)))
        bias = [make.constant(make.noise(make.rng.choice([(), (width,), (1, width), (rows, 1)])))]
        scales = {"alpha": make.rng.choice([1.0, 0.5]), "beta": make.rng.choice([1.0, 2.0])}
        return make.add("Gemm", x, other, *bias[: make.rng.randint(0, 1)], transA=turn_a, transB=turn_b, **scales)
    if make.rng.random() < 0.5:
        sizes = [(*_broadcast(make, shape[:-2]), shape[-1], width), shape[-1:]]
        return make.add("MatMul", x, make.constant(make.noise(make.rng.choice(sizes))))
    return make.add("MatMul", make.constant(make.noise(make.rng.choice([(width, *shape[-2:][:1]), shape[-2:][:1]]))), x)


# --- Coordinates: where a window or a sample lies.


def _windows(make: Maker, axes: int) -> dict[str, Any]:
    kernel = [make.rng.randint(1, 3) for _ in range(axes)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [make.rng.choice([1, 1, 2, 3]) for _ in kernel]}
    if make.rng.random() < 0.3:
        attributes["auto_pad"] = make.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    else:
        attributes["pads"] = [make.rng.randint(0, size - 1) for size in (*kernel, *kernel)]
        attributes["dilations"] = [make.rng.choice([1, 1, 2]) for _ in kernel]
    return attributes


def convolution(make: Maker, x: str) -> str:
    x = with_rank(make, x, make.rng.choice([3, 4, 4, 4, 5]))
    channels, attributes = make.shape(x)[1], _windows(make, len(make.shape(x)) - 2)
    kernel = attributes["kernel_shape"]
    group = make.rng.choice([each for each in (1, 2, channels) if channels % each == 0])
    if make.rng.random() < 0.3:
        filters = make.noise((channels, make.rng.randint(1, 2), *attributes["kernel_shape"]))
        extra = {"output_padding": [make.rng.randrange(each) for each in attributes["strides"]]}
        if attributes.get("auto_pad", "VALID") != "VALID":  # ONNX Runtime makes fewer than ONNX says of a longer stride
            attributes["strides"] = [min(pair) for pair in zip(attributes["strides"], kernel, strict=True)]
        return make.add("ConvTranspose", x, make.constant(filters), group=group, **attributes, **extra)
    filters = make.noise((group * make.rng.randint(1, 3), channels // group, *attributes["kernel_shape"]))
    bias = [make.constant(make.noise(filters.shape[:1]))] if make.rng.random() < 0.5 else []
    return make.add("Conv", x, make.constant(filters), *bias, group=group, **attributes)


def pool(make: Maker, x: str) -> str:
    op = make.rng.choice(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"])
    x = with_rank(make, x, make.rng.choice([3, 4, 4, 5]))
    if op.startswith("Global"):
        return make.add(op, x)
    attributes = _windows(make, len(make.shape(x)) - 2) | {"ceil_mode": make.rng.randint(0, 1)}
    if any(window > size for window, size in zip(attributes["kernel_shape"], make.shape(x)[2:], strict=True)):
        raise Refused("ONNX Runtime rounds a negative number of windows up")
    if op == "AveragePool":
        attributes["count_include_pad"] = make.rng.randint(0, 1)
    return make.add(op, x, **attributes)


RESIZES = tuple(
    itertools.product(
        ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"],
        ["nearest", "linear", "cubic"],
        ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"],
    )
)


def resize(make: Maker, x: str) -> str:
    """Sizes or scales that may give no whole size, larger and smaller, of two axes."""
    x = with_rank(make, x, 4)
    coordinates, mode, rounding = make.rng.choice(RESIZES)
    modes: dict[str, Any] = {"coordinate_transformation_mode": coordinates, "mode": mode, "nearest_mode": rounding}
    if mode == "cubic":
        modes |= {"cubic_coeff_a": make.rng.choice([-0.75, -0.5]), "exclude_outside": make.rng.randint(0, 1)}
    if make.rng.random() < 0.5:
        scales = make.constant([1, 1, *(make.rng.choice([0.6, 1, 1.7, 2, 2.5, 3]) for _ in range(2))])
        return make.add("Resize", x, "", scales, **modes)
    sizes = [*make.shape(x)[:2], *(make.rng.randint(1, 11) for _ in range(2))]
    return make.add("Resize", x, "", "", make.constant(sizes, np.int64), **modes)


def sample(make: Maker, x: str) -> str:
    x = with_rank(make, x, 4)
    grid = make.noise((make.shape(x)[0], make.rng.randint(1, 4), make.rng.randint(1, 4), 2)) * 0.6
    modes = {"mode": make.rng.choice(["linear", "nearest"]), "align_corners": make.rng.randint(0, 1)}
    padding = make.rng.choice(["zeros", "border", "reflection"])
    return make.add("GridSample", x, make.constant(grid), padding_mode=padding, **modes)


# --- Quantised axes.


def _scales(make: Maker, sizes: Sequence[int], kind: Any) -> tuple[str, str]:
    zeros = np.round(make.noise(sizes) * 10).astype(np.int32) + (128 if kind == np.uint8 else 0)
    return make.constant(np.abs(make.noise(sizes)) * 0.02 + 0.01), make.constant(zeros, kind)


def quantize(make: Maker, x: str) -> str:
    """To eight bits and back, of the whole or of an axis, at times with what only moves between the two."""
    kind = make.rng.choice([np.int8, np.uint8])
    axis = make.rng.choice([None, _axis(make, x)]) if make.shape(x) else None
    sizes = () if axis is None else make.shape(x)[axis : axis + 1 or None]
    scale, zero = _scales(make, sizes, kind)
    place = {} if axis is None else {"axis": axis}
    quantized = make.add("QuantizeLinear", x, scale, zero, **place)
    if axis is None and make.rng.random() < 0.5:
        quantized = make.rng.choice([transpose, slice_, reshape, axes_of_one])(make, quantized)
    return make.add("DequantizeLinear", quantized, scale, zero, **place)


def quantized_product(make: Maker, x: str) -> str:
    """QLinearMatMul or MatMulInteger, with a scale for each column at times."""
    scale, zero = _scales(make, (), np.uint8)
    quantized = make.add("QuantizeLinear", x, scale, zero)
    depth_, width = make.shape(x)[-1], make.rng.randint(1, 5)
    weights = make.constant(np.round(make.noise((depth_, width)) * 60), np.int8)
    sizes = make.rng.choice([(), (width,)])
    if make.rng.random() < 0.5:
        zeros = make.constant(np.round(make.noise(()) * 3), np.int8)
        total = make.add("MatMulInteger", quantized, weights, zero, zeros)
        return make.add("Mul", make.add("Cast", total, to=FLOAT), make.constant(np.abs(make.noise(sizes)) * 1e-3))
    w_scale = make.constant(np.abs(make.noise(sizes)) * 0.02 + 0.01)
    w_zero = make.constant(np.zeros(sizes), np.int8)
    y_scale, y_zero = make.constant(0.11), make.constant(121, np.uint8)
    y = make.add("QLinearMatMul", quantized, scale, zero, weights, w_scale, w_zero, y_scale, y_zero)
    return make.add("DequantizeLinear", y, y_scale, y_zero)


def quantized_convolution(make: Maker, x: str) -> str:
    x = with_rank(make, x, 4)
    channels, attributes = make.shape(x)[1], _windows(make, 2)
    filters = make.rng.randint(1, 4)
    scale, zero = _scales(make, (), np.uint8)
    quantized = make.add("QuantizeLinear", x, scale, zero)
    weights = make.constant(np.round(make.noise((filters, channels, *attributes["kernel_shape"])) * 60), np.int8)
    sizes = make.rng.choice([(), (filters,)])
    if make.rng.random() < 0.3:
        y = make.add("ConvInteger", quantized, weights, zero, **attributes)
        return make.add("Mul", make.add("Cast", y, to=FLOAT), make.constant(1e-3))
    w_scale, w_zero = make.constant(np.abs(make.noise(sizes)) * 0.02 + 0.01), make.constant(np.zeros(sizes), np.int8)
    if make.rng.random() < 0.5:
        place = {"axis": 0} if sizes else {}
        real = [make.add("DequantizeLinear", quantized, scale, zero)]
        real.append(make.add("DequantizeLinear", weights, w_scale, w_zero, **place))
        return make.add("Conv", *real, **attributes)
    y_scale, y_zero = make.constant(0.13), make.constant(117, np.uint8)
    bias = make.constant(np.round(make.noise((filters,)) * 100), np.int32)
    y = make.add("QLinearConv", quantized, scale, zero, weights, w_scale, w_zero, y_scale, y_zero, bias, **attributes)
    return make.add("DequantizeLinear", y, y_scale, y_zero)


STRIDES: tuple[Step, ...] = (slice_, slice_, transpose, reshape, concat, pad, split, repeat, gather, axes_of_one, depth)
RANKS: tuple[Step, ...] = (binary, binary, activation, where, reduction, of_an_axis, normalization, product)
COORDINATES: tuple[Step, ...] = (convolution, pool, resize, resize, sample)
QUANTIZED: tuple[Step, ...] = (quantize, quantize, quantized_product, quantized_convolution)
KINDS: Mapping[str, tuple[Step, ...]] = {
    "strides": (*STRIDES, convolution, binary, activation),
    "ranks": (*RANKS, *RANKS, axes_of_one, reshape, convolution),
    "coordinates": (*COORDINATES, activation, slice_, binary),
    "quantized": (*QUANTIZED, slice_, transpose, convolution, activation),
    "any": (*STRIDES, *RANKS, *COORDINATES, *QUANTIZED),
}
