"""Single-operator benchmarks: their cases and names. Pure: graphs in, names out.

    BENCHMARK = KERNEL / MEMORY / PRECISION / CASE / VARIANT
    KERNEL    = conv2d, conv1x1, depthwise, ...           a row of the kernel table
    MEMORY    = buffer, image
    PRECISION = fp32, fp16_storage, fp16                  fp16_storage computes in fp32
    CASE      = OPERATOR _ N x C x H x W [_ DETAILS]      shape of the first input in origin order
    DETAILS   = K3x3 S2x2 D1x1 G1 [W2] _ 64               window, stride, dilation, groups, Winograd tile, then channels
    VARIANT   = BLOCK16_VECTOR16_PIXELS8_FMA1, plain      as in tuned records

    conv1x1/buffer/fp32/Conv_1x512x14x14_K1x1S1x1D1x1G1_512/BLOCK16_VECTOR16_PIXELS8_FMA1

A case is a graph of one operator. It is lowered like any model, and each kernel that it becomes is a benchmark, so that
every row of the kernel table has some; boundary conversions are benchmarks of their own in the case `Relu`.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from farm.rows.forecast import CONVERSION_MARK, CONVERSION_TYPES
from runtime.graph import Graph, Node, TensorInfo
from runtime.kernels.source import build_options
from runtime.kernels.spec import Variant
from runtime.lowering.assembly import round_up
from runtime.lowering.lower import lower
from runtime.lowering.options import Options
from runtime.operators import infer_shape
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind
from runtime.recurrence import DIRECTIONS, GATES
from runtime.target import Target
from runtime.types import Winograd

Shape = tuple[int, ...]

SEED = 7


@dataclasses.dataclass(frozen=True)
class OperatorCase:
    """A graph of one operator; `winograd` as in a deployment file, `conversions`: benchmark the boundary too."""

    name: str
    op: str
    inputs: tuple[Shape, ...]
    weights: tuple[Shape, ...] = ()
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    winograd: Winograd = 0
    conversions: bool = False

    def graph(self) -> Graph:
        """The graph, with seeded weights."""
        random = np.random.default_rng(SEED)
        graph = Graph(self.name, [f"x{index}" for index in range(len(self.inputs))], ["y"], [], {}, {})
        graph.tensors |= {name: TensorInfo(shape) for name, shape in zip(graph.inputs, self.inputs, strict=True)}
        scale = [1 / math.sqrt(max(1, math.prod(shape[1:]))) for shape in self.weights]
        values = [random.normal(0, s, shape) for s, shape in zip(scale, self.weights, strict=True)]
        constants = [graph.add_constant(f"w{index}", value.astype(np.float32)) for index, value in enumerate(values)]
        graph.nodes.append(Node(self.op, self.name, [*graph.inputs, *constants], ["y"], dict(self.attrs)))
        graph.tensors["y"] = TensorInfo(infer_shape(self.op, [*self.inputs, *self.weights], self.attrs))
        return graph


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One launch to time: a step of a case's plan under a variant."""

    case: OperatorCase
    plan: Plan
    step_index: int
    variant: Variant

    @property
    def step(self) -> Step:
        """The step as the plan has it."""
        return self.plan.steps[self.step_index]

    @property
    def name(self) -> str:
        """Name in the grammar above."""
        target = self.plan.target
        memory, precision = self.step.kernel.memory, target.precision.label
        return f"{self.step.kernel.name}/{memory}/{precision}/{self.case.name}/{self.variant.name}"

    @property
    def input_bytes(self) -> int:
        """Bytes of the operator's inputs."""
        return sum(map(math.prod, self.case.inputs)) * self.plan.target.element_bytes

    @property
    def launch(self) -> dict[str, object]:
        """Words of farmrt's `trial`: the step, and the variant with its default local size."""
        step, variant, target = self.step, self.variant, self.plan.target
        items = step.kernel.work_items(step.dims, variant)
        local = step.kernel.local_size(step.dims, variant, target) if step.kernel.local_size else (0,) * len(items)
        return {
            "step": self.step_index,
            "options": build_options(variant, target.precision, step.defines),
            "global": round_up(items, local)[: len(items)],
            "local": local,
            "block": step.kernel.block(variant) if step.kernel.block else 0,
        }


def benchmarks(case: OperatorCase, target: Target, all_variants: bool = False) -> Iterator[Benchmark]:
    """The benchmarks of a case on a target: its default variant of each kernel, or every variant that fits."""
    plan = lower(case.graph(), target, Options(winograd=case.winograd, reuse_memory=False))
    seen = set()
    for index, step in enumerate(plan.steps):
        if step.kind == StepKind.CPU or (_is_inserted(step) and not case.conversions):
            continue
        for variant in _variants(step, target) if all_variants else (step.variant,):
            benchmark = Benchmark(case, plan, index, variant)
            if benchmark.name not in seen:
                seen.add(benchmark.name)
                yield benchmark


def _is_inserted(step: Step) -> bool:
    """Returns whether the lowering inserted the step, so that no operator of the model is measured by it."""
    return step.op in CONVERSION_TYPES and CONVERSION_MARK in step.note


def _variants(step: Step, target: Target) -> list[Variant]:
    return [variant for variant in step.kernel.variants if not step.kernel.fits(step.dims, variant, target)]


def spread_percent(samples_ns: Sequence[float]) -> float:
    """Half-width of the median's 95 % confidence interval, in percent of the median.

    The interval's ends are order statistics, so that no distribution is assumed; too few samples give infinity.
    """
    count = len(samples_ns)
    reach = 0.98 * math.sqrt(count)  # 1.96 standard deviations of a binomial(count, 1/2)
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    if low < 0 or high >= count:
        return math.inf
    ordered = sorted(samples_ns)
    median = statistics.median(ordered)
    return 50 * (ordered[high] - ordered[low]) / median if median else 0.0


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _conv(
    c: int, size: int, out: int, k: int = 3, stride: int = 1, dilation: int = 1, group: int = 1, winograd: Winograd = 0
) -> OperatorCase:
    """Padded to keep the size, but for a window as large as the image, which is a fully connected layer."""
    pad = dilation * (k // 2) if k < size else 0
    x = (1, c, size, size)
    attrs = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (dilation,) * 2, "group": group}
    window = f"K{k}x{k}S{stride}x{stride}D{dilation}x{dilation}G{group}{f'W{winograd}' if winograd else ''}"
    weights = ((out, c // group, k, k), (out,))
    return OperatorCase(
        f"Conv_{_shape(x)}_{window}_{out}", "Conv", (x,), weights, attrs | {"activation": "relu"}, winograd
    )


def _conv_transpose(c: int, size: int, out: int, k: int, stride: int, group: int = 1) -> OperatorCase:
    """Padded so that the size is multiplied by the stride."""
    pad, x = (k - stride) // 2, (1, c, size, size)
    attrs: dict[str, Any] = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (1, 1), "group": group}
    attrs |= {"output_padding": (0, 0), "activation": "relu"}
    name = f"ConvTranspose_{_shape(x)}_K{k}x{k}S{stride}x{stride}D1x1G{group}_{out}"
    return OperatorCase(name, "ConvTranspose", (x,), ((c, out // group, k, k), (out,)), attrs)


def _dense(channels: int, out: int, rows: int = 1, activation: str = "") -> OperatorCase:
    x, attrs = (rows, channels), {"activation": activation} if activation else {}
    name = f"FullyConnected_{_shape(x)}_{out}{activation and f'_{activation}'}"
    return OperatorCase(name, "FullyConnected", (x,), ((out, channels), (out,)), attrs)


def _recurrent(op: str, times: int, hidden: int, direction: str = "forward") -> OperatorCase:
    """A layer over the sums of its inputs, with ONNX's functions."""
    directions, width = len(DIRECTIONS[direction]), GATES[op] * hidden
    x, state = (times, 1, directions * width), (directions, hidden)
    attrs: dict[str, Any] = {"direction": direction, "gate": "sigmoid", "cell": "tanh", "out": "tanh", "clip": 0.0}
    attrs |= dict.fromkeys(("gate_parameters", "cell_parameters", "out_parameters"), (0.0, 0.0))
    attrs |= {"GRU": {"linear_before_reset": True}, "LSTM": {"input_forget": False}}.get(op, {})
    weights = ((directions, hidden, width), state, state)[: 3 if op == "LSTM" else 2]
    return OperatorCase(f"{op}_{_shape(x)}_{direction}_{hidden}", op, (x,), weights, attrs)


def _pool(op: str, c: int, size: int, k: int, stride: int, pad: int) -> OperatorCase:
    attrs: dict[str, Any] = {"kernel": (k, k), "strides": (stride,) * 2, "pads": (pad,) * 4}
    attrs |= {"count_include_pad": False} if op == "AveragePool" else {}
    x = (1, c, size, size)
    return OperatorCase(f"{op}_{_shape(x)}_K{k}x{k}S{stride}x{stride}", op, (x,), (), attrs)


def _resize(mode: str, c: int, size: int, factor: int) -> OperatorCase:
    x = (1, c, size, size)
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": "half_pixel" if mode == "linear" else "asymmetric",
        "nearest_mode": "floor",
        "sizes": (size * factor,) * 2,
        "scales": (float(factor),) * 2,
    }
    return OperatorCase(f"Resize_{_shape(x)}_{mode}_{_shape((size * factor,) * 2)}", "Resize", (x,), (), attrs)


def _simple(op: str, *inputs: Shape, detail: str = "", weights: tuple[Shape, ...] = (), **attrs: Any) -> OperatorCase:
    return OperatorCase(f"{op}_{_shape(inputs[0])}{detail and f'_{detail}'}", op, inputs, weights, attrs)


def _attention(places: int, heads: int, depth: int, causal: bool = False) -> OperatorCase:
    """Heads side by side in each place."""
    x, row = (1, places, heads * depth), heads * depth
    attrs: dict[str, Any] = {"extents": (1, heads, places, places, depth, depth), "shape": x, "offsets": (0, 0, 0)}
    attrs |= dict.fromkeys(("q_strides", "k_strides", "v_strides", "y_strides"), (places * row, depth, row, 1))
    attrs |= {"mask_strides": (0, 0, 0, 0), "scale": depth**-0.5, "causal": causal}
    return _simple("Attention", x, x, x, detail=f"{heads}{'_causal' if causal else ''}", **attrs)


IMAGE = (1, 64, 56, 56)
CASES: tuple[OperatorCase, ...] = (
    _conv(3, 224, 32, stride=2),
    _conv(3, 224, 64, k=7, stride=2),
    _conv(3, 227, 96, k=11, stride=4),
    _conv(64, 56, 64),
    _conv(128, 28, 128),
    _conv(256, 14, 256),
    _conv(512, 7, 512),
    _conv(16, 28, 32, k=5),
    _conv(64, 28, 64, dilation=2),
    _conv(96, 28, 96, group=4),
    _conv(64, 56, 64, winograd=2),
    _conv(64, 56, 64, winograd=4),
    _conv(256, 14, 256, winograd=2),
    _conv(256, 14, 256, winograd=4),
    *(_conv(c, size, out, k=1) for c, size, out in ((32, 112, 64), (64, 56, 128), (256, 28, 256), (512, 14, 512))),
    _conv(1024, 7, 1024, k=1),
    *(_conv(c, size, c, group=c, stride=s) for c, size, s in ((32, 112, 1), (64, 112, 2), (128, 56, 1), (512, 14, 1))),
    _conv(240, 28, 240, k=5, group=240),
    _conv(128, 7, 256, k=7),
    _conv_transpose(128, 28, 64, k=2, stride=2),
    _conv_transpose(256, 16, 128, k=4, stride=2),
    _conv_transpose(21, 32, 21, k=4, stride=2, group=21),
    _conv_transpose(21, 16, 21, k=16, stride=8, group=21),
    _dense(1024, 1001),
    _dense(1024, 1000, rows=16),
    _dense(2048, 1000),
    _recurrent("LSTM", 50, 128),
    _recurrent("LSTM", 50, 256, "bidirectional"),
    _recurrent("LSTM", 2, 1024),
    _recurrent("GRU", 50, 128),
    _recurrent("RNN", 50, 128),
    _simple("MatMul", (8, 128, 64), (8, 64, 128), detail="128"),
    _simple("MatMul", (1, 8, 128, 64), (8, 1, 64, 128), detail="8x1"),
    _dense(192, 768, rows=197),
    _dense(192, 576, 197),
    _dense(192, 768, 197, "gelu"),
    _dense(768, 192, 197),
    _dense(256, 1024, 128, "gelu"),
    _dense(384, 1536, 128, "gelu"),
    _dense(1536, 384, 128),
    _attention(197, 3, 64),
    _attention(128, 4, 64),
    _attention(128, 12, 64, causal=True),
    _simple("LayerNormalization", (1, 197, 192), weights=((192,), (192,)), axes=(2,), epsilon=1e-6, centered=True),
    _simple("LayerNormalization", (1, 96, 56, 56), weights=((96,), (96,)), axes=(1,), epsilon=1e-6, centered=True),
    _simple("GroupNormalization", IMAGE, detail="32", weights=((64,), (64,)), groups=32, epsilon=1e-5),
    _simple("GroupNormalization", IMAGE, detail="8", weights=((64,), (64,)), groups=8, epsilon=1e-5),
    _simple("GroupNormalization", IMAGE, detail="64", weights=((64,), (64,)), groups=64, epsilon=1e-5),
    _pool("MaxPool", 64, 112, 3, 2, 1),
    _pool("AveragePool", 128, 28, 2, 2, 0),
    _simple("ReduceMean", (1, 1024, 7, 7), axes=(2, 3), keepdims=True),
    _simple("BatchNormalization", IMAGE, weights=((64,), (64,)), activation="relu"),
    _simple("LRN", (1, 96, 27, 27), detail="5", alpha=1e-4, beta=0.75, bias=1.0, size=5),
    _resize("nearest", 32, 28, 2),
    _resize("linear", 32, 28, 2),
    _simple("Softmax", (1, 1001), axis=1),
    _simple("Softmax", (1, 21, 65, 65), axis=1),
    _simple("Transpose", IMAGE, detail="0231", perm=(0, 2, 3, 1)),
    dataclasses.replace(_simple("Relu", IMAGE), conversions=True),
    _simple("HardSwish", IMAGE),
    _simple("Gelu", IMAGE),
    _simple("Sigmoid", IMAGE),
    _simple("Add", IMAGE, IMAGE),
    _simple("Mul", IMAGE, (1, 64, 1, 1), detail="1x64x1x1"),
    _simple("Concat", IMAGE, IMAGE, axis=1),
    _simple("Slice", IMAGE, detail="1-55", starts=(1, 1), ends=(55, 55), axes=(2, 3), steps=(1, 1)),
    _simple("Pad", IMAGE, detail="1", pads=(0, 0, 1, 1, 0, 0, 1, 1), value=0.0, mode="constant"),
    _simple("ChannelShuffle", (1, 240, 28, 28), detail="3", group=3),
    _simple("DepthToSpace", (1, 256, 56, 56), detail="2", blocksize=2, mode="CRD"),
    _simple("SpaceToDepth", (1, 64, 112, 112), detail="2", blocksize=2, mode="DCR"),
)
