"""Runs a batch through a network whose layers standardise their outputs by that batch, and reports the statistics.

The result is the same on every CPU. Weights are multiples of 1/256, and in front of each sum activations are rounded to
multiples of 1/64: every product is a multiple of 2^-14, and float32 adds them without rounding, in whatever order, as
long as sums stay below 1024. Mean and mean square are summed without rounding in float64, for the same reason. All
else is element-wise and correctly rounded, except in operators that no network of the zoo has (LRN, say).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from onnx import NodeProto, TensorProto, helper

from runtime.graph import Array
from runtime.zoo.skeleton import Skeleton, Topology, onnx_model

if TYPE_CHECKING:
    from runtime.host.onnx_runtime import onnxruntime

WEIGHT_STEPS = 256
ACTIVATION_STEPS = 64
SLOPE_STEPS = 4096  # of a hard sigmoid, so that its products are not rounded either
# Channels that hardly vary in the batch would be amplified without bound; relative to the largest variance.
VARIANCE_FLOOR = 0.1

LINEAR = {"Conv", "Gemm"}
HARD_SIGMOID = "HardSigmoid"
WEIGHT, BIAS = 1, 2  # inputs of these
AVERAGES = {"AveragePool", "GlobalAveragePool", "ReduceMean"}

ROUNDING_TERM = "#rounding"
FLOOR = "#floor"


@dataclasses.dataclass
class Layer:
    """One tensor to standardise, what a batch normalization reads or a layer without one writes; with scale and shift.

    A layer without a bias, which could take up the shift, is not centred, only divided by its root mean square.
    """

    node: NodeProto
    gain: Array
    offset: Array
    centred: bool

    @property
    def name(self) -> str:
        """The tensor's name."""
        return str(self.node.output[0])


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Mean and variance of each layer's tensor before it was standardised, a float64 for each channel.

    `ends` are the tensors that the network's outputs, or its softmax, are computed from.
    """

    mean: dict[str, Array]
    variance: dict[str, Array]
    ends: dict[str, Array]


class StatisticsPass:
    """The network with its layers standardised by the batch that runs through, as one ONNX graph.

    The parameters' values must be multiples of 1 / WEIGHT_STEPS.
    """

    def __init__(self, skeleton: Skeleton, topology: Topology, values: dict[str, Array], layers: list[Layer]) -> None:
        self._skeleton = skeleton
        self._topology = topology
        self._layers = {layer.name: layer for layer in layers}
        self._ranks = skeleton.ranks()
        self._nodes: list[NodeProto] = []
        self._rounded: dict[str, str] = {}
        self._feeds = dict(values)
        self._constants = dict(skeleton.constants)
        # Adding and subtracting 1.5 * 2^23 steps leaves float32 rounded to whole steps.
        self._constants[ROUNDING_TERM] = np.array(1.5 * 2**23 / ACTIVATION_STEPS, np.float32)
        self._constants[FLOOR] = np.array(VARIANCE_FLOOR)
        for node in skeleton.nodes:
            self._convert(node)

    def run(self, images: dict[str, Array]) -> Statistics:
        """The statistics over a batch of inputs, float32."""
        feeds = self._feeds | images
        means = [name for name, layer in self._layers.items() if layer.centred]
        ends = sorted({end for name in self._layers if (end := self._topology.end(name))})
        outputs = [*(f"{name}#mean" for name in means), *(f"{name}#variance" for name in self._layers), *ends]
        session = self._session({name: value.shape for name, value in feeds.items()}, outputs)
        values = dict(zip(outputs, session.run(outputs, feeds), strict=True))
        variance = {name: values[f"{name}#variance"].ravel() for name in self._layers}
        mean = {name: np.zeros_like(value) for name, value in variance.items()}
        mean |= {name: values[f"{name}#mean"].ravel() for name in means}
        return Statistics(mean, variance, {name: values[name] for name in ends})

    def _session(self, shapes: dict[str, tuple[int, ...]], outputs: list[str]) -> onnxruntime.InferenceSession:
        from runtime.host.onnx_runtime import onnxruntime

        infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
        model = onnx_model(self._skeleton, self._nodes, shapes, self._constants, infos)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # which takes as long as the work
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])

    def _convert(self, node: NodeProto) -> None:
        layer = self._layers.get(node.output[0])
        if layer is None:
            self._copy(node, node.output[0])
        elif node.op_type in LINEAR:
            self._copy(node, f"{layer.name}#sum")
            self._standardise(f"{layer.name}#sum", layer)
        else:
            self._standardise(node.input[0], layer)

    def _copy(self, node: NodeProto, output: str) -> None:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.output[0] = output
        if node.op_type in LINEAR | AVERAGES | {HARD_SIGMOID}:
            copy.input[0] = self._round(node.input[0])
        if node.op_type == HARD_SIGMOID:
            for value in copy.attribute:
                value.f = round(value.f * SLOPE_STEPS) / SLOPE_STEPS
        bias = self._topology.parameter(node, BIAS)
        if node.op_type in LINEAR and bias is not None:  # the standardisation that follows would take it out again
            self._feeds[bias] = np.zeros_like(self._feeds[bias])
        if node.op_type == "Reshape" and not self._topology.is_view_of_parameter(node):
            copy.input[1] = self._shape_for_any_batch(node)
        self._nodes.append(copy)

    def _round(self, name: str) -> str:
        if name not in self._rounded:
            shifted = self._add("Add", f"{name}#shifted", name, ROUNDING_TERM)
            self._rounded[name] = self._add("Sub", f"{name}#rounded", shifted, ROUNDING_TERM)
        return self._rounded[name]

    def _shape_for_any_batch(self, node: NodeProto) -> str:
        """Returns the shape input of a Reshape; one that was written for a batch of 1 is changed to keep any batch."""
        shape = self._constants.get(node.input[1])
        if shape is None or shape.size == 0 or shape[0] != 1:
            return str(node.input[1])
        name = f"{node.output[0]}#shape"
        self._constants[name] = np.array([0, *shape[1:]], np.int64)
        return name

    def _standardise(self, x: str, layer: Layer) -> None:
        name = layer.name
        per_channel = (1, -1, *[1] * (self._ranks[name] - 2))
        self._feeds[f"{name}#gain"] = layer.gain.reshape(per_channel)
        self._feeds[f"{name}#offset"] = layer.offset.reshape(per_channel)
        x, variance = self._moments(self._round(x), layer)
        largest = self._add("ReduceMax", f"{name}#largest", variance, keepdims=1)
        floor = self._add("Mul", f"{name}#least", largest, FLOOR)
        variance = self._add("Max", f"{name}#variance", variance, floor)
        deviation = self._narrow(self._add("Sqrt", f"{name}#deviation", variance))
        unit = self._add("Div", f"{name}#unit", x, deviation)
        scaled = self._add("Mul", f"{name}#scaled", unit, f"{name}#gain")
        self._add("Add", name, scaled, f"{name}#offset")

    def _moments(self, x: str, layer: Layer) -> tuple[str, str]:
        """Returns the names of the tensor, without its mean if the layer is centred, and of its variance."""
        name = layer.name
        wide = self._add("Cast", f"{name}#wide", x, to=TensorProto.DOUBLE)
        square = self._add("Mul", f"{name}#square", wide, wide)
        mean_square = self._mean(f"{name}#mean_square", square, self._ranks[name])
        if not layer.centred:
            return x, mean_square
        mean = self._mean(f"{name}#mean", wide, self._ranks[name])
        squared_mean = self._add("Mul", f"{name}#squared_mean", mean, mean)
        centred = self._add("Sub", f"{name}#centred", x, self._narrow(mean))
        return centred, self._add("Sub", f"{name}#exact_variance", mean_square, squared_mean)

    def _mean(self, name: str, x: str, rank: int) -> str:
        """Adds the mean over all axes except the channels."""
        axes = [0, *range(2, rank)]
        if self._skeleton.opset < 18:
            return self._add("ReduceMean", name, x, axes=axes)
        self._constants[f"#axes{rank}"] = np.array(axes, np.int64)
        return self._add("ReduceMean", name, x, f"#axes{rank}")

    def _narrow(self, name: str) -> str:
        return self._add("Cast", f"{name}#narrow", name, to=TensorProto.FLOAT)

    def _add(self, op: str, output: str, *inputs: str, **attributes: int | list[int]) -> str:
        node = helper.make_node(op, inputs, [output])
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._nodes.append(node)
        return output
