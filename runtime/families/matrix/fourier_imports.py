"""Fourier transforms of sizes that are known, as matrix products; and the weights of a mel spectrogram."""

from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.inputs import element_dtype
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides

MAX_LENGTH = 4096  # of a transform: its matrices have the square of it elements


def _matrix(node: OnnxNode, given: int, length: int, inverse: bool = False, onesided: bool = False) -> Array:
    """[given, results]: what each sample adds to each frequency, or each frequency to each sample.

    `onesided`: of a real signal only the frequencies up to the middle, which stand for their mirror images too.
    """
    if not 1 <= length <= MAX_LENGTH:
        raise node.unsupported("length", length, f"1 to {MAX_LENGTH}")
    half = length // 2 + 1
    rows = np.arange(min(given, half if inverse and onesided else length))
    columns = np.arange(half if onesided and not inverse else length)
    turns = np.outer(rows, columns) % length / length
    matrix = np.exp((2j if inverse else -2j) * np.pi * turns) / (length if inverse else 1)
    if inverse and onesided:
        matrix[(rows > 0) & (2 * rows != length)] *= 2
    return np.asarray(matrix)


def _transformed(emit: Emitter, x: str, matrix: Array, parts: int = 2) -> str:
    """[..., results, parts] of [..., n, 1 or 2]: real parts, and imaginary ones where `parts` is 2."""
    shape = emit.shape(x)
    rows = np.stack([matrix, 1j * matrix], axis=1)[:, : shape[-1]].reshape(-1, matrix.shape[1])
    both = np.stack([rows.real, rows.imag], axis=-1)[..., :parts].reshape(len(rows), -1)
    samples = emit.reshape(x, (*shape[:-2], shape[-2] * shape[-1]))
    return emit.reshape(emit.op("MatMul", samples, emit.constant(both)), (*shape[:-2], matrix.shape[1], parts))


def _dft_axis(node: OnnxNode, builder: GraphBuilder) -> int:
    """An input since opset 20."""
    if node.opset < 20:
        return node.integer("axis", 1)
    return int(builder.scalar(node, 2, "the axis")) if node.optional(2) else -2


def _dft(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x = Emitter(node, builder), node.input(0)
    shape = builder.shape(x)
    axis = normalized_axis(node, _dft_axis(node, builder), len(shape))
    if len(shape) < 3 or shape[-1] not in (1, 2) or axis == len(shape) - 1:
        raise ModelError(f"{node}: axis {axis} of a signal of shape {shape}, whose last axis holds 1 or 2 parts")
    inverse, onesided = bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0))
    length = 2 * (shape[axis] - 1) if inverse and onesided else shape[axis]
    if node.optional(1):
        length = int(builder.scalar(node, 1, "dft_length"))
    order = [*(other for other in range(len(shape) - 1) if other != axis), axis, len(shape) - 1]
    matrix = _matrix(node, shape[axis], length, inverse, onesided)
    used = emit.slice(emit.transpose(x, order), len(shape) - 2, 0, len(matrix))
    result = _transformed(emit, used, matrix, 1 if inverse and onesided else 2)
    emit.transpose(result, np.argsort(order).tolist(), node.output)


def _stft(node: OnnxNode, builder: GraphBuilder) -> None:
    """Frames are a view of the signal, whose windows overlap."""
    emit, x = Emitter(node, builder), node.input(0)
    shape, step = builder.shape(x), int(builder.scalar(node, 1, "frame_step"))
    window = node.optional(2)
    length = builder.shape(window)[0] if window else shape[1]
    if node.optional(3):
        length = int(builder.scalar(node, 3, "frame_length"))
    if len(shape) not in (2, 3) or step < 1 or not 1 <= length <= shape[1] or (len(shape) == 3 and shape[2] != 1):
        raise node.unsupported("frame", (length, step), f"frames within a real signal of shape {shape}")
    frames = (shape[1] - length) // step + 1
    signal = emit.reshape(x, shape[:2])
    steps = row_major_strides(shape[:2])
    cut = emit.view(signal, (shape[0], frames, length), (steps[0], step, 1))
    if window:
        cut = emit.op("Mul", cut, window)
    matrix = _matrix(node, length, length, onesided=bool(node.integer("onesided", 1)))
    total = _transformed(emit, emit.reshape(cut, (shape[0], frames, length, 1)), matrix)
    emit.op("Identity", total, output=node.output)


def _mel_weights(node: OnnxNode, builder: GraphBuilder) -> None:
    """Triangles over the frequencies of a transform, evenly spaced on the mel scale, as ONNX defines them."""
    bins, length, rate, low, high = (
        builder.scalar(node, index, name)
        for index, name in enumerate(("num_mel_bins", "dft_length", "sample_rate", "the lowest", "the highest"))
    )
    dtype = element_dtype(node.integer("output_datatype", 1))
    if dtype is None or bins < 1 or length < 1 or not 0 <= low < high or rate <= 0:
        raise ModelError(f"{node}: {bins:g} bins of {length:g} samples at {rate:g} Hz, from {low:g} to {high:g} Hz")
    count, rows = int(bins), int(length) // 2 + 1
    check_size(node, (rows, count))
    first_mel, last_mel = 2595 * np.log10(1 + np.asarray([low, high]) / 700)
    mels = first_mel + np.arange(count + 2) * (last_mel - first_mel) / (count + 2)
    edges = 700 * (10 ** (mels / 2595) - 1)
    places = np.floor((length + 1) * edges / rate).astype(np.int64)
    weights = np.zeros((rows, count))
    for column, (first, middle, last) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        for row in range(first, min(max(last, middle + 1), rows)):
            rising = (row - first) / (middle - first) if middle > first else 1.0
            weights[row, column] = rising if row <= middle else (last - row) / (last - middle)
    builder.folded.append(node.name)
    builder.add_constant(node.output, weights.astype(dtype))


HANDLERS: Mapping[str, Handler] = {"DFT": _dft, "STFT": _stft, "MelWeightMatrix": _mel_weights}
