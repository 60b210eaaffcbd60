"""Rounds weights up or down so that the error of a layer's outputs is least, not that of each weight.

The error of weights that are rounded already is passed on to those of the same output that are still to come, as the
layer's inputs over samples say how far one can stand in for another: the least-squares method of Frantar, Ashkboos,
Hoefler and Alistarh ("GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2023). Then
each weight is chosen anew beside all others.
"""

import dataclasses
import hashlib
import io
import itertools
import json
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from farm import atomic_file
from farm.model.reference_process import ReferenceProcess
from farm.quantization.layers import WEIGHTED, LayerNodes
from farm.quantization.qdq import integer_weights
from runtime.graph import Array

Inputs = Mapping[str, Array]
Read = Callable[[], Inputs]

MOST_ROWS = 1024  # of a sample, that a layer's outputs are sums over
MOST_COLUMNS = 4608  # weights of an output
TOGETHER_BYTES = 2**28  # of layers' moments that are collected in one pass over the samples
_DAMPING = 0.01  # of the mean second moment, so that what samples hardly move stays near its weight
_PASSES = 2
_SPATIAL = 2  # axes in front of a window's


@dataclasses.dataclass(frozen=True)
class RoundedWeight:
    """The integers that a weight became.

    Attributes:
        gain_db: by how much the noise of the layer's outputs over the samples is less than with nearest integers.
    """

    integers: Array
    gain_db: float


class AdaptiveRounding:
    """Finds the integers of a quantised model's weights, and keeps those of each layer as soon as they are known.

    Args:
        model: the float model.
        quantised: the same with `layers` quantised, their weights to nearest integers.
        samples: the inputs, by keys of their contents.
        file: where integers are kept between calls; what is of another model or samples is begun anew.
    """

    def __init__(
        self,
        process: ReferenceProcess,
        model: onnx.ModelProto,
        quantised: onnx.ModelProto,
        layers: Sequence[LayerNodes],
        samples: Mapping[str, Read],
        file: Path,
    ) -> None:
        self._process, self._model, self._samples, self._file = process, model, samples, file
        self._floats = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
        self._weights = integer_weights(quantised)
        self._nodes = list(self._rounded_nodes(layers))
        content = quantised.SerializeToString(deterministic=True) + repr(sorted(samples)).encode()
        self._key = hashlib.sha256(content).hexdigest()
        self.found = self._restored()

    def run(self, tell: Callable[[str], None]) -> dict[str, RoundedWeight]:
        """The weights by their names in the float model; tells which layers are looked at."""
        left = [node for node in self._nodes if node.input[1] not in self.found]
        while left:
            some = [left.pop(0)]
            while left and sum(map(self._moment_bytes, [*some, left[0]])) <= TOGETHER_BYTES:
                some.append(left.pop(0))
            moments = self._moments(some, tell)
            for node in some:
                tell(node.name)
                self.found[node.input[1]] = self._rounded(node, moments.pop(node.name))
            self._keep()
        return self.found

    def _rounded_nodes(self, layers: Sequence[LayerNodes]) -> Iterator[NodeProto]:
        """Products of a weight that is rounded, of its own, and of rows or windows."""
        chosen = {name for layer in layers for name in layer.nodes}
        readers = Counter(name for node in self._model.graph.node for name in node.input)
        for node in self._model.graph.node:
            weight = node.input[1] if len(node.input) > 1 else ""
            if node.name not in chosen or weight not in self._weights or readers[weight] > 1 or not _is_product(node):
                continue
            if self._floats[weight].ndim in _RANKS[node.op_type] and self._columns(node) <= MOST_COLUMNS:
                yield node

    def _columns(self, node: NodeProto) -> int:
        shape = self._floats[node.input[1]].shape
        return math.prod(shape[1:]) if node.op_type == "Conv" else shape[1 if _attribute(node, "transB", 0) else 0]

    def _moment_bytes(self, node: NodeProto) -> int:
        return 8 * _attribute(node, "group", 1) * self._columns(node) ** 2

    def _moments(self, nodes: Sequence[NodeProto], tell: Callable[[str], None]) -> dict[str, Array]:
        """The second moments [groups, columns, columns] of each node's inputs, over all samples."""
        exposed = onnx.ModelProto()
        exposed.CopyFrom(self._model)
        del exposed.graph.output[:]
        given = {value.name for value in self._model.graph.input}
        wanted = {node.input[0] for node in nodes} - given
        exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(wanted))
        content, sums = exposed.SerializeToString(), dict[str, Array]()
        for number, read in enumerate(self._samples.values()):
            tell(f"sample {number + 1} of {len(self._samples)}")
            inputs = read()
            values = {**inputs, **(self._process.run(content, inputs) if wanted else {})}
            for node in nodes:
                rows = _rows(node, values[node.input[0]], self._floats[node.input[1]].shape)
                moment = np.swapaxes(rows, 1, 2) @ rows
                sums[node.name] = sums[node.name] + moment if node.name in sums else moment
        return sums

    def _rounded(self, node: NodeProto, moments: Array) -> RoundedWeight:
        name = node.input[1]
        weight, known = self._floats[name].astype(np.float64), self._weights[name]
        steps = np.broadcast_to(known.scales, weight.shape)
        limits = float(known.centred.min()), float(known.centred.max())
        rows, step_rows = (_matrices(node, each) for each in (weight, steps))
        nearest = _matrices(node, known.centred)
        adapted = rounded_rows(rows, step_rows, moments, limits)
        errors = [_errors(rows - each * step_rows, moments) for each in (nearest, adapted)]
        best = np.where((errors[1] < errors[0])[..., None], adapted, nearest)
        best = descended(rows, best, step_rows, moments, limits)
        before, after = errors[0].sum(), _errors(rows - best * step_rows, moments).sum()
        gain_db = 10 * math.log10(before / after) if before > 0 < after else 0.0
        integers = _shaped(node, best, weight.shape) + known.zero
        return RoundedWeight(integers.astype(known.integers.dtype), gain_db)

    def _keep(self) -> None:
        """Integers of four bits are kept as bytes."""
        head = json.dumps({"key": self._key, "names": [*self.found]})
        gains = np.array([each.gain_db for each in self.found.values()])
        arrays: dict[str, Any] = {
            str(place): each.integers.astype(np.int16) for place, each in enumerate(self.found.values())
        }
        content = io.BytesIO()
        np.savez_compressed(content, head=np.array(head), gains=gains, **arrays)
        atomic_file.write(self._file, content.getvalue())

    def _restored(self) -> dict[str, RoundedWeight]:
        try:
            with np.load(self._file, allow_pickle=False) as kept:
                head = json.loads(str(kept["head"]))
                if head["key"] != self._key:
                    return {}
                return {
                    name: RoundedWeight(
                        kept[str(place)].astype(self._weights[name].integers.dtype), float(kept["gains"][place])
                    )
                    for place, name in enumerate(head["names"])
                }
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return {}


def rounded_rows(weights: Array, steps: Array, moments: Array, limits: tuple[float, float]) -> Array:
    """Whole steps for weights [groups, rows, columns], from the first column to the last.

    `moments`: of the inputs [groups, columns, columns]; `limits`: the least and the greatest whole number.
    """
    columns = weights.shape[2]
    diagonal = np.einsum("gii->gi", moments)
    level = np.maximum(diagonal.mean(1), np.finfo(np.float64).tiny)
    damped = moments + (_DAMPING * level)[:, None, None] * np.eye(columns)
    # Of the inverse, the upper factor: its row j says how the columns behind j make up for an error in j.
    upper = np.swapaxes(np.linalg.cholesky(np.linalg.inv(damped)), 1, 2)
    left, found = weights.copy(), np.empty_like(weights)
    for j in range(columns):
        found[:, :, j] = np.clip(np.rint(left[:, :, j] / steps[:, :, j]), *limits)
        error = (left[:, :, j] - found[:, :, j] * steps[:, :, j]) / upper[:, None, j, j]
        left[:, :, j + 1 :] -= error[:, :, None] * upper[:, None, j, j + 1 :]
    return found


def descended(weights: Array, whole: Array, steps: Array, moments: Array, limits: tuple[float, float]) -> Array:
    """The same where each column in turn has the best whole number beside those of all others, some times over."""
    found = whole.copy()
    slopes = (weights - found * steps) @ moments
    for _, j in itertools.product(range(_PASSES), range(weights.shape[2])):
        wanted = slopes[:, :, j] / (steps[:, :, j] * np.maximum(moments[:, None, j, j], np.finfo(np.float64).tiny))
        moved = np.clip(found[:, :, j] + np.rint(wanted), *limits) - found[:, :, j]
        if moved.any():
            found[:, :, j] += moved
            slopes -= (moved * steps[:, :, j])[:, :, None] * moments[:, None, j]
    return found


def _errors(differences: Array, moments: Array) -> Array:
    """The square error of each output [groups, rows] over the samples, of weights that differ so much."""
    return np.asarray(np.einsum("grk,grk->gr", differences @ moments, differences))


_RANKS = {"Conv": (3, 4, 5), "Gemm": (2,), "MatMul": (2,)}


def _is_product(node: NodeProto) -> bool:
    if node.op_type not in WEIGHTED or node.op_type not in _RANKS:
        return False
    texts = {each.name: each.s for each in node.attribute if each.s}
    return not _attribute(node, "transA", 0) and texts.get("auto_pad", b"NOTSET") == b"NOTSET"


def _attribute(node: NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


def _sizes(node: NodeProto, name: str, default: Sequence[int]) -> list[int]:
    return next((list(each.ints) for each in node.attribute if each.name == name), list(default))


def _matrices(node: NodeProto, weight: Array) -> Array:
    """[groups, outputs, columns] of a weight."""
    if node.op_type == "Conv":
        groups = _attribute(node, "group", 1)
        return weight.reshape(groups, len(weight) // groups, -1)
    return np.expand_dims(weight if _attribute(node, "transB", 0) else weight.T, 0)


def _shaped(node: NodeProto, matrices: Array, shape: tuple[int, ...]) -> Array:
    """The weight of its matrices."""
    if node.op_type == "Conv" or _attribute(node, "transB", 0):
        return matrices.reshape(shape)
    return np.transpose(matrices[0])


def _rows(node: NodeProto, x: Array, shape: tuple[int, ...]) -> Array:
    """What the columns of a weight of this shape are multiplied with: [groups, rows, columns], some rows of all."""
    if node.op_type != "Conv":
        return _some(x.reshape(-1, x.shape[-1]))[None].astype(np.float64)
    window, rank = shape[_SPATIAL:], len(shape) - _SPATIAL
    pads = _sizes(node, "pads", [0] * 2 * rank)
    strides, dilations = (_sizes(node, name, [1] * rank) for name in ("strides", "dilations"))
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    reach = tuple((size - 1) * step + 1 for size, step in zip(window, dilations, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(_SPATIAL, _SPATIAL + rank)))
    places = tuple(slice(None, None, stride) for stride in strides)
    taps = tuple(slice(None, None, step) for step in dilations)
    windows = windows[(slice(None), slice(None), *places, *taps)]
    groups, channels = _attribute(node, "group", 1), shape[1]
    order = (0, *range(_SPATIAL, _SPATIAL + rank), 1, *range(_SPATIAL + rank, _SPATIAL + 2 * rank))
    flat = windows.transpose(order)
    chosen = _some_places(flat.shape[: 1 + rank])
    taken = flat[chosen].reshape(-1, groups, channels * math.prod(window))
    return np.swapaxes(taken, 0, 1).astype(np.float64)


def _some(rows: Array) -> Array:
    return rows[_evenly(len(rows))]


def _some_places(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Indices of so many places of a batch of images, evenly from all."""
    return tuple(np.unravel_index(_evenly(math.prod(shape)), shape))


def _evenly(count: int) -> Array:
    return np.linspace(0, count - 1, min(count, MOST_ROWS)).round().astype(int)


def with_integers(quantised: onnx.ModelProto, found: Mapping[str, RoundedWeight]) -> onnx.ModelProto:
    """A quantised model with these integers in the place of its weights'."""
    made = onnx.ModelProto()
    made.CopyFrom(quantised)
    tensors = {each.name: each for each in made.graph.initializer}
    for name, weight in integer_weights(quantised).items():
        if name in found:
            tensors[weight.tensor].CopyFrom(numpy_helper.from_array(found[name].integers, weight.tensor))
    return made
