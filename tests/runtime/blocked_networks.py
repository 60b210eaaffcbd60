"""Small networks whose operators work on blocked activations, with channels that fill blocks and that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.graph import Graph
from tests.runtime import networks
from tests.runtime.graphs import GraphMaker

NetworkMaker = Callable[[GraphMaker], Graph]


def aligned_concat(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 6, 5), 16)
    parts = [m.conv(x, 32, k=1), m.conv(x, 16), m.add("MaxPool", x, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4)]
    return m.finish(m.conv(m.add("Concat", *parts, axis=1), 20))


def unaligned_concat(m: GraphMaker) -> Graph:
    x = m.conv(m.input(2, 3, 6, 5), 11)
    wide = m.add("Concat", x, m.conv(x, 21), x, m.conv(x, 7), axis=1)
    high = m.add("Concat", wide, m.add("Relu", wide), axis=2)
    return m.finish(m.conv(high, 5))


def ghosts(m: GraphMaker) -> Graph:
    """Parts that begin with a block share their last one with what is behind them; the first is read later, too."""
    x = m.conv(m.input(1, 3, 6, 5), 12, activation="relu")
    joined = m.add("Concat", x, m.conv(x, 12, group=12), m.conv(x, 20), m.conv(x, 3), axis=1)
    mean = m.add("ReduceMean", x, axes=(2, 3), keepdims=True)
    return m.finish(m.add("Mul", m.add("Add", m.conv(joined, 12, k=1), x), mean), m.conv(x, 2))


def squeeze_and_excitation(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 7, 6), 24, activation="relu")
    mean = m.add("ReduceMean", x, axes=(2, 3), keepdims=True)
    gate = m.add("Sigmoid", m.conv(m.conv(mean, 6, k=1, activation="relu"), 24, k=1))
    return m.finish(m.conv(m.add("Mul", x, gate), 9, k=1))


def slices_and_pads(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 9, 8), 40)
    whole = m.add("Slice", x, starts=(16,), ends=(40,), axes=(1,), steps=(1,))
    odd = m.add("Slice", x, starts=(5,), ends=(29,), axes=(1,), steps=(1,))
    window = m.add("Slice", m.add("Add", whole, odd), starts=(7, 1), ends=(0, 8), axes=(2, 3), steps=(-2, 3))
    padded = m.add("Pad", window, pads=(0, 0, 1, 2, 0, 0, 0, 1), value=0.5, mode="constant")
    return m.finish(m.conv(padded, 7), whole)


def grouped(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 3, 5, 6), 32)
    for group in (2, 8, 32, 4):
        x = m.conv(x, 32, group=group, activation="relu")
    return m.finish(m.conv(x, 6, group=2))


def broadcasting(m: GraphMaker) -> Graph:
    x = m.conv(m.input(2, 3, 4, 5), 11)
    a = m.add("Mul", x, m.weights(11, 1, 1))
    b = m.add("Sub", m.add("Add", a, m.weights(4, 5)), m.graph.add_constant("half", np.float32(0.5).reshape(1)))
    return m.finish(m.conv(m.add("Mul", b, m.conv(x, 1, k=1)), 4))


def winograd(m: GraphMaker) -> Graph:
    x = m.conv(m.input(2, 4, 9, 11), 40, activation="relu")
    return m.finish(m.conv(x, 33, residual=m.conv(x, 33, k=1), activation="leaky_relu", alpha=0.1))


def strided(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 4, 11, 9), 24, strides=(2, 2))
    y = m.conv(x, 24, group=24, k=5, strides=(2, 1), dilations=(1, 2))
    mean = m.add("AveragePool", y, kernel=(2, 3), strides=(1, 2), pads=(1, 1, 0, 1), count_include_pad=False)
    return m.finish(m.add("BatchNormalization", mean, m.weights(24), m.weights(24), activation="relu"))


def inverted_residuals(m: GraphMaker) -> Graph:
    """Those of 150 channels are large enough for one step."""
    relu6 = {"activation": "clip", "alpha": 0.0, "beta": 6.0}
    x = m.conv(m.input(1, 3, 49, 50), 40, **relu6)
    x = m.conv(m.conv(x, 40, group=40, k=5, **relu6), 20, k=1)
    for stride, activation in ((1, relu6), (2, {"activation": "hard_swish"})):
        wide = m.conv(x, 150, k=1, **activation)
        deep = m.conv(wide, 150, group=150, strides=(stride,) * 2, **activation)
        x = m.conv(deep, 20, k=1, residual=x if stride == 1 else "")
    deep = m.conv(m.conv(x, 30, k=1), 30, group=30)
    return m.finish(m.conv(deep, 8, k=1))


def depthwise_chain(m: GraphMaker) -> Graph:
    x = m.conv(m.input(1, 24, 6, 7), 24, group=24)
    return m.finish(m.conv(m.conv(m.conv(x, 40, k=1), 40, group=40, strides=(2, 1)), 17, k=1))


NETWORKS: tuple[NetworkMaker, ...] = (
    *(
        aligned_concat,
        unaligned_concat,
        ghosts,
        squeeze_and_excitation,
        slices_and_pads,
        grouped,
        broadcasting,
        winograd,
    ),
    *(
        strided,
        inverted_residuals,
        depthwise_chain,
        networks.residual_block,
        networks.concat_in_place,
        networks.dense_chain,
        networks.mirrored,
    ),
)
