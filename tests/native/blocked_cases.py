"""Launches of the operators on blocked tensors: random tensors of odd sizes, and what NumPy makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from runtime.kernels.codes import Order
from runtime.semantics.unary import Unary
from tests.native import blocked_oracle as oracle
from tests.native.plans import Floats

Activated = tuple[int, float, float]
JUNK = 1e30  # in lanes behind the last channel of an input, which nothing may multiply


@dataclasses.dataclass(frozen=True)
class Launch:
    """A step: tensors in the order of its arguments, its scalars, and the output; `shape` and `channels` say how the
    output is compared: None for channels where it is row-major.

    `weights`: which of the tensors lie in the data file.
    """

    kernel: str
    tensors: tuple[Floats, ...]
    weights: frozenset[int]
    ints: tuple[int, ...]
    floats: tuple[float, ...]
    expected: Floats
    channels: int | None
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A convolution: sizes, `groups` (channels are those of all groups), and what is fused into it."""

    channels: tuple[int, int]
    size: tuple[int, int]
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, left, bottom, right
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    batch: int = 1
    first: int = 0  # 1: the input is NCHW, 2: NHWC
    few: bool = False
    winograd: int = 0
    depthwise: bool = False
    within: int = 1  # channels of a depthwise one's groups
    residual: bool = False
    activation: Activated = oracle.NO_ACTIVATION
    in_half: bool = False

    @property
    def dims(self) -> Mapping[str, int]:
        sizes = zip(self.size, self.kernel, self.stride, self.pads[:2], self.pads[2:], self.dilation, strict=True)
        out = [(n + before + after - (k - 1) * dil - 1) // stride + 1 for n, k, stride, before, after, dil in sizes]
        made = {"batch": self.batch, "in_h": self.size[0], "in_w": self.size[1], "out_h": out[0], "out_w": out[1]}
        for name, values in {"k": self.kernel, "stride": self.stride, "dil": self.dilation}.items():
            made |= {f"{name}_h": values[0], f"{name}_w": values[1]}
        return made | {"pad_t": self.pads[0], "pad_l": self.pads[1]}

    def launch(self, block: int) -> Launch:
        generator = np.random.default_rng(1)
        d = self.dims
        inputs, outputs = self.channels
        groups = inputs // self.within if self.depthwise else self.groups
        x, weights, bias, residual = (
            generator.standard_normal(shape).astype(np.float32)
            for shape in (
                (self.batch, inputs, *self.size),
                (outputs, inputs // groups, *self.kernel),
                (outputs,),
                (self.batch, outputs, d["out_h"], d["out_w"]),
            )
        )
        expected = oracle.convolution(x, weights, bias, d, groups) + (residual if self.residual else 0)
        expected = oracle.activated(expected, *self.activation)
        tensors = (
            (oracle.blocked(x, block, JUNK), x, x.transpose(0, 2, 3, 1))[self.first],
            self._filters(weights, block).astype(np.float16 if self.in_half else np.float32),
            oracle.blocked_values(bias, 1 if self.depthwise else groups, block),
            oracle.blocked(residual, block),
        )
        shape = (self.batch, -(-outputs // block), d["out_h"], d["out_w"], block)
        weights_at = frozenset({1, 2})
        return Launch(
            self._string(block), tensors, weights_at, self._ints, self.activation[1:], expected, outputs, shape
        )

    def _filters(self, weights: Floats, block: int) -> Floats:
        if self.winograd:
            return oracle.winograd_filters(weights, self.winograd, block)
        if self.depthwise:
            return oracle.blocked(weights.transpose(1, 0, 2, 3), block).transpose(1, 0, 2, 3, 4)
        if self.few:
            every = np.pad(weights, ((0, 4 - len(weights)), (0, -weights.shape[1] % block), (0, 0), (0, 0)))
            return every.transpose(0, 2, 3, 1)
        return oracle.blocked_filters(weights, self.groups, block)

    def _string(self, block: int) -> str:
        name = "blocked_winograd" if self.winograd else "blocked_depthwise" if self.depthwise else "blocked_conv2d"
        options = f" ACTIVATION={int(self.activation[0])} RESIDUAL={int(self.residual)} BLOCK={block}"
        options += " WEIGHT_BITS=16" * self.in_half + " FEW=1" * self.few
        return (
            name + options + f" FIRST={self.first}" * bool(self.first) + f" WINO={self.winograd}" * bool(self.winograd)
        )

    @property
    def _ints(self) -> tuple[int, ...]:
        d = self.dims
        sizes = ["k_h", "k_w", "stride_h", "stride_w", "pad_t", "pad_l", "dil_h", "dil_w"]
        if self.depthwise:
            names = ["batch", "in_h", "in_w", "out_h", "out_w"]
            return (*(d[name] for name in names), self.channels[0], *(d[name] for name in sizes), self.within)
        inputs, outputs = (count // self.groups for count in self.channels)
        places = (d["batch"], d["in_h"], d["in_w"], inputs, d["out_h"], d["out_w"], outputs)
        return (*places, *(d[name] for name in sizes), self.groups)


RELU6 = (Unary.CLAMP, 0.0, 6.0)
SWISH = (Unary.SWISH, 1.0, 0.0)
SAME = (1, 1, 1, 1)
CONVOLUTIONS = {
    "1x1": Convolution((24, 72), (5, 7), (1, 1), activation=RELU6),
    "1x1 one pixel": Convolution((40, 10), (1, 1), (1, 1)),
    "1x1 stride 2": Convolution((17, 33), (9, 7), (1, 1), (2, 2), residual=True),
    "1x1 deep": Convolution((1000, 40), (7, 7), (1, 1), residual=True, activation=RELU6),
    "few outputs": Convolution((20, 3), (9, 11), pads=SAME, residual=True, few=True, activation=RELU6),
    "few outputs 5x5": Convolution((33, 4), (7, 9), (5, 5), pads=(2, 2, 2, 2), few=True, batch=2, activation=SWISH),
    "few outputs 1x1": Convolution((64, 1), (5, 7), (1, 1), few=True),
    "3x3": Convolution((20, 50), (9, 11), pads=SAME, activation=RELU6),
    "3x3 unlike pads": Convolution((16, 64), (8, 6), pads=(0, 2, 1, 0), residual=True),
    "3x3 stride 2": Convolution((32, 96), (13, 14), stride=(2, 2), pads=(0, 0, 1, 1)),
    "3x3 of few channels": Convolution((3, 40), (9, 11), pads=SAME, stride=(2, 2)),
    "3x3 deep": Convolution((192, 80), (7, 7), pads=SAME, residual=True, activation=SWISH),
    "3x3 dilated": Convolution((8, 16), (12, 10), pads=(2, 2, 2, 2), dilation=(2, 2)),
    "5x1": Convolution((18, 130), (17, 9), (5, 1), pads=(2, 0, 2, 0)),
    "smaller than its window": Convolution((8, 8), (2, 2), (5, 5), pads=(2, 2, 2, 2)),
    "batch": Convolution((12, 20), (6, 5), pads=SAME, batch=3, residual=True),
    "groups": Convolution((64, 96), (6, 7), pads=SAME, groups=2, batch=2, residual=True),
    "first 3x3 stride 2": Convolution((3, 34), (21, 19), stride=(2, 2), pads=SAME, first=1, activation=RELU6),
    "first 3x3 stride 2, NHWC": Convolution((3, 34), (21, 19), stride=(2, 2), pads=SAME, first=2, activation=RELU6),
    "first of few outputs, NHWC": Convolution(
        (3, 24), (9, 40), stride=(2, 2), pads=(0, 0, 1, 1), first=2, activation=RELU6
    ),
    "first of few outputs, wide": Convolution((2, 7), (6, 27), pads=SAME, first=1, residual=True),
    "first 5x3 dilated, NHWC": Convolution(
        (4, 20), (11, 9), (5, 3), pads=(2, 1, 0, 3), dilation=(1, 2), first=2, batch=2
    ),
    "first 7x7": Convolution((3, 64), (18, 25), (7, 7), (2, 2), (3, 3, 3, 3), first=1, batch=2),
    "first one channel": Convolution((1, 20), (9, 9), (3, 2), first=1, residual=True, activation=SWISH),
    "depthwise": Convolution((37, 37), (9, 12), pads=SAME, depthwise=True, activation=RELU6),
    "depthwise stride 2": Convolution((24, 24), (13, 16), stride=(2, 2), pads=(0, 0, 1, 1), depthwise=True),
    "depthwise 5x5": Convolution((16, 16), (7, 7), (5, 5), pads=(2, 2, 2, 2), depthwise=True, residual=True),
    "depthwise dilated": Convolution((9, 9), (11, 15), pads=(3, 3, 3, 3), dilation=(3, 3), depthwise=True),
    "depthwise dilated rows": Convolution(
        (18, 18), (12, 15), (3, 7), pads=(2, 3, 2, 3), dilation=(2, 1), depthwise=True
    ),
    "depthwise 9x9": Convolution((16, 16), (11, 12), (9, 9), pads=(4, 4, 4, 4), depthwise=True),
    "depthwise batch": Convolution(
        (20, 20), (30, 31), pads=SAME, depthwise=True, batch=2, residual=True, activation=SWISH
    ),
    "depthwise narrow": Convolution((16, 16), (3, 2), pads=SAME, depthwise=True),
    "depthwise column": Convolution((16, 16), (6, 1), pads=SAME, depthwise=True),
    "depthwise wide": Convolution((16, 16), (24, 29), pads=SAME, depthwise=True, residual=True),
    "depthwise of sevens": Convolution((24, 24), (5, 14), pads=SAME, depthwise=True, residual=True, activation=RELU6),
    "depthwise of sevens, stride 2": Convolution((8, 8), (9, 28), stride=(2, 2), pads=(0, 0, 1, 1), depthwise=True),
    "depthwise 5x5 of sevens": Convolution((16, 16), (6, 21), (5, 5), pads=(2, 3, 2, 1), depthwise=True, batch=2),
    "depthwise 5x5 of sevens, stride 2": Convolution((8, 8), (9, 27), (5, 5), (2, 2), (1, 2, 2, 2), depthwise=True),
    "depthwise wide stride 2": Convolution((8, 8), (41, 43), stride=(2, 2), pads=(0, 1, 1, 0), depthwise=True),
    "depthwise 5x5 stride 2": Convolution((8, 8), (9, 21), (5, 5), (2, 2), (1, 2, 2, 1), depthwise=True),
    "depthwise 7x3 stride 3": Convolution((8, 8), (13, 17), (7, 3), (1, 3), (3, 0, 3, 2), (1, 2), depthwise=True),
    "groups of 4": Convolution((36, 36), (9, 13), pads=SAME, depthwise=True, within=4, residual=True, activation=SWISH),
    "groups of 8": Convolution((40, 40), (6, 7), pads=SAME, stride=(2, 1), depthwise=True, within=8, batch=2),
    "groups of 8, stride 2": Convolution((16, 16), (23, 30), stride=(2, 2), pads=SAME, depthwise=True, within=8),
    "groups of 4, narrow": Convolution((20, 20), (5, 3), pads=SAME, depthwise=True, within=4, activation=RELU6),
    "groups of 8, 5x4": Convolution(
        (8, 8), (12, 17), (5, 4), pads=(2, 2, 2, 2), dilation=(1, 2), depthwise=True, within=8, residual=True
    ),
    "depthwise past its image": Convolution((8, 8), (4, 3), (3, 3), (1, 1), (9, 9, 9, 9), (8, 8), depthwise=True),
}
WINOGRADS = {
    f"winograd {tile} {name}": dataclasses.replace(case, winograd=tile)
    for tile in (2, 4)
    for name, case in {
        "": Convolution((20, 50), (9, 11), pads=SAME, activation=RELU6),
        "whole tiles": Convolution((32, 64), (8, 8), pads=SAME, residual=True),
        "no pads": Convolution((8, 24), (7, 6)),
        "deep": Convolution((130, 80), (7, 7), pads=SAME, residual=True, activation=SWISH),
        "wide": Convolution((16, 16), (30, 45), pads=SAME, batch=2),
    }.items()
}

HALVES = {
    f"{name} in half": dataclasses.replace(case, in_half=True)
    for name, case in (CONVOLUTIONS | WINOGRADS).items()
    if not (case.first or case.few or case.depthwise)
}


@dataclasses.dataclass(frozen=True)
class Separable:
    """1x1 (`wide` channels; 0: none), depthwise, 1x1 convolutions as one step; `inner`: activation of the first two."""

    channels: tuple[int, int]
    size: tuple[int, int]
    wide: int = 0
    window: Convolution = Convolution((0, 0), (0, 0), pads=SAME)
    batch: int = 1
    residual: bool = False
    inner: Activated = RELU6
    activation: Activated = oracle.NO_ACTIVATION

    def launch(self, block: int) -> Launch:
        generator = np.random.default_rng(5)
        (inputs, outputs), wide = self.channels, self.wide or self.channels[0]
        d = dataclasses.replace(self.window, channels=(wide, wide), size=self.size, batch=self.batch).dims
        kernel = (d["k_h"], d["k_w"])
        filters = [(wide, 1, *kernel), (outputs, wide, 1, 1)]
        filters = [(wide, inputs, 1, 1), *filters] if self.wide else filters
        weights = [generator.standard_normal(shape).astype(np.float32) for shape in filters]
        biases = [generator.standard_normal(shape[0]).astype(np.float32) for shape in filters]
        x = generator.standard_normal((self.batch, inputs, *self.size)).astype(np.float32)
        residual = generator.standard_normal((self.batch, outputs, d["out_h"], d["out_w"])).astype(np.float32)
        values = x
        for filter_, bias in zip(weights[:-1], biases[:-1], strict=True):
            one = {**d, "k_h": 1, "k_w": 1, "stride_h": 1, "stride_w": 1, "pad_t": 0, "pad_l": 0}
            is_deep = filter_.shape[1:] == (1, *kernel) and filter_ is weights[-2]
            sizes = d if is_deep else one | {"out_h": d["in_h"], "out_w": d["in_w"]}
            values = oracle.activated(
                oracle.convolution(values, filter_, bias, sizes, wide if is_deep else 1), *self.inner
            )
        last = {**d, "in_h": d["out_h"], "in_w": d["out_w"], "k_h": 1, "k_w": 1, "stride_h": 1, "stride_w": 1}
        sums = oracle.convolution(values, weights[-1], biases[-1], last | {"pad_t": 0, "pad_l": 0}, 1)
        expected = oracle.activated(sums + (residual if self.residual else 0), *self.activation)
        packed = [
            oracle.blocked(each.transpose(1, 0, 2, 3), block)
            if each is weights[-2]
            else oracle.blocked_filters(each, 1, block)
            for each in weights
        ]
        tensors = (
            oracle.blocked(x, block, JUNK),
            np.concatenate([each.reshape(-1) for each in packed]),
            np.concatenate([oracle.blocked_values(each, 1, block).reshape(-1) for each in biases]),
            oracle.blocked(residual, block),
        )
        string = f"blocked_separable ACTIVATION={int(self.activation[0])} INNER={int(self.inner[0])} BLOCK={block}"
        string += f" EXPAND={int(self.wide > 0)} RESIDUAL={int(self.residual)}"
        names = ["k_h", "k_w", "stride_h", "stride_w", "pad_t", "pad_l", "dil_h", "dil_w"]
        ints = (self.batch, *self.size, inputs, d["out_h"], d["out_w"], outputs, wide, *(d[name] for name in names))
        floats = (*self.inner[1:], *self.activation[1:])
        shape = (self.batch, -(-outputs // block), d["out_h"], d["out_w"], block)
        return Launch(string, tensors, frozenset({1, 2}), ints, floats, expected, outputs, shape)


def _window(size: int, stride: int, pads: tuple[int, int, int, int], dilation: int = 1) -> Convolution:
    return Convolution((0, 0), (0, 0), (size,) * 2, (stride,) * 2, pads, (dilation,) * 2)


HARD_SWISH = (Unary.HARD_SWISH, 0.0, 0.0)
SEPARABLES = {
    "inverted residual": Separable((20, 20), (13, 17), 50, residual=True),
    "stride 2": Separable((12, 30), (14, 19), 36, _window(3, 2, (0, 0, 1, 1))),
    "5x5": Separable((9, 24), (11, 10), 40, _window(5, 1, (2, 2, 2, 2)), residual=True, inner=HARD_SWISH),
    "5x5 stride 2": Separable((16, 17), (15, 16), 21, _window(5, 2, (1, 2, 2, 1)), activation=HARD_SWISH),
    "dilated": Separable((8, 8), (12, 9), 24, _window(3, 1, (2, 2, 2, 2), 2)),
    "no expansion": Separable((37, 19), (20, 23), batch=2, activation=RELU6),
    "no expansion, no pads": Separable((16, 40), (9, 12), window=_window(3, 1, (0, 0, 0, 0)), residual=True),
    "smaller than its window": Separable((8, 10), (2, 3), 16, _window(5, 1, (2, 2, 2, 2))),
    "batch": Separable((10, 10), (6, 5), 20, batch=3, residual=True, inner=SWISH),
}


def pool(pooling: int, channels: int, size: tuple[int, int], count_pad: int, block: int) -> Launch:
    """3x3 windows of stride 2, padded by 1."""
    x = np.random.default_rng(2).standard_normal((2, channels, *size)).astype(np.float32)
    out = tuple((n + 2 - 3) // 2 + 1 for n in size)
    sizes = {"k_h": 3, "k_w": 3, "stride_h": 2, "stride_w": 2, "pad_t": 1, "pad_l": 1, "dil_h": 1, "dil_w": 1}
    d = {"out_h": out[0], "out_w": out[1], "count_include_pad": count_pad} | sizes
    ints = (2, *size, channels, *out, *sizes.values(), count_pad)
    shape = (2, -(-channels // block), *out, block)
    expected = oracle.pool(x, d, pooling)
    string = f"blocked_pool POOL={pooling} BLOCK={block}"
    return Launch(string, (oracle.blocked(x, block),), frozenset(), ints, (), expected, channels, shape)


def global_pool(channels: int, size: tuple[int, int], block: int) -> Launch:
    """Means of whole planes, of a batch of two."""
    x = np.random.default_rng(3).standard_normal((2, channels, *size)).astype(np.float32)
    ints = (2, *size, channels)
    string, expected = f"blocked_global_pool BLOCK={block}", x.mean(axis=(2, 3))
    return Launch(string, (oracle.blocked(x, block, JUNK),), frozenset(), ints, (), expected, None, expected.shape)


def normalization(channels: int, groups: int, size: tuple[int, int], activation: Activated, block: int) -> Launch:
    """Groups of channels of a batch of two, far from zero."""
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((2, channels, *size)) + 40).astype(np.float32)
    scale, shift = rng.standard_normal((2, channels)).astype(np.float32)
    grouped = x.astype(np.float64).reshape(2, groups, -1)
    deviation = np.sqrt(grouped.var(axis=2, keepdims=True) + 0.01)
    normal = ((grouped - grouped.mean(axis=2, keepdims=True)) / deviation).reshape(x.shape)
    sums = normal * scale[:, None, None] + shift[:, None, None]
    expected = oracle.activated(sums, *activation)
    string = f"blocked_normalization ACTIVATION={int(activation[0])} BLOCK={block}"
    ints, floats = (2, channels, groups, size[0] * size[1]), (0.01, *activation[1:])
    shape = (2, -(-channels // block), *size, block)
    tensors = (oracle.blocked(x, block, JUNK), scale, shift)
    return Launch(string, tensors, frozenset({1, 2}), ints, floats, expected, channels, shape)


def ordered(x: Floats, order: Order, block: int) -> Floats:
    """An NCHW array in another order; zeros behind the last channel."""
    if order == Order.BLOCKED:
        return oracle.blocked(x, block)
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if order == Order.NHWC else x


def reorder(source: Order, target: Order, channels: int, block: int) -> Launch:
    """From one order of elements to another, exactly: the lanes behind the last channel become zero."""
    x = np.random.default_rng(4).standard_normal((2, channels, 5, 7)).astype(np.float32)
    expected = ordered(x, target, block)
    string = f"reorder FROM={int(source)} TO={int(target)} BLOCK={block}"
    ints = (2, channels, 5, 7)
    return Launch(string, (ordered(x, source, block),), frozenset(), ints, (), expected, None, expected.shape)
