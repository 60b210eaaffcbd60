"""How exact networks are whose products are added in half precision, simulated in NumPy.

    python -m benchmarks.half_sums [--size 128] [--inputs 3] [NETWORK ...]

A run is the number of products that are added in half before their sum is added to a float: RUN of the kernels
(runtime/kernels/prelude.cl). Every product and every sum is rounded, as by a device without fused multiply-add; tensors
and weights are half throughout. Prints a table in Markdown: SQNR in dB of the worst output, mean over the inputs, where
sums are exact, so that only storing in half counts, for each length of a run, and where a whole sum is half.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from farm.model.metrics import compare
from runtime import zoo
from runtime.convert import convert
from runtime.evaluate import compute, evaluate
from runtime.graph import Graph, Node

Floats = npt.NDArray[np.float32]

EXACT, WHOLE = 1, 0  # sums in float; no runs: a whole sum in half
RUNS = {EXACT: "exact sums", 8: "runs of 8", 16: "16", 24: "24", 32: "32", 64: "64", WHOLE: "all half"}
SPLITTER = np.float32(2**13 + 1)
LEAST_NORMAL = np.float32(2.0**-14)
SUBNORMAL_SHIFT = np.float32(1.5 * 2.0**-1)  # a float of this size resolves 2^-24, the step of subnormal halves


def round_half(values: Floats) -> Floats:
    """Rounds to the nearest half, without the slow conversion: T. Dekker's splitting (1971), below 65504."""
    high = values * SPLITTER
    rounded = high - (high - values)
    small = np.abs(values) < LEAST_NORMAL
    if small.any():
        rounded[small] = (values[small] + SUBNORMAL_SHIFT) - SUBNORMAL_SHIFT
    return rounded


def product(weights: Floats, patches: Floats, start: Floats, run: int) -> Floats:
    """weights [M, K] @ patches [K, N] + start [M, 1], sums running in half over `run` products at a time."""
    length = weights.shape[1]
    if run == EXACT:
        return weights @ patches + start
    total = np.broadcast_to(start, (len(weights), patches.shape[1])).astype(np.float32)
    if run == WHOLE:
        return _half_sum(weights, patches, total)
    for first in range(0, length, run):
        part = slice(first, first + run)
        total += _half_sum(weights[:, part], patches[part], np.zeros_like(total))
    return total


def _half_sum(weights: Floats, patches: Floats, start: Floats) -> Floats:
    total = start
    for column, row in zip(weights.T, patches, strict=True):
        total = round_half(total + round_half(column[:, None] * row))
    return total


def evaluate_half(graph: Graph, inputs: Mapping[str, Floats], run: int) -> dict[str, Any]:
    """All tensors of a graph whose tensors are half, and whose products are summed in half over runs."""
    values: dict[str, Any] = {name: _stored(value) for name, value in graph.constants.items()}
    values |= {name: _stored(value) for name, value in inputs.items()}
    for node in graph.nodes:
        arguments = [values[name] if name else None for name in node.inputs]
        values[node.output] = _stored(_computed(node, arguments, run))
    return values


def _stored(value: Any) -> Any:
    return value.astype(np.float16).astype(np.float32) if value.dtype == np.float32 else value


def _computed(node: Node, arguments: Sequence[Any], run: int) -> Any:
    attributes = node.attrs
    if node.op == "FullyConnected":
        x, w, bias = (*arguments, None)[:3]
        return _activated(node, product(w, x.T, _column(bias, len(w)), run).T)
    if node.op == "Conv" and attributes["group"] == 1:
        return _activated(node, _convolution(arguments, attributes, run))
    return compute(node.op, arguments, attributes)


def _convolution(arguments: Sequence[Any], attributes: Mapping[str, Any], run: int) -> Floats:
    """A convolution of one group; products are added as the kernels do: tap by tap, the channels of each in order."""
    x, w, bias, residual = (*arguments, None, None)[:4]
    top, left, bottom, right = attributes["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (down, across), (low, wide) = attributes["strides"], attributes["dilations"]
    span = (low * (w.shape[2] - 1) + 1, wide * (w.shape[3] - 1) + 1)
    windows = sliding_window_view(padded, span, axis=(2, 3))[:, :, ::down, ::across, ::low, ::wide]
    batch, _, rows, columns = windows.shape[:4]
    patches = np.ascontiguousarray(windows.transpose(4, 5, 1, 0, 2, 3)).reshape(-1, batch * rows * columns)
    weights = w.transpose(0, 2, 3, 1).reshape(len(w), -1)
    out = product(weights, patches, _column(bias, len(w)), run)
    shaped: Floats = out.reshape(len(w), batch, rows, columns).transpose(1, 0, 2, 3)
    return shaped if residual is None else shaped + residual


def _column(bias: Any, rows: int) -> Floats:
    return (np.zeros(rows, np.float32) if bias is None else bias)[:, None]


def _activated(node: Node, value: Floats) -> Any:
    return compute("Identity", [np.ascontiguousarray(value)], node.attrs)


def sqnr_db(graph: Graph, run: int, seeds: int) -> float:
    """SQNR of the worst output of a network against evaluation in float, mean over random inputs of about -1..1."""
    return statistics.fmean(_sqnr_db(graph, run, np.random.default_rng(seed)) for seed in range(1, seeds + 1))


def _sqnr_db(graph: Graph, run: int, random: np.random.Generator) -> float:
    inputs = {name: random.uniform(-1, 1, graph.shape(name)).astype(np.float32) for name in graph.inputs}
    expected, actual = evaluate(graph, inputs), evaluate_half(graph, inputs, run)
    return min(compare(expected[name], actual[name]).sqnr_db for name in graph.outputs)


def network(name: str, size: int) -> Graph:
    """A network of the zoo, converted; the size of its image changes hardly any sum's length."""
    return convert(zoo.build(name, size=size), {"input": (1, 3, size, size)})[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NETWORK", nargs="*", default=zoo.names())
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--inputs", type=int, default=3)
    given = parser.parse_args()
    print("| network | " + " | ".join(RUNS.values()) + " |")
    print("| --- |" + " ---: |" * len(RUNS))
    for name in given.names:
        graph = network(name, given.size)
        print(
            f"| {name} | " + " | ".join(f"{sqnr_db(graph, run, given.inputs):.1f}" for run in RUNS) + " |", flush=True
        )


if __name__ == "__main__":
    main()
