"""Makes seeded weights for a network, scaled so that activations stay moderate and outputs differ between inputs.

Random weights alone let activations vanish or explode, and the output hardly depends on the input. So one pass over a
batch of seeded noise images standardises, channel by channel, what every batch normalization reads and every other
convolution and fully connected layer writes; the statistics become the normalization's mean and variance, or are folded
into weights and bias. (Layer-sequential unit variance, Mishkin and Matas, arXiv:1511.06422, with means as well.)

Before a ReLU the mean is about one standard deviation above zero, so that most values pass: with half of them cut off,
fifty layers amplify a rounding error a thousandfold, which trained networks do not. The logits get a standard deviation
of about LOGIT_STD between inputs.

The same seed gives the same values on every CPU (runtime.zoo.statistics_pass says how, and for which networks).
"""

from collections.abc import Iterator

import numpy as np
from onnx import NodeProto

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.zoo.skeleton import Follower, Skeleton, Topology
from runtime.zoo.statistics_pass import BIAS, LINEAR, WEIGHT, WEIGHT_STEPS, Layer, Statistics, StatisticsPass

LOGIT_STD = 2.5

Range = tuple[float, float]

# Standard deviation and mean that a standardised tensor gets: bounds of a uniform distribution over its channels.
TARGETS: dict[Follower, tuple[Range, Range]] = {
    Follower.LINEAR: ((0.75, 1.25), (-0.25, 0.25)),
    Follower.RELU: ((0.75, 1.25), (0.5, 1.5)),
    Follower.CLIP: ((1.5, 2.5), (1.0, 3.0)),
    Follower.OUTPUT: ((1.0, 1.0), (0.0, 0.0)),
}


def calibrated_parameters(skeleton: Skeleton, seed: int) -> dict[str, Array]:
    """Returns float32 values for all parameters; raises ModelError where the inputs are no images of a fixed size."""
    rng = np.random.default_rng(seed)
    topology = Topology(skeleton)
    _check_unshared(topology)
    values = _draw(skeleton, topology, rng)
    layers = list(_layers(skeleton, topology, values, rng))
    images = {name: _noise(name, shape, rng) for name, shape in skeleton.inputs.items()}
    statistics = StatisticsPass(skeleton, topology, values, layers).run(images)
    for layer in layers:
        _scale_output(topology, layer, statistics)
        fold = _fold_linear if layer.node.op_type in LINEAR else _fold_batch_norm
        fold(topology, values, layer, statistics)
    return values


def _check_unshared(topology: Topology) -> None:
    owners: dict[str, str] = {}
    for name, node, _ in topology.parameter_uses():
        owner = owners.setdefault(name, node.output[0])
        if owner != node.output[0] and node.op_type in LINEAR | {"BatchNormalization"}:
            raise UnsupportedError(f"parameter '{name}' is shared by {owner} and {node.output[0]}: cannot be scaled")


def uniform(rng: np.random.Generator, bounds: Range, shape: tuple[int, ...] | int) -> Array:
    """Draws uniformly distributed float32 numbers that are multiples of 1 / WEIGHT_STEPS."""
    low, high = (round(bound * WEIGHT_STEPS) for bound in bounds)
    steps = rng.integers(low, high, shape, dtype=np.dtype(np.int16), endpoint=True)
    return steps.astype(np.float32) / np.float32(WEIGHT_STEPS)


def _draw(skeleton: Skeleton, topology: Topology, rng: np.random.Generator) -> dict[str, Array]:
    values: dict[str, Array] = {}
    for name, node, index in topology.parameter_uses():
        if name not in values:
            values[name] = uniform(rng, _bounds(node, index), skeleton.parameters[name])
    return values


def _bounds(node: NodeProto, index: int) -> Range:
    if node.op_type in LINEAR and index == WEIGHT:
        return -1.0, 1.0
    return {"Mul": (0.75, 1.25), "PRelu": (0.1, 0.4)}.get(node.op_type, (-0.25, 0.25))


def _layers(
    skeleton: Skeleton, topology: Topology, values: dict[str, Array], rng: np.random.Generator
) -> Iterator[Layer]:
    for node in skeleton.nodes:
        if not _has_own_parameters(topology, node) or _is_normalised_later(topology, node):
            continue
        channels = _channels(topology, node, values)
        gain, offset = TARGETS[topology.follower(node.output[0])]
        centred = topology.parameter(node, BIAS) is not None
        offsets = uniform(rng, offset, channels) if centred else np.zeros(channels, np.float32)
        yield Layer(node, uniform(rng, gain, channels), offsets, centred)


def _has_own_parameters(topology: Topology, node: NodeProto) -> bool:
    return node.op_type in LINEAR | {"BatchNormalization"} and topology.parameter(node, 1) is not None


def _is_normalised_later(topology: Topology, node: NodeProto) -> bool:
    readers = topology.readers[node.output[0]]
    return node.op_type in LINEAR and [reader.op_type for reader in readers] == ["BatchNormalization"]


def _channels(topology: Topology, node: NodeProto, values: dict[str, Array]) -> int:
    shape = values[_required(topology, node, 1)].shape
    if node.op_type != "Gemm":
        return int(shape[0])
    bias = topology.parameter(node, BIAS)
    return int(values[bias].size if bias else shape[0 if _is_transposed(node) else -1])


def _is_transposed(node: NodeProto) -> bool:
    return any(attribute.name == "transB" and attribute.i for attribute in node.attribute)


def _required(topology: Topology, node: NodeProto, index: int) -> str:
    name = topology.parameter(node, index)
    if name is None:
        raise UnsupportedError(f"{node.op_type} {node.output[0]}: input {index} is not a constant")
    return name


def _noise(name: str, shape: tuple[int | str, ...], rng: np.random.Generator) -> Array:
    """Draws a batch of noise images in -1..1; smaller images make a larger batch, since each says less of a channel."""
    sizes = [size for size in shape[1:] if isinstance(size, int)]
    if len(sizes) != len(shape) - 1 or len(sizes) != 3 or min(sizes) < 1:
        raise ModelError(f"input '{name}' of shape {list(shape)}: only images with a fixed size can be calibrated with")
    samples = min(max(2**20 // (sizes[-2] * sizes[-1]), 16), 64)
    return uniform(rng, (-1.0, 1.0), (samples, *sizes))


def _scale_output(topology: Topology, layer: Layer, statistics: Statistics) -> None:
    """Scales the last layer so that a logit varies by LOGIT_STD between inputs."""
    end = topology.end(layer.name)
    if end is None:
        return
    logits = statistics.ends[end].astype(np.float64)
    deviation = max(float((logits - logits.mean(axis=0)).std()), 1e-3)
    scale = np.float32(np.float16(LOGIT_STD / deviation))  # rounded, as NumPy's sums depend on the machine
    layer.gain = layer.gain * scale
    layer.offset = layer.offset * scale


def _fold_linear(topology: Topology, values: dict[str, Array], layer: Layer, statistics: Statistics) -> None:
    scale = layer.gain / np.sqrt(statistics.variance[layer.name])
    _scale_weight(values, _required(topology, layer.node, WEIGHT), layer.node, scale)
    bias = topology.parameter(layer.node, BIAS)
    if bias is not None:
        value = layer.offset - statistics.mean[layer.name] * scale
        values[bias] = value.astype(np.float32).reshape(values[bias].shape)


def _scale_weight(values: dict[str, Array], name: str, node: NodeProto, scale: Array) -> None:
    """Multiplies the weights of each output channel by its scale."""
    channels_last = node.op_type == "Gemm" and not _is_transposed(node)
    factors = scale.astype(np.float32).reshape((1, -1) if channels_last else (-1, 1))
    rows = values[name].reshape((-1, scale.size) if channels_last else (scale.size, -1))
    values[name] = (rows * factors).reshape(values[name].shape)


def _fold_batch_norm(topology: Topology, values: dict[str, Array], layer: Layer, statistics: Statistics) -> None:
    scale, shift = _scale_normalised(topology, values, layer)
    mean = statistics.mean[layer.name] * scale + shift
    variance = statistics.variance[layer.name] * scale**2
    for index, value in enumerate((layer.gain, layer.offset, mean, variance), start=1):
        values[_required(topology, layer.node, index)] = value.astype(np.float32)


def _scale_normalised(topology: Topology, values: dict[str, Array], layer: Layer) -> tuple[float, Array | float]:
    """Scales the weights in front of a batch normalization; returns the scale, and the bias that is added there.

    The scale is that of He et al., arXiv:1502.01852, for uniform weights.
    """
    producer = topology.producer.get(layer.node.input[0])
    if producer is None or not _is_normalised_later(topology, producer):
        return 1.0, 0.0
    weight = topology.parameter(producer, WEIGHT)
    if weight is None:
        return 1.0, 0.0
    scale = float(np.sqrt(6 * layer.gain.size / values[weight].size))
    _scale_weight(values, weight, producer, np.full(layer.gain.size, scale))
    bias = topology.parameter(producer, BIAS)
    return scale, values[bias] if bias is not None else 0.0
