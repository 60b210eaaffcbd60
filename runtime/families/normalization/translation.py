"""How normalisations and softmax are lowered to buffers, images, blocks and bytes, and at which sizes measured."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from runtime.families.convolution.block_kernels import BLOCKED_DEPTHWISE
from runtime.families.normalization.definition import BLOCKED_NORMALIZATION, QUANTIZED_NORMALIZATION
from runtime.graph import Array, Graph, Node
from runtime.kernels.spec import MemoryType
from runtime.layout.image import ImageLayout
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import BlockedOperator, QuantizedOperator, any_image
from runtime.lowering.builder import IMAGE_RANK, Builder, node_error
from runtime.lowering.images import emit, extents
from runtime.lowering.iteration import reduced_loops
from runtime.lowering.launch import Tensors
from runtime.lowering.value import Value, byte_bounds
from runtime.operators.case import IMAGE, sized
from runtime.plan.plan import ProfileInfo
from runtime.semantics.quantization import EIGHT_BITS
from runtime.types import Storage

Strides = tuple[int, int, int]  # of batch, channel and pixel
_ONE_TAP = {
    **dict.fromkeys(("k_h", "k_w", "stride_h", "stride_w", "dil_h", "dil_w", "group"), 1),
    **dict.fromkeys(("pad_t", "pad_l"), 0),
}
_MOST_CHANNELS = 32768  # of which sums of squares fit 31 bits


def _scale_and_shift(graph: Graph, node: Node, channels: int) -> Iterator[tuple[str, Array]]:
    """Yields name and values of scale and shift, which are constants; absent ones are ones and zeros."""
    for index, (what, fill) in enumerate((("scale", 1.0), ("shift", 0.0)), start=1):
        given = node.input(index)
        data = graph.constants[given] if given else np.full(channels, fill, np.float32)
        yield given or f"{node.name}:{what}", data.reshape(-1)


def _layer_normalization_on_buffers(builder: Builder, node: Node) -> None:
    """Lowers LayerNormalization: each row, or each pixel of an image, is one group."""
    shape, axes = builder.graph.shape(node.output), node.attrs["axes"]
    length = math.prod(shape[axis] for axis in axes)
    by_pixel = axes == (1,) and len(shape) == 4
    storage = Storage.NHWC if by_pixel else Storage.FLAT
    x, y = builder.read(node.inputs[0], storage), builder.write(node.output, storage)
    steps = [(value.stride, 1, 1) if by_pixel else (length, 1, 1) for value in (x, y)]
    dims = {"batch": math.prod(shape) // length, "groups": 1, "channels": length, "pixels": 1}
    _normalize_on_buffers(builder, node, x, y, dims | {"centered": int(node.attrs["centered"])}, steps)


def _group_normalization_on_buffers(builder: Builder, node: Node) -> None:
    """Lowers GroupNormalization over NHWC, or over row-major memory where there are not four axes."""
    shape = builder.graph.shape(node.output)
    pixels = math.prod(shape[2:])
    storage = Storage.NHWC if len(shape) == 4 else Storage.FLAT
    x, y = builder.read(node.inputs[0], storage), builder.write(node.output, storage)
    steps = [_steps(value, pixels) for value in (x, y)]
    groups = node.attrs["groups"]
    dims = {"batch": shape[0], "groups": groups, "channels": shape[1] // groups, "pixels": pixels, "centered": 1}
    _normalize_on_buffers(builder, node, x, y, dims, steps)


def _steps(value: Value, pixels: int) -> Strides:
    if value.storage == Storage.NHWC:
        return pixels * value.stride, 1, value.stride
    return value.shape[1] * pixels, pixels, 1


def _normalize_on_buffers(
    builder: Builder, node: Node, x: Value, y: Value, dims: Mapping[str, int], steps: list[Strides]
) -> None:
    names = [f"{tensor}_{axis}_stride" for tensor in "xy" for axis in ("batch", "channel", "pixel")]
    strides = dict(zip(names, (*steps[0], *steps[1]), strict=True))
    channels = dims["groups"] * dims["channels"]
    scale, shift = (builder.constant(name, data) for name, data in _scale_and_shift(builder.graph, node, channels))
    tensors: Tensors = {"x": x, "s": scale, "t": shift, "y": y}
    code, numbers = activation_code(node.attrs)
    floats = {"epsilon": node.attrs["epsilon"], **numbers}
    defines, shown = {"ACTIVATION": code}, ProfileInfo(y.shape)
    builder.launch("normalization", node.name, node.op, tensors, {**dims, **strides}, floats, defines, shown)


def _scale_shift_on_buffers(builder: Builder, node: Node) -> None:
    """Lowers BatchNormalization: y = activation(x * s[c] + t[c])."""
    shape = builder.graph.shape(node.inputs[0])
    if len(shape) not in (2, 4):
        raise node_error(node, f"an input of shape {shape}; 2 or 4 axes are supported")
    storage = Storage.NHWC if len(shape) == 4 else Storage.FLAT
    x, y = builder.read(node.inputs[0], storage), builder.write(node.output, storage)
    scale, shift = (builder.constant(name, builder.graph.constants[name]) for name in node.inputs[1:3])
    code, numbers = activation_code(node.attrs)
    dims = {"pixels": x.pixels if len(shape) == 4 else shape[0], "channels": shape[1]}
    tensors = {"x": x, "s": scale, "t": shift, "y": y}
    shown = ProfileInfo(y.shape)
    builder.launch("scale_shift", node.name, "BatchNorm", tensors, dims, numbers, {"ACTIVATION": code}, shown)


def _lrn_on_buffers(builder: Builder, node: Node) -> None:
    """Lowers LRN: y = x / (bias + alpha / size * sum of squares over `size` channels) ^ beta."""
    if len(builder.graph.shape(node.inputs[0])) != 4:
        raise node_error(node, "4 axes are supported")
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    dims = {"pixels": x.pixels, "channels": x.shape[1], "size": node.attrs["size"]}
    numbers = {key: float(node.attrs[key]) for key in ("alpha", "beta", "bias")}
    builder.launch("lrn", node.name, "LRN", {"x": x, "y": y}, dims, numbers, shown=ProfileInfo(y.shape))


def _softmax_on_buffers(builder: Builder, node: Node) -> None:
    """Lowers Softmax, exp(x - maximum) / sum of these along one axis, and LogSoftmax, its logarithm."""
    axis, from_blocks = node.attrs["axis"], builder.home(node.inputs[0]).storage == Storage.BLOCKED
    # Neighbours are summed fastest, and blocks are reordered in any case.
    x = builder.read(node.inputs[0], Storage.FLAT) if from_blocks and axis != 1 else builder.read_any(node.inputs[0])
    outer_axes = tuple(other for other in range(len(x.shape)) if other != axis)
    y = builder.write(node.output, x.storage)
    loops = reduced_loops(x, outer_axes, (axis,), tuple(y.strides[other] for other in outer_axes))
    if loops is None:
        x, y = builder.read(node.inputs[0], Storage.FLAT), builder.write(node.output, Storage.FLAT)
        loops = reduced_loops(x, outer_axes, (axis,), tuple(y.strides[other] for other in outer_axes))
    assert loops is not None  # row-major with one axis taken out: at most an outer and an inner loop
    outer, reduced, inner = loops
    dims = {"outer": outer[0], "length": reduced[0], "inner": inner[0]}
    dims |= {"x_outer_stride": outer[1], "x_stride": reduced[1], "x_inner_stride": inner[1]}
    dims |= {"y_outer_stride": outer[2], "y_stride": y.strides[axis], "y_inner_stride": inner[2]}
    defines = {"LOG": int(node.op == "LogSoftmax")}
    builder.launch("softmax", node.name, node.op, {"x": x, "y": y}, dims, defines=defines, shown=ProfileInfo(y.shape))


BUFFER_LOWERINGS = {
    "BatchNormalization": _scale_shift_on_buffers,
    "LRN": _lrn_on_buffers,
    "LayerNormalization": _layer_normalization_on_buffers,
    "GroupNormalization": _group_normalization_on_buffers,
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax_on_buffers),
}


def _layer_normalization_on_images(builder: Builder, node: Node) -> str:
    """Lowers LayerNormalization over the channels of each pixel."""
    if node.attrs["axes"] != (1,):
        return f"normalisation over axes {node.attrs['axes']}; images take channels"
    return _normalize_on_images(builder, node, {"groups": 1, "spatial": 0, "centered": int(node.attrs["centered"])})


def _group_normalization_on_images(builder: Builder, node: Node) -> str:
    """Lowers GroupNormalization."""
    return _normalize_on_images(builder, node, {"groups": node.attrs["groups"], "spatial": 1, "centered": 1})


def _normalize_on_images(builder: Builder, node: Node, dims: Mapping[str, int]) -> str:
    shape = builder.graph.shape(node.output)
    all_dims = {**extents(shape), **dims}
    reason = builder.refusal("normalization", MemoryType.IMAGE, all_dims)
    if reason:
        return reason
    named = zip("st", _scale_and_shift(builder.graph, node, shape[1]), strict=True)
    constants = {key: builder.constant_image(name, data, ImageLayout.ARGUMENT) for key, (name, data) in named}
    code, numbers = activation_code(node.attrs)
    floats = {"epsilon": node.attrs["epsilon"], **numbers}
    return emit(builder, node, "normalization", node.op, all_dims, floats, {"ACTIVATION": code}, constants)


def _scale_shift_on_images(builder: Builder, node: Node) -> str:
    """Lowers BatchNormalization: y = activation(x * s[c] + t[c])."""
    code, numbers = activation_code(node.attrs)
    data = (builder.graph.constants[name] for name in node.inputs[1:3])
    names = zip("st", node.inputs[1:3], data, strict=True)
    constants = {key: builder.constant_image(name, values, ImageLayout.ARGUMENT) for key, name, values in names}
    dims = extents(builder.graph.shape(node.output))
    return emit(builder, node, "scale_shift", "BatchNorm", dims, numbers, {"ACTIVATION": code}, constants)


def _softmax_on_images(builder: Builder, node: Node) -> str:
    """Lowers Softmax and LogSoftmax over the channels."""
    if node.attrs["axis"] != 1:
        return f"softmax along axis {node.attrs['axis']}; images take channels"
    defines = {"LOG": int(node.op == "LogSoftmax")}
    return emit(builder, node, "softmax", node.op, extents(builder.graph.shape(node.output)), defines=defines)


def _lrn_on_images(builder: Builder, node: Node) -> str:
    """Lowers LRN."""
    dims = extents(builder.graph.shape(node.output)) | {"size": node.attrs["size"]}
    return emit(builder, node, "lrn", "LRN", dims, {key: node.attrs[key] for key in ("alpha", "beta", "bias")})


IMAGE_LOWERINGS = {
    "BatchNormalization": _scale_shift_on_images,
    "LRN": _lrn_on_images,
    "LayerNormalization": _layer_normalization_on_images,
    "GroupNormalization": _group_normalization_on_images,
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax_on_images),
}


def _scale_shift_on_blocks(builder: Builder, node: Node) -> None:
    """Lowers BatchNormalization, y = activation(x * s[c] + t[c]), as a depthwise convolution of one tap."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    scale, shift = (builder.graph.constants[name].reshape(-1) for name in node.inputs[1:3])
    batch, channels, height, width = x.shape
    tensors: Tensors = {"x": x, "residual": x, "y": y}
    tensors["w"] = builder.constant_rows(node.inputs[1], scale[None, :, None], builder.block)
    tensors["b"] = builder.constant(node.inputs[2], shift)
    dims = {"batch": batch, "in_h": height, "in_w": width, "out_h": height, "out_w": width, "channels": channels}
    code, numbers = activation_code(node.attrs)
    defines = {"ACTIVATION": code, "RESIDUAL": 0, "BLOCK": builder.block}
    shown = ProfileInfo(y.shape)
    builder.launch(BLOCKED_DEPTHWISE, node.name, "BatchNorm", tensors, dims | _ONE_TAP, numbers, defines, shown)


def _group_normalization_on_blocks(builder: Builder, node: Node) -> None:
    """Lowers GroupNormalization, which InstanceNormalization is with a group for each channel."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    batch, channels, height, width = x.shape
    scale, shift = (builder.constant(name, data) for name, data in _scale_and_shift(builder.graph, node, channels))
    dims = {"batch": batch, "channels": channels, "groups": node.attrs["groups"], "pixels": height * width}
    code, numbers = activation_code(node.attrs)
    defines = {"ACTIVATION": code, "BLOCK": builder.block}
    floats = {"epsilon": node.attrs["epsilon"], **numbers}
    tensors: Tensors = {"x": x, "s": scale, "t": shift, "y": y}
    builder.launch(BLOCKED_NORMALIZATION, node.name, node.op, tensors, dims, floats, defines, ProfileInfo(y.shape))


BLOCKED_OPERATORS = {
    "BatchNormalization": BlockedOperator(any_image, _scale_shift_on_blocks),
    "GroupNormalization": BlockedOperator(any_image, _group_normalization_on_blocks),
}


def _bytes_serve(builder: Builder, node: Node) -> bool:
    """Rows of whole blocks, each of which is normalised alone."""
    shape = builder.graph.shape(node.inputs[0])
    are_rows = len(shape) != IMAGE_RANK and node.attrs["axes"] == (len(shape) - 1,)
    fits = are_rows and shape[-1] % builder.block == 0 and shape[-1] <= _MOST_CHANNELS
    return fits and node.attrs.get("activation", "fake_quantize") == "fake_quantize"


def _bytes_pay(builder: Builder, node: Node) -> bool:
    """Whether rows of floats can be brought into bytes, which takes less than what is gained."""
    known = builder.graph.tensors[node.inputs[0]].quantization
    return known is not None and known.is_whole and known.integers in EIGHT_BITS


def _layer_normalization_on_bytes(builder: Builder, node: Node) -> None:
    x, y = builder.read_bytes(node.inputs[0]), builder.write_bytes(builder.result(node))
    assert x.steps and y.steps
    rows, channels = x.shape[:2]
    ends = zip("st", _scale_and_shift(builder.graph, node, channels), strict=True)
    s, t = (builder.constant(f"{node.name}:{end}", (data / y.steps.step).astype(np.float32)) for end, (_, data) in ends)
    tensors: Tensors = {"x": x, "s": s, "t": t, "y": y}
    dims = {"rows": rows, "channels": channels, "centered": int(node.attrs["centered"]), "zero": x.steps.zero}
    epsilon = min(node.attrs["epsilon"] / x.steps.step**2, float(np.finfo(np.float32).max))
    floats = {"epsilon": epsilon, **byte_bounds(y.steps, "act_a act_b")}
    shown, defines = ProfileInfo((rows, channels)), {"BLOCK": builder.block}
    builder.launch(QUANTIZED_NORMALIZATION, node.name, node.op, tensors, dims, floats, defines, shown, "eight bits")


QUANTIZED_OPERATORS = {
    "LayerNormalization": QuantizedOperator(_bytes_serve, _layer_normalization_on_bytes, _bytes_pay, inputs=1)
}


OPBENCH_CASES = (
    sized("LayerNormalization", (1, 197, 192), weights=((192,), (192,)), axes=(2,), epsilon=1e-6, centered=True),
    sized(
        "LayerNormalization", (1, 128, 512), detail="rms", weights=((512,),), axes=(2,), epsilon=1e-5, centered=False
    ),
    sized("LayerNormalization", (1, 96, 56, 56), weights=((96,), (96,)), axes=(1,), epsilon=1e-6, centered=True),
    sized("GroupNormalization", IMAGE, detail="32", weights=((64,), (64,)), groups=32, epsilon=1e-5),
    sized("GroupNormalization", IMAGE, detail="8", weights=((64,), (64,)), groups=8, epsilon=1e-5),
    sized("GroupNormalization", IMAGE, detail="64", weights=((64,), (64,)), groups=64, epsilon=1e-5),
    sized("BatchNormalization", IMAGE, weights=((64,), (64,)), activation="relu"),
    sized("LRN", (1, 96, 27, 27), detail="5", alpha=1e-4, beta=0.75, bias=1.0, size=5),
    sized("Softmax", (1, 1001), axis=1),
    sized("Softmax", (1, 21, 65, 65), axis=1),
)
