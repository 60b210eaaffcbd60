"""Each layer of Caffe against OpenCV, which reads Caffe's files too, or NumPy that follows Caffe's definition."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.errors import UnsupportedError
from runtime.graph import Array
from runtime.importers.caffe.caffe_importer import LAYERS
from tests.runtime.caffe_networks import CaffeNet

SHAPE = (2, 6, 7, 9)


def values(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


X, Y = values(*SHAPE), values(*SHAPE, seed=2)
CHANNELS = np.linspace(0.5, 1.5, 6, dtype=np.float32)
PER_CHANNEL = CHANNELS.reshape(1, 6, 1, 1)


def pooled(x: Array, out: tuple[int, int], kernel: int, stride: int, pad: int, method: str) -> Array:
    """Caffe's loops: a window begins in the padding and ends at most with it; the average counts all of that."""
    n, c, h, w = x.shape
    result = np.zeros((n, c, *out), np.float32)
    for row in range(out[0]):
        for column in range(out[1]):
            top, left = row * stride - pad, column * stride - pad
            bottom, right = min(top + kernel, h + pad), min(left + kernel, w + pad)
            area = (bottom - top) * (right - left)
            window = x[:, :, max(top, 0) : min(bottom, h), max(left, 0) : min(right, w)]
            result[:, :, row, column] = window.max((2, 3)) if method == "MAX" else window.sum((2, 3)) / area
    return result


def lrn_across(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    padded = np.pad(x**2, ((0, 0), (size // 2, size // 2), (0, 0), (0, 0)))
    total = sum(padded[:, at : at + x.shape[1]] for at in range(size))
    return np.asarray(x / (k + alpha / size * total) ** beta)


def moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    centred = x - x.mean(axes, keepdims=True)
    return centred, (centred**2).mean(axes, keepdims=True)


def interpolated(x: Array, out: tuple[int, int]) -> Array:
    """Bilinear, the corners' centres on each other."""
    result = x
    for axis, size in zip((2, 3), out, strict=True):
        at = np.linspace(0, x.shape[axis] - 1, size)
        low = np.minimum(np.floor(at).astype(int), x.shape[axis] - 2)
        share = (at - low).reshape((-1, 1) if axis == 2 else (-1,))
        result = np.take(result, low, axis) * (1 - share) + np.take(result, low + 1, axis) * share
    return result.astype(np.float32)


CENTRED, VARIANCE = moments(X, (0, 2, 3))
POSITIVE = np.abs(X) + 0.5
STORED = [CHANNELS * 4, CHANNELS * 8, np.full(1, 4.0)]

# Name -> layer type, its parameters, its blobs, its bottoms; and what it computes where OpenCV 4 lacks it or computes
# otherwise than Caffe (beta and k are 1, the base is e, an axis is not negative).
CASES: dict[str, tuple[Any, ...]] = {
    "ReLU": ("ReLU", "", [], [X]),
    "leaky ReLU": ("ReLU", "relu_param { negative_slope: 0.1 }", [], [X]),
    "PReLU": ("PReLU", "", [CHANNELS], [X]),
    "shared PReLU": ("PReLU", "prelu_param { channel_shared: true }", [np.full(1, 0.3)], [X]),
    "ELU": ("ELU", "elu_param { alpha: 0.7 }", [], [X]),
    "Sigmoid": ("Sigmoid", "", [], [X]),
    "TanH": ("TanH", "", [], [X]),
    "AbsVal": ("AbsVal", "", [], [X]),
    "BNLL": ("BNLL", "", [], [X]),
    "Power": ("Power", "power_param { power: 2 scale: 0.5 shift: 3 }", [], [X]),
    "square": ("Power", "power_param { power: 2 }", [], [X]),
    "Power of nothing": ("Power", "", [], [X]),
    "Exp": ("Exp", "", [], [X]),
    "Exp of a base": ("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", [], [X]),
    "Log": ("Log", "", [], [POSITIVE]),
    "Log of a base": ("Log", "log_param { base: 10 scale: 2 shift: 1 }", [], [POSITIVE], np.log10(1 + 2 * POSITIVE)),
    "Threshold": ("Threshold", "threshold_param { threshold: 0.2 }", [], [X], (X > 0.2).astype(np.float32)),
    "Dropout": ("Dropout", "dropout_param { dropout_ratio: 0.7 }", [], [X]),
    "ReLU6": ("ReLU6", "", [], [X * 6]),
    "Clip": ("Clip", "clip_param { min: -0.5 max: 1 }", [], [X], np.clip(X, -0.5, 1)),
    "Swish": ("Swish", "swish_param { beta: 2 }", [], [X], X / (1 + np.exp(-2 * X))),
    "sum": ("Eltwise", "", [], [X, Y, X]),
    "weighted sum": ("Eltwise", "eltwise_param { coeff: 0.5 coeff: -2 }", [], [X, Y]),
    "difference": ("Eltwise", "eltwise_param { coeff: 1 coeff: -1 }", [], [X, Y]),
    "product": ("Eltwise", "eltwise_param { operation: PROD }", [], [X, Y, Y]),
    "maximum": ("Eltwise", "eltwise_param { operation: MAX }", [], [X, Y]),
    "Scale": ("Scale", "scale_param { bias_term: true }", [CHANNELS, -CHANNELS], [X]),
    "Scale by a bottom": (
        "Scale",
        "scale_param { axis: 0 bias_term: true }",
        [CHANNELS[:2]],
        [X, CHANNELS[:2]],
        (X + 1) * CHANNELS[:2].reshape(2, 1, 1, 1),
    ),
    "Bias": ("Bias", "", [CHANNELS], [X], X + PER_CHANNEL),
    "Axpy": ("Axpy", "", [], [X[:, :, :1, :1], X, Y], X[:, :, :1, :1] * X + Y),
    "Reduction": ("Reduction", "reduction_param { operation: MEAN axis: 1 coeff: 2 }", [], [X], 2 * X.mean((1, 2, 3))),
    "sum of squares": ("Reduction", "reduction_param { operation: SUMSQ axis: 2 }", [], [X], (X**2).sum((2, 3))),
    "sum of magnitudes": ("Reduction", "reduction_param { operation: ASUM axis: -1 }", [], [X], np.abs(X).sum(3)),
    "ArgMax": ("ArgMax", "", [], [X], X.reshape(2, -1).argmax(1).reshape(2, 1, 1, 1)),
    "ArgMax of an axis": ("ArgMax", "argmax_param { axis: 1 }", [], [X], X.argmax(1)[:, np.newaxis]),
    "BatchNorm": ("BatchNorm", "", STORED, [X]),
    "BatchNorm of factor 0": ("BatchNorm", "batch_norm_param { eps: 4 }", [*STORED[:2], np.zeros(1)], [X]),
    "BatchNorm of the batch": (
        "BatchNorm",
        "batch_norm_param { use_global_stats: false }",
        [],
        [X],
        CENTRED / np.sqrt(VARIANCE + 1e-5),
    ),
    "LRN": (
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.3 beta: 0.6 k: 2 }",
        [],
        [X],
        lrn_across(X, 3, 0.3, 0.6, 2),
    ),
    "within channels": ("LRN", "lrn_param { local_size: 3 alpha: 0.3 beta: 0.6 norm_region: WITHIN_CHANNEL }", [], [X]),
    "MVN": ("MVN", "", [], [X]),
    "MVN of means": ("MVN", "mvn_param { normalize_variance: false across_channels: true }", [], [X]),
    "Normalize": ("Normalize", "norm_param { across_spatial: false channel_shared: false }", [CHANNELS], [X]),
    "Normalize across": ("Normalize", "norm_param { eps: 0.5 }", [np.full(1, 20.0)], [X]),
    "Softmax": ("Softmax", "", [], [X]),
    "Softmax of the last axis": ("Softmax", "softmax_param { axis: -1 }", [], [X]),
    "InnerProduct": ("InnerProduct", "inner_product_param { num_output: 4 }", [values(4, 378), CHANNELS[:4]], [X]),
    "InnerProduct of an axis": (
        "InnerProduct",
        "inner_product_param { num_output: 4 axis: -1 transpose: true bias_term: false }",
        [values(9, 4)],
        [X],
        X @ values(9, 4),
    ),
    "Concat": ("Concat", "", [], [X, Y]),
    "Concat of samples": ("Concat", "concat_param { concat_dim: 0 }", [], [X, Y], np.concatenate([X, Y], 0)),
    "Crop": ("Crop", "crop_param { offset: 1 offset: 2 }", [], [X, Y[:, :, :4, :3]]),
    "Crop of channels": ("Crop", "crop_param { axis: 1 offset: 1 }", [], [X, Y[:, :3, :4, :3]]),
    "Reshape": ("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }", [], [X]),
    "Reshape of axes": ("Reshape", "reshape_param { shape { dim: 3 dim: -1 } axis: 1 num_axes: 1 }", [], [X]),
    "Reshape with a new last axis": (
        "Reshape",
        "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }",
        [],
        [X],
        X[..., np.newaxis],
    ),
    "Flatten": ("Flatten", "", [], [X]),
    "Flatten of axes": ("Flatten", "flatten_param { axis: 1 end_axis: 2 }", [], [X]),
    "Permute": ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [], [X]),
    "Permute of the first": ("Permute", "permute_param { order: 3 }", [], [X], X.transpose(3, 0, 1, 2)),
    "Tile": ("Tile", "tile_param { axis: 2 tiles: 3 }", [], [X], np.tile(X, (1, 1, 3, 1))),
    "ShuffleChannel": ("ShuffleChannel", "shuffle_channel_param { group: 2 }", [], [X]),
    "Interp": ("Interp", "interp_param { height: 13 width: 5 }", [], [X]),
    "Interp by a factor": ("Interp", "interp_param { zoom_factor: 2 }", [], [X]),
    "Interp of a crop": (
        "Interp",
        "interp_param { shrink_factor: 2 pad_beg: -1 pad_end: -1 }",
        [],
        [X],
        interpolated(X[:, :, 1:-1, 1:-1], (3, 4)),
    ),
    "Interp to a bottom": ("Interp", "", [], [X, values(1, 1, 4, 20)], interpolated(X, (4, 20))),
    "Upsample": ("Upsample", "upsample_param { scale: 2 }", [], [X], X.repeat(2, 2).repeat(2, 3)),
    "global MAX": ("Pooling", "pooling_param { pool: MAX global_pooling: true }", [], [X]),
    "global AVE": ("Pooling", "pooling_param { pool: AVE global_pooling: true }", [], [X]),
    "floor": (
        "Pooling",
        "pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }",
        [],
        [X],
        pooled(X, (3, 4), 2, 2, 0, "MAX"),
    ),
}  # fmt: skip


def net_of(kind: str, parameters: str, blobs: list[Array], bottoms: list[Array]) -> tuple[CaffeNet, dict[str, Array]]:
    """A network of one layer, from x0, x1, ... to y; and its inputs."""
    net, inputs = CaffeNet(), {f"x{index}": value for index, value in enumerate(bottoms)}
    names = [net.input(name, value.shape) for name, value in inputs.items()]
    net.layer(kind, "layer", names, ["y"], parameters, blobs)
    return net, inputs


def assert_near(actual: Array, expected: Array) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_caffe_defines(tmp_path: Path, name: str) -> None:
    kind, parameters, blobs, bottoms, *defined = CASES[name]
    net, inputs = net_of(kind, parameters, blobs, bottoms)
    if not defined:
        pytest.importorskip("cv2")
    expected = defined[0] if defined else net.run_opencv(inputs, "layer")
    assert_near(net.run(tmp_path, inputs)["y"], expected)
    with contextlib.suppress(UnsupportedError):  # an operator that no unit computes is refused, by name
        assert_near(net.run_graph(tmp_path, inputs)["y"], expected)


def test_every_type_of_layer_has_a_case() -> None:
    elsewhere = {"Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Deconvolution", "Split", "Slice"}
    elsewhere |= {"PriorBox", "DetectionOutput"}
    assert {case[0] for case in CASES.values()} == LAYERS.keys() - elsewhere


# Name -> what the text says, kernel (height, width) and groups; 8 outputs of 6 channels.
CONVOLUTIONS: dict[str, tuple[str, tuple[int, int], int]] = {
    "square": ("kernel_size: 3 pad: 1", (3, 3), 1),
    "no bias": ("kernel_size: 3 bias_term: false", (3, 3), 1),
    "groups": ("kernel_size: 3 stride: 2", (3, 3), 2),
    "dilated": ("kernel_size: 3 dilation: 2 pad: 2", (3, 3), 1),
    "dilated one way": ("kernel_size: 3 dilation: 1 dilation: 2", (3, 3), 1),
    "rectangle": ("kernel_h: 3 kernel_w: 1 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0", (3, 1), 1),
    "two values": ("kernel_size: 2 kernel_size: 3 stride: 2 stride: 1 pad: 0 pad: 1", (2, 3), 1),
}


DECONVOLUTIONS: dict[str, tuple[str, tuple[int, int], int]] = {
    "bilinear": ("kernel_size: 4 stride: 2 pad: 1", (4, 4), 1),
    "groups": ("kernel_size: 3 stride: 2", (3, 3), 2),
    "rectangle": ("kernel_h: 3 kernel_w: 1 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0", (3, 1), 1),
}


def window_net(kind: str, text: str, filters: Array, group: int = 1) -> tuple[CaffeNet, dict[str, Array]]:
    blobs = [filters, values(8)][: 1 if "bias_term" in text else 2]
    return net_of(kind, f"convolution_param {{ num_output: 8 group: {group} {text} }}", blobs, [X])


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("Convolution", name) for name in CONVOLUTIONS), *(("Deconvolution", name) for name in DECONVOLUTIONS)],
)
def test_a_convolution_of_any_window(tmp_path: Path, kind: str, name: str) -> None:
    text, kernel, group = (CONVOLUTIONS if kind == "Convolution" else DECONVOLUTIONS)[name]
    shape = (8, 6 // group) if kind == "Convolution" else (6, 8 // group)
    net, inputs = window_net(kind, text, values(*shape, *kernel), group)
    actual = net.run(tmp_path, inputs)["y"]
    assert_near(net.run_graph(tmp_path, inputs)["y"], actual)
    pytest.importorskip("cv2")
    assert_near(actual, net.run_opencv(inputs))


def test_a_dilated_deconvolution_has_zeros_in_its_filter(tmp_path: Path) -> None:
    """OpenCV passes over the dilation."""
    filters, wide = values(6, 8, 3, 3), np.zeros((6, 8, 5, 5), np.float32)
    wide[:, :, ::2, ::2] = filters
    dilated, inputs = window_net("Deconvolution", "kernel_size: 3 dilation: 2 pad: 2", filters)
    plain, _ = window_net("Deconvolution", "kernel_size: 5 pad: 2", wide)
    assert_near(dilated.run(tmp_path, inputs)["y"], plain.run(tmp_path, inputs)["y"])


def test_layers_of_forks_are_convolutions_of_as_many_groups_as_channels(tmp_path: Path) -> None:
    text = "convolution_param { num_output: 6 kernel_size: 3 }"
    blobs = [values(6, 1, 3, 3), values(6)]
    results = [
        net_of(kind, text.replace("}", more), blobs, [X])[0].run(tmp_path, {"x0": X})["y"]
        for kind, more in (("Convolution", "group: 6 }"), ("ConvolutionDepthwise", "}"), ("DepthwiseConvolution", "}"))
    ]
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def caffe_outputs(size: int, kernel: int, stride: int, pad: int) -> int:
    """Caffe's count of windows, from its text: rounded up, and one less where the last begins in the padding."""
    count = int(np.ceil((size + 2 * pad - kernel) / stride)) + 1
    return count - 1 if pad and (count - 1) * stride >= size + pad else count


WINDOWS = [
    (size, kernel, stride, pad)
    for size in (5, 6, 7, 8)
    for kernel in (1, 2, 3, 5)
    for stride in (1, 2, 3, 4)
    for pad in (0, 1, 2)
    if pad < kernel <= size + 2 * pad and (caffe_outputs(size, kernel, stride, pad) - 1) * stride < size + pad
]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_pooling_rounds_up_and_counts_the_padding(tmp_path: Path, method: str) -> None:
    """All windows in one network of many layers, for one session."""
    net, inputs, expected = CaffeNet(), {}, {}
    for size in sorted({window[0] for window in WINDOWS}):
        inputs[net.input(f"x{size}", (1, 2, size, size))] = values(1, 2, size, size, seed=size)
    for size, kernel, stride, pad in WINDOWS:
        name = net.pool(f"p{size}_{kernel}_{stride}_{pad}", f"x{size}", method,
                        f"kernel_size: {kernel} stride: {stride} pad: {pad}")  # fmt: skip
        out = caffe_outputs(size, kernel, stride, pad)
        expected[name] = pooled(inputs[f"x{size}"], (out, out), kernel, stride, pad, method)
    assert len(expected) > 100
    for results in (net.run(tmp_path, inputs), net.run_graph(tmp_path, inputs)):
        for name, value in expected.items():
            np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_window_beyond_the_bottom_is_refused(tmp_path: Path) -> None:
    """Without padding Caffe drops no window: a maximum of nothing, or 0 / 0."""
    net, _ = net_of("Pooling", "pooling_param { kernel_size: 1 stride: 2 }", [], [values(1, 1, 4, 4)])
    with pytest.raises(UnsupportedError, match=r"layer 'layer' \(Pooling\): its last window starts beyond the bottom"):
        net.load(tmp_path)


SLICES = {
    "even": ("", 3, [2, 4]),
    "at points": ("slice_param { slice_point: 1 slice_point: 4 }", 3, [1, 4]),
    "old axis": ("slice_param { slice_dim: 3 slice_point: 4 }", 2, [4]),
}


@pytest.mark.parametrize("name", SLICES)
def test_slice(tmp_path: Path, name: str) -> None:
    text, count, points = SLICES[name]
    net, tops = CaffeNet(), [f"y{index}" for index in range(count)]
    net.layer("Slice", "layer", [net.input("x0", SHAPE)], tops, text)
    results = net.run(tmp_path, {"x0": X})
    for top, value in zip(tops, np.split(X, points, 3 if "slice_dim" in text else 1), strict=True):
        assert np.array_equal(results[top], value)


def test_split_copies_its_bottom(tmp_path: Path) -> None:
    net = CaffeNet()
    net.layer("Split", "layer", [net.input("x0", SHAPE)], ["a", "b"])
    results = net.run(tmp_path, {"x0": X})
    assert np.array_equal(results["a"], X) and np.array_equal(results["b"], X)


VARIANCES = "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"
PRIOR_BOXES = {
    "SSD": "min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 clip: false",
    "clipped": "min_size: 90 clip: true",
    "one ratio": "min_size: 30 aspect_ratio: 2 aspect_ratio: 1 aspect_ratio: 2 flip: false clip: false step: 16 "
    "offset: 0.25",
}


def prior_boxes(text: str) -> tuple[CaffeNet, dict[str, Array]]:
    inputs, net = {"features": values(1, 4, 3, 5), "data": values(1, 3, 64, 100)}, CaffeNet()
    bottoms = [net.input(name, value.shape) for name, value in inputs.items()]
    net.layer("PriorBox", "boxes", bottoms, ["boxes"], f"prior_box_param {{ {text} {VARIANCES} }}")
    return net, inputs


@pytest.mark.parametrize("name", PRIOR_BOXES)
def test_prior_boxes(tmp_path: Path, name: str) -> None:
    pytest.importorskip("cv2")
    net, inputs = prior_boxes(PRIOR_BOXES[name])
    assert_near(net.run(tmp_path, inputs)["boxes"], net.run_opencv(inputs, "boxes"))


def test_prior_boxes_of_an_image_and_steps_that_are_said(tmp_path: Path) -> None:
    """OpenCV has no such fields."""
    net, inputs = prior_boxes(
        "min_size: 20 min_size: 40 max_size: 45 max_size: 90 img_h: 60 img_w: 80 step_h: 9 step_w: 11"
    )
    boxes = []
    for row, column in np.ndindex(3, 5):
        x, y = (column + 0.5) * 11, (row + 0.5) * 9
        for size in (20, 30, 40, 60):
            boxes += [(x - size / 2) / 80, (y - size / 2) / 60, (x + size / 2) / 80, (y + size / 2) / 60]
    expected = np.stack([boxes, [0.1, 0.1, 0.2, 0.2] * (len(boxes) // 4)])
    assert_near(net.run(tmp_path, inputs)["boxes"], expected[np.newaxis])
