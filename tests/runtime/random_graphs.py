"""Draws small graphs for property tests: any sequence of operators, tensors read several times, any outputs."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from runtime.graph import Graph
from tests.runtime.graphs import GraphMaker

Step = Callable[[GraphMaker, str, st.DrawFn], str]
WINDOW = {"kernel": (2, 2), "strides": (1, 1), "pads": (0, 1, 1, 0)}  # none of its windows is padding alone
LOWEST = float(np.finfo(np.float32).min)


def _constant(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    channels = make.graph.shape(x)[1]
    name = make.weights(*draw(st.sampled_from([(), (channels, 1, 1), (1, channels, 1, 1)])))
    make.graph.constants[name] = np.abs(make.graph.constants[name]) + np.float32(0.5)
    return name


def _conv(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    channels = make.graph.shape(x)[1]
    group = draw(st.sampled_from([1, channels]))
    return make.conv(x, draw(st.sampled_from([channels, 2 * channels])), k=draw(st.sampled_from([1, 3])), group=group)


def _conv_transpose(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    channels = make.graph.shape(x)[1]
    group = draw(st.sampled_from([1, channels]))
    attributes = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 0, 0, 1), "output_padding": (0, 0)}
    filters, bias = make.weights(channels, 4 // group or 1, 2, 2), make.weights((4 // group or 1) * group)
    return make.add("ConvTranspose", x, filters, bias, **attributes, group=group)


def _pad(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    value = draw(st.sampled_from([0.0, 1.0, LOWEST]))
    top, left, bottom, right = (draw(st.integers(0, 1)) for _ in range(4))
    if value == LOWEST:
        left = bottom = 0  # where the window below pads too: its maximum would be the padding's
    pads = (0, 0, top, left, 0, 0, bottom, right)
    padded = make.add("Pad", x, pads=pads, value=value, mode="constant")
    return padded if value != LOWEST else make.add("MaxPool", padded, **WINDOW)


def _binary(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """Adds an arithmetic operator of the tensor and a constant, or of it and any tensor of the same shape."""
    op = draw(st.sampled_from(["Add", "Sub", "Mul", "Div"]))
    same = [name for name in make.graph.tensors if make.graph.shape(name) == make.graph.shape(x)]
    other = _constant(make, x, draw) if op == "Div" or draw(st.booleans()) else draw(st.sampled_from(same))
    return make.add(op, *((x, other) if op == "Div" or draw(st.booleans()) else (other, x)))


def _activation(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    op = draw(st.sampled_from(["Relu", "Clip", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish"]))
    parameters = {"Clip": {"alpha": 0.0, "beta": 6.0}, "HardSigmoid": {"alpha": float(np.float32(1 / 6)), "beta": 0.5}}
    return make.add(op, x, **parameters.get(op, {}))


def _transpose(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    return make.add("Transpose", x, perm=draw(st.sampled_from([(0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 1, 2)])))


def _reshape(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """Adds a Reshape to five axes and one back, at times with the Transpose that makes them a channel shuffle."""
    n, c, h, w = shape = make.graph.shape(x)
    groups = draw(st.sampled_from([1, 2])) if c % 2 == 0 else 1
    middle = make.add("Reshape", x, shape=(n, groups, c // groups, h, w))
    if draw(st.booleans()):
        middle = make.add("Transpose", middle, perm=(0, 2, 1, 3, 4))
    return make.add("Reshape", middle, shape=shape)


def _slice(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """Adds a Slice of one or two axes, forwards or backwards."""
    shape = make.graph.shape(x)
    longer = [axis for axis, size in enumerate(shape) if size > 1]
    if not longer:
        return make.add("Identity", x)
    axes = sorted(draw(st.sets(st.sampled_from(longer), min_size=1, max_size=2)))
    parts = [draw(st.sampled_from(_ranges(shape[axis]))) for axis in axes]
    starts, ends, steps = zip(*((part.start, max(part.stop, -1), part.step) for part in parts), strict=True)
    return make.add("Slice", x, axes=tuple(axes), starts=starts, ends=ends, steps=steps)


def _ranges(size: int) -> list[range]:
    """Parts of an axis, forwards and backwards, and the whole of it backwards."""
    whole = range(size)
    parts = [whole[::2], whole[1::2], whole[1:], whole[:-1]]
    return [*parts, *(part[::-1] for part in (whole, *parts))]


def _concat(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """Joins the tensor with itself, or with any that has its shape, along any axis."""
    same = [name for name in make.graph.tensors if make.graph.shape(name) == make.graph.shape(x)]
    return make.add("Concat", x, draw(st.sampled_from(same)), axis=draw(st.integers(0, 3)))


def _blocks_of_pixels(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """Adds DepthToSpace where the channels allow it, and SpaceToDepth back, at times written out."""
    n, c, h, w = make.graph.shape(x)
    if c % 4:
        return make.add("Identity", x)
    mode = draw(st.sampled_from(["DCR", "CRD"]))
    if draw(st.booleans()):
        wide = make.add("DepthToSpace", x, blocksize=2, mode=mode)
    else:
        shape = (n, 2, 2, c // 4, h, w) if mode == "DCR" else (n, c // 4, 2, 2, h, w)
        order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
        turned = make.add("Transpose", make.add("Reshape", x, shape=shape), perm=order)
        wide = make.add("Reshape", turned, shape=(n, c // 4, 2 * h, 2 * w))
    return make.add("SpaceToDepth", wide, blocksize=2, mode=draw(st.sampled_from(["DCR", "CRD"])))


def _fully_connected(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    n, *rest = make.graph.shape(x)
    flat = make.add("Reshape", x, shape=(n, int(np.prod(rest))))
    y = make.add("FullyConnected", flat, make.weights(4, int(np.prod(rest))))
    return make.add("Reshape", y, shape=(n, 4, 1, 1))


def _batch_norm(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    channels = make.graph.shape(x)[1]
    return make.add("BatchNormalization", x, make.weights(channels), make.weights(channels))


STEPS: tuple[Step, ...] = (
    _conv,
    _conv_transpose,
    _conv,
    _pad,
    _binary,
    _binary,
    _activation,
    _activation,
    _transpose,
    _reshape,
    _blocks_of_pixels,
    _fully_connected,
    _batch_norm,
    lambda make, x, draw: make.add("Identity", x),
    lambda make, x, draw: make.add("MaxPool", x, **WINDOW),
    lambda make, x, draw: make.add("AveragePool", x, **WINDOW, count_include_pad=draw(st.booleans())),
    lambda make, x, draw: make.add("ReduceMean", x, axes=(2, 3), keepdims=True),
    _concat,
    _slice,
    _slice,
    lambda make, x, draw: make.add("Softmax", x, axis=1),
)


@st.composite
def random_graphs(draw: st.DrawFn) -> tuple[Graph, GraphMaker]:
    """A graph of up to 12 steps, each on any tensor so far; the last tensor and some others are outputs."""
    make = GraphMaker(seed=draw(st.integers(0, 99)))
    images = [make.input(draw(st.integers(1, 2)), 2, 3, 4)]
    for _ in range(draw(st.integers(1, 12))):
        x = images[-1] if draw(st.booleans()) else draw(st.sampled_from(images))
        y = draw(st.sampled_from(STEPS))(make, x, draw)
        if make.graph.tensors[y].size <= 2000:
            images.append(y)
    computed = [name for name in images if name not in make.graph.inputs] or [make.add("Relu", images[0])]
    others = draw(st.lists(st.sampled_from(computed), max_size=2, unique=True))
    return make.finish(*dict.fromkeys([computed[-1], *others])), make


CONSUMERS: tuple[Step, ...] = (
    lambda make, x, draw: make.conv(x, 8, k=draw(st.sampled_from([1, 3]))),
    lambda make, x, draw: make.add("MaxPool", x, **WINDOW),
    lambda make, x, draw: make.add("ReduceMean", x, axes=(2, 3), keepdims=True),
    _batch_norm,
    _concat,
    _activation,
    _binary,
    _transpose,
    _reshape,
    _pad,
)


@st.composite
def sliced_graphs(draw: st.DrawFn) -> tuple[Graph, GraphMaker]:
    """A graph whose operators read slices of slices, of an input or of a convolution, in whole blocks or not."""
    make = GraphMaker(seed=draw(st.integers(0, 99)))
    x = make.input(draw(st.integers(1, 2)), draw(st.sampled_from([2, 8, 16])), 4, 5)
    images = [make.conv(x, draw(st.sampled_from([3, 8, 16]))) if draw(st.booleans()) else x]
    for _ in range(draw(st.integers(1, 3))):
        part = draw(st.sampled_from(images))
        for _ in range(draw(st.integers(1, 3))):
            part = _slice(make, part, draw)
        images += [part, draw(st.sampled_from(CONSUMERS))(make, part, draw)]
    return make.finish(draw(st.sampled_from(CONSUMERS))(make, images[-1], draw)), make
