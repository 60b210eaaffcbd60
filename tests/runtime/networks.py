"""Small networks that together lower to every kernel: each takes a GraphMaker and returns its graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.graph import Graph
from runtime.semantics.generic_forms import gather_form
from tests.runtime.graphs import GraphMaker


def residual_block(m: GraphMaker) -> Graph:
    x = m.input(1, 6, 9, 7)
    a = m.conv(x, 20, activation="relu")
    b = m.conv(a, 20, k=1, residual=a, activation="clip", alpha=0.0, beta=6.0)
    return m.finish(m.conv(b, 5, strides=(2, 2)))


def depthwise_and_groups(m: GraphMaker) -> Graph:
    x = m.input(2, 12, 12, 11)
    a = m.conv(x, 12, group=12, activation="relu", pads=(0, 1, 1, 0), strides=(2, 1))
    b = m.conv(a, 12, dilations=(1, 2), pads=(0,) * 4)
    return m.finish(m.conv(b, 18, group=3, dilations=(2, 1)))


def concat_in_place(m: GraphMaker) -> Graph:
    x = m.input(1, 5, 6, 6)
    a, b = m.conv(x, 7), m.conv(x, 3, k=1, pads=(0,) * 4)
    inner = m.add("Concat", a, b, axis=1)
    pool = m.add("MaxPool", inner, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
    outer = m.add("Concat", inner, pool, x, axis=1)
    return m.finish(m.conv(outer, 9, k=1, pads=(0,) * 4), inner)


def dense_chain(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 5, 5), 8)
    for _ in range(3):
        channels = m.graph.shape(x)[1]
        a = m.add("BatchNormalization", x, m.weights(channels), m.weights(channels), activation="relu")
        x = m.add("Concat", x, m.conv(a, 4), axis=1)
    return m.finish(x)


def classifier(m: GraphMaker) -> Graph:
    x = m.conv(m.input(3, 3, 8, 8), 10, activation="relu")
    mean = m.add("ReduceMean", x, axes=(2, 3), keepdims=True)
    flat = m.add("Reshape", mean, shape=(3, 10))
    y = m.add("FullyConnected", flat, m.weights(7, 10), m.weights(7), activation="relu")
    return m.finish(m.add("Softmax", y, axis=1))


def integer_weights(m: GraphMaker) -> Graph:
    """Of eight and four bits, for one row, for many and for pixels, with scales of rows and of groups."""
    x = m.input(1, 64)
    y = m.add("FullyConnected", x, m.multiples(96, 64, bits=8), m.weights(96), activation="relu")
    row = m.add("FullyConnected", y, m.multiples(33, 96, bits=4, group=32))
    rows = m.add("FullyConnected", m.input(11, 64), m.multiples(96, 64, bits=4))
    many = m.add("FullyConnected", rows, m.multiples(50, 96, bits=8, group=16), m.weights(50))
    pixels = m.conv(m.input(1, 8, 7, 6), 16, w=m.multiples(16, 8, 3, 3, bits=8), activation="relu")
    return m.finish(row, many, m.conv(pixels, 70, 1, w=m.multiples(70, 16, 1, 1, bits=4)))


def reshape_between(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 4, 6, 5), 6)
    flat = m.add("Reshape", x, shape=(1, 5, 6, 6))
    t = m.add("Transpose", flat, perm=(0, 3, 1, 2))
    return m.finish(m.conv(t, 4), m.add("Reshape", x, shape=(180,)))


def shuffle_and_slice(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 7, 5), 12)
    s = m.add("ChannelShuffle", x, group=3)
    left = m.add("Slice", s, starts=(2,), ends=(9,), axes=(1,), steps=(1,))
    cut = m.add("Slice", s, starts=(6, 1), ends=(0, 5), axes=(2, 3), steps=(-2, 2))
    return m.finish(m.conv(left, 5), cut)


def mirrored(m: GraphMaker) -> Graph:
    """Slices that keep the size of an axis and turn it, alone and beside one that is a view."""
    x = m.conv(m.input(1, 3, 6, 5), 16)
    back = {"starts": (4,), "ends": (-1,), "axes": (3,), "steps": (-1,)}
    half = m.add("Slice", x, starts=(8, 4), ends=(16, -1), axes=(1, 3), steps=(1, -1))
    rows = m.add("Slice", m.input(6, 5), starts=(1, 4), ends=(4, -1), axes=(0, 1), steps=(1, -1))
    return m.finish(m.conv(m.add("Slice", x, **back), 4), m.add("Relu", half), m.add("Relu", rows))


def super_resolution(m: GraphMaker) -> Graph:
    x = m.conv(m.input(2, 3, 5, 4), 20)
    wide = m.add("DepthToSpace", x, blocksize=2, mode="CRD")
    deep = m.add("SpaceToDepth", m.conv(wide, 3), blocksize=2, mode="CRD")
    joined = m.add("Concat", deep, m.conv(x, 4), axis=1)
    return m.finish(m.add("DepthToSpace", m.conv(joined, 12), blocksize=2, mode="DCR"), wide)


def space_to_depth_first(m: GraphMaker) -> Graph:
    deep = m.add("SpaceToDepth", m.input(1, 16, 4, 6), blocksize=2, mode="DCR")
    return m.finish(m.add("DepthToSpace", m.conv(deep, 64), blocksize=2, mode="DCR"))


def broadcasting(m: GraphMaker) -> Graph:
    x = m.conv(m.input(2, 3, 4, 5), 6)
    y = m.input(2, 6, 4, 5)
    a = m.add("Add", x, y, activation="relu")
    b = m.add("Mul", a, m.weights(6, 1, 1))
    gate = m.add("Sigmoid", m.add("ReduceMean", b, axes=(2, 3), keepdims=True))
    c = m.add("Mul", b, gate)
    d = m.add("PRelu", m.add("Sub", c, m.weights(4, 5)), m.weights(6, 1, 1))
    return m.finish(m.add("Max", d, m.add("Div", y, m.graph.add_constant("half", np.float32(0.5).reshape(1)))))


def normalised(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 6, 6), 11, activation="relu")
    lrn = m.add("LRN", x, alpha=0.1, beta=0.75, bias=1.0, size=5)
    pool = m.add("AveragePool", lrn, kernel=(3, 2), strides=(2, 2), pads=(1, 0, 0, 1), count_include_pad=False)
    return m.finish(m.add("Softmax", pool, axis=1), m.add("Softmax", pool, axis=3), m.add("Softmax", pool, axis=2))


def resized(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 5, 4), 5)
    common = {"nearest_mode": "round_prefer_floor", "sizes": (10, 12), "scales": (2.0, 3.0)}
    a = m.add("Resize", x, mode="linear", coordinate_transformation_mode="half_pixel", **common)
    b = m.add("Resize", x, mode="nearest", coordinate_transformation_mode="asymmetric", **common)
    return m.finish(a, b)


def padded(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 5, 4), 5)
    pads = (0, 1, 2, 1, 0, 0, 1, 2)
    return m.finish(
        *(m.add("Pad", x, pads=pads, value=0.5, mode=mode) for mode in ("constant", "edge")),
        m.add("Pad", x, pads=(0, 0, 2, 1, 0, 0, 1, 2), value=0.0, mode="reflect"),
    )


def reductions(m: GraphMaker) -> Graph:
    x = m.conv(m.input(2, 3, 5, 4), 6)
    kept = [m.add("ReduceMax", x, axes=axes, keepdims=True) for axes in ((1,), (2,), (1, 3), (0, 2))]
    return m.finish(
        *kept,
        m.add("ReduceSum", x, axes=(1, 2), keepdims=False),
        m.add("ReduceMin", x, axes=(0, 1, 2, 3), keepdims=False),
    )


def matrices(m: GraphMaker) -> Graph:
    a, b = m.input(2, 3, 5, 4), m.input(2, 3, 4, 7)
    y = m.add("MatMul", a, b)
    z = m.add("MatMul", y, m.weights(7, 3))
    return m.finish(m.add("Tanh", z), m.add("Exp", y))


def cache_joined(m: GraphMaker) -> Graph:
    """Inputs that lie where they are joined with new values, and outputs that are either in another shape."""
    cache, new = m.input(1, 5, 8), m.add("Reshape", m.add("Tanh", m.input(2, 8)), shape=(1, 2, 8))
    joined = m.add("Concat", cache, new, axis=1)
    y = m.add("MatMul", joined, m.weights(8, 3))
    return m.finish(y, new, m.add("Reshape", cache, shape=(5, 8)), m.add("Reshape", joined, shape=(7, 8)))


def group_normalised(m: GraphMaker) -> Graph:
    """Every normalisation that images have a kernel for, and those that go to buffers: 2 channels a group, rows."""
    x = m.conv(m.input(2, 3, 6, 5), 12)
    y = m.add("LayerNormalization", x, m.weights(12), m.weights(12), axes=(1,), epsilon=0.01, centered=True)
    y = m.add("GroupNormalization", y, m.weights(12), m.weights(12), groups=3, epsilon=0.01, activation="gelu")
    y = m.add("GroupNormalization", y, "", m.weights(12), groups=12, epsilon=0.01, activation="swish", alpha=1.0)
    y = m.add("LayerNormalization", y, axes=(1,), epsilon=0.01, centered=False)
    y = m.add("LogSoftmax", m.add("Mish", y), axis=1)
    z = m.add("GroupNormalization", y, groups=6, epsilon=0.01)
    rows = m.add("LayerNormalization", m.add("Reshape", z, shape=(2, 12, 30)), axes=(1, 2), epsilon=0.01, centered=True)
    runs = m.add("GroupNormalization", rows, m.weights(12), groups=4, epsilon=0.01)
    return m.finish(m.add("Selu", z, alpha=1.5, beta=1.25), m.add("LogSoftmax", runs, axis=2))


def attended(m: GraphMaker) -> Graph:
    """Heads in one tensor with a mask, and products of matrices that are transposed, repeat, or need two loops."""
    x = m.input(2, 9, 36)
    packed = m.add("FullyConnected", x, m.weights(72, 36), m.weights(72), activation="gelu")
    strides = dict.fromkeys(("q_strides", "k_strides", "v_strides"), (648, 8, 72, 1))
    attributes = {"extents": (2, 3, 9, 9, 8, 8), "offsets": (0, 24, 48), "mask_strides": (9, 0, 0, 1)}
    attributes |= {
        "shape": (2, 9, 24),
        "y_strides": (216, 8, 24, 1),
        "members": 1,
        "scale": 0.5,
        "causal": True,
        "safe": False,
    }
    values = m.add("Attention", packed, packed, packed, m.input(2, 1, 1, 9), **strides, **attributes)
    a, b = m.input(2, 1, 3, 9, 8), m.input(5, 1, 7, 8)
    product = {"shape": (2, 5, 3, 9, 7), "summed": (8,)}
    product |= {"a_strides": (216, 0, 72, 8, 0, 1), "b_strides": (0, 56, 0, 0, 8, 1)}
    repeated = m.add("MatMul", m.input(3, 1, 4, 5), m.input(1, 2, 5, 6))
    return m.finish(values, m.add("StridedProduct", a, b, **product), repeated)


def attended_alone(m: GraphMaker) -> Graph:
    """Attention of places to themselves alone: values as they lie, of one sequence, and of two that lie apart."""
    outputs = []
    for batch in (1, 2):
        packed = m.add("FullyConnected", m.input(batch, 1, 36), m.weights(72, 36), m.weights(72))
        strides = dict.fromkeys(("q_strides", "k_strides", "v_strides"), (72, 8, 72, 1))
        attributes = {"extents": (batch, 3, 1, 1, 8, 8), "offsets": (0, 24, 48), "mask_strides": (0, 0, 0, 0)}
        attributes |= {"shape": (batch, 1, 24), "y_strides": (24, 8, 24, 1), "members": 1, "scale": 0.5}
        attended = m.add("Attention", packed, packed, packed, causal=False, safe=False, **strides, **attributes)
        outputs += [attended, m.add("FullyConnected", attended, m.weights(5, 24), m.weights(5))]
    return m.finish(*outputs)


def hidden_keys(m: GraphMaker) -> Graph:
    """Attention that hides all keys of a query, and some of another, by infinity, or by what is beyond half's range.

    The last mask is a product, in which 0 times that is 0.
    """
    x, mask = m.input(2, 9, 36), np.zeros((9, 9), np.float32)
    mask[3], mask[5, 2:] = -np.inf, -np.inf
    strides = dict.fromkeys(("q_strides", "k_strides", "v_strides"), (324, 12, 36, 1))
    attributes = {"extents": (2, 3, 9, 9, 12, 12), "offsets": (0, 0, 0), "mask_strides": (0, 0, 9, 1)}
    attributes |= {
        "shape": (2, 9, 36),
        "y_strides": (324, 12, 36, 1),
        "members": 1,
        "scale": 0.5,
        "causal": False,
        "safe": True,
    }
    hidden, finite = m.graph.add_constant("hidden", mask), np.maximum(mask, np.float32(-3e38))
    finite[3] = 0
    lowered = m.graph.add_constant("lowered", finite)
    first = m.add("Attention", x, x, x, hidden, **strides, **attributes)
    second = m.add("Attention", first, first, x, lowered, **strides, **attributes | {"safe": False})
    told = m.add("Mul", m.add("Relu", m.input(9)), m.graph.add_constant("lowest", np.asarray(-3e38, np.float32)))
    attributes |= {"mask_strides": (0, 0, 0, 1), "safe": False}
    return m.finish(first, second, m.add("Attention", x, x, first, told, **strides, **attributes))


def gated(m: GraphMaker) -> Graph:
    """Layers with a gate and a residual, as SwiGLU has them, of one row and of several."""
    outputs = []
    for rows in (1, 7):
        x = m.input(1, rows, 20)
        gate = m.add("FullyConnected", x, m.weights(37, 20), activation="swish", alpha=1.0)
        wide = m.add("FullyConnected", x, m.weights(37, 20), m.weights(37), "", gate)
        outputs.append(m.add("FullyConnected", wide, m.weights(20, 37), "", x, activation="relu"))
    return m.finish(*outputs)


def looked_up(m: GraphMaker) -> Graph:
    """Rows of what a layer computes, by indices that count from either end, and two elements of each of these rows."""
    rows = m.graph.add_constant("rows", np.asarray([[4, -1, 0], [-5, 2, 2]]))
    table = m.add("FullyConnected", m.input(2, 5, 9), m.weights(7, 9))
    read = m.add("IndexedRead", table, rows, **gather_form((2, 5, 7), (2, 3), 1))
    pairs = m.graph.add_constant("pairs", np.resize(np.asarray([3, -7, 6, -1, 0], np.int32), (12, 2)))
    places = {"shape": (12, 2), "strides": (7, 0), "index_strides": (2, 1), "component_stride": 0}
    elements = m.add("IndexedRead", m.add("Tanh", read), pairs, limits=(7,), limit_strides=(1,), **places)
    return m.finish(read, elements)


def nhwc_boundary(m: GraphMaker) -> Graph:
    x = m.add("Transpose", m.input(2, 5, 7, 6), perm=(0, 3, 1, 2))
    return m.finish(m.add("Transpose", m.conv(x, 10), perm=(0, 2, 3, 1)), x)


NETWORKS: list[Callable[[GraphMaker], Graph]] = [
    *(residual_block, depthwise_and_groups, concat_in_place, dense_chain, classifier, reshape_between),
    *(shuffle_and_slice, broadcasting, normalised, resized, padded, reductions, matrices, cache_joined, nhwc_boundary),
    *(
        group_normalised,
        attended,
        attended_alone,
        hidden_keys,
        gated,
        looked_up,
        mirrored,
        super_resolution,
        space_to_depth_first,
        integer_weights,
    ),
]
