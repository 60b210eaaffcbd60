"""Operators of detectors, and transforms of signals, against ONNX Runtime and NumPy."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from runtime.convert import convert
from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import one_op, random_array, run_onnxruntime

ROIS = np.asarray(
    [[1, 2, 9, 7], [0, 0, 12, 8], [-3, -2, 4, 5], [5.5, 3.5, 6.5, 3.75], [9, 6, 30, 21], [3, 3, 3, 3]], np.float32
)


def computed(model: Any, inputs: dict[str, Array]) -> Array:
    graph, _ = convert(model)
    values = evaluate(graph, inputs)
    (name,) = graph.outputs
    return values[name]


@pytest.mark.parametrize("most", [1, 3, 40])
@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize(("limit", "least"), [(0.0, -1.0), (0.3, 0.4), (0.6, 3.0)])
def test_suppression_finds_what_onnx_runtime_finds(most: int, centred: int, limit: float, least: float) -> None:
    boxes, scores = random_array((2, 13, 4), 1, 0, 4), random_array((2, 3, 13), 2, -2, 2)
    scores[:, :, 5] = scores[:, :, 2]
    constants = {"most": most, "limit": limit, "least": least}
    model = one_op(
        "NonMaxSuppression", {"boxes": (2, 13, 4), "scores": (2, 3, 13)}, constants, center_point_box=centred
    )
    model.graph.output[0].type.tensor_type.elem_type = 7
    inputs = {"boxes": boxes, "scores": scores}
    (expected,) = run_onnxruntime(model, inputs)
    found = computed(model, inputs)
    assert found.shape == (2 * 3 * min(most, 13), 3)
    np.testing.assert_array_equal(found[: len(expected)], expected)
    assert (found[len(expected) :] == -1).all()


@pytest.mark.parametrize(
    "model",
    [
        one_op("NonMaxSuppression", {"boxes": (1, 9, 4), "scores": (1, 1, 9)}, {"most": 3, "limit": 0.5}),
        one_op("NonZero", {"x": (3, 4)}),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_what_is_padded_is_reported(model: ModelProto) -> None:
    _, reports = convert(model)
    (report,) = [report for report in reports if report.name.startswith("results with -1")]
    assert len(report.changes) == 1


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT32, TensorProto.BOOL])
@pytest.mark.parametrize("shape", [(11,), (3, 4), (2, 3, 2, 3)], ids=str)
def test_elements_that_are_not_zero_are_found_as_onnx_runtime_finds_them(shape: tuple[int, ...], kind: int) -> None:
    model = one_op("NonZero", {"x": shape}, opset=13)
    model.graph.input[0].type.tensor_type.elem_type = kind
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    x = np.where(random_array(shape) > 0, np.round(3 * random_array(shape, 1)), 0).astype(dtype)
    for values in (x, np.zeros_like(x), np.ones_like(x)):
        (expected,) = run_onnxruntime(model, {"x": values})
        found, count = computed(model, {"x": values}), np.count_nonzero(values)
        assert found.shape == (len(shape), values.size)
        np.testing.assert_array_equal(found[:, :count], expected)
        assert (found[:, count:] == -1).all()


@pytest.mark.parametrize("most", [0, -1])
def test_no_boxes_at_all_are_refused(most: int) -> None:
    model = one_op("NonMaxSuppression", {"boxes": (1, 9, 4), "scores": (1, 1, 9)}, {"most": most})
    with pytest.raises(UnsupportedError, match=f"max_output_boxes_per_class is {most}; supported: at least 1"):
        convert(model)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("scale", [1.0, 0.375])
def test_regions_are_sampled_as_onnx_runtime_does(ratio: int, mode: str, coordinates: str, scale: float) -> None:
    attributes: dict[str, Any] = {
        "output_height": 3,
        "output_width": 2,
        "sampling_ratio": ratio,
        "spatial_scale": scale,
    }
    attributes |= {"mode": mode, "coordinate_transformation_mode": coordinates}
    constants = {"rois": ROIS, "images": np.asarray([0, 1, 1, 0, 1, 0])}
    model = one_op("RoiAlign", {"x": (2, 3, 9, 12)}, constants, **attributes)
    inputs = {"x": random_array((2, 3, 9, 12), low=0.0 if mode == "max" else -2.0)}
    (expected,) = run_onnxruntime(model, inputs)
    np.testing.assert_allclose(computed(model, inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_regions_are_pooled_as_onnx_runtime_does(scale: float) -> None:
    rois = np.concatenate([[[0], [1], [1], [0], [1], [0]], ROIS], axis=1)
    model = one_op("MaxRoiPool", {"x": (2, 3, 9, 12)}, {"rois": rois}, pooled_shape=[3, 4], spatial_scale=scale)
    inputs = {"x": random_array((2, 3, 9, 12))}
    (expected,) = run_onnxruntime(model, inputs)
    np.testing.assert_array_equal(computed(model, inputs), expected)


@pytest.mark.parametrize(
    ("group", "parts", "more"),
    [
        (1, 1, {}),
        (2, 3, {"strides": [2, 1], "pads": [1, 2, 1, 2], "dilations": [1, 2]}),
        (3, 2, {"pads": [1, 1, 1, 1]}),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_deformable_convolution(group: int, parts: int, more: dict[str, Any], masked: bool) -> None:
    strides, pads, dilations = (more.get(key, [value] * 4) for key, value in zip(_KEYS, (1, 0, 1), strict=True))
    out = [
        (size + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel - 1) - 1) // strides[axis] + 1
        for axis, (size, kernel) in enumerate(((7, 3), (9, 2)))
    ]
    shapes = {"x": (2, 6, 7, 9), "offsets": (2, parts * 12, *out)} | ({"mask": (2, parts * 6, *out)} if masked else {})
    constants = {"w": random_array((6, 6 // group, 3, 2), 3), "b": random_array((6,), 4)}
    order = ["x", "w", "offsets", "b", *(["mask"] if masked else [])]
    model = one_op("DeformConv", shapes, constants, 19, order, group=group, offset_group=parts, **more)
    inputs = {name: random_array(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}
    (expected,) = run_onnxruntime(model, inputs)
    np.testing.assert_allclose(computed(model, inputs), expected, rtol=1e-4, atol=1e-5)


_KEYS = ("strides", "pads", "dilations")


@pytest.mark.parametrize("length", [5, 8, 12])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("axis", [1, 2, -2])
def test_transforms_agree_with_numpy(length: int, parts: int, axis: int) -> None:
    x = random_array((2, 8, 7, parts))
    model = one_op("DFT", {"x": x.shape}, {"length": length, "axis": axis}, 20)
    signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    expected = np.fft.fft(signal, length, axis=axis + 1 if axis < 0 else axis)
    found = computed(model, {"x": x})
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [6, 7, 9])
def test_half_a_spectrum_and_back(length: int) -> None:
    x = random_array((3, length, 1))
    half = one_op("DFT", {"x": x.shape}, {}, 17, axis=1, onesided=1)
    found = computed(half, {"x": x})
    expected = np.fft.rfft(x[..., 0])
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-5)
    back = one_op("DFT", {"x": found.shape}, {"length": length}, 17, axis=1, onesided=1, inverse=1)
    np.testing.assert_allclose(computed(back, {"x": found}), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("onesided", [0, 1])
def test_short_transforms_agree_with_onnx_runtime(onesided: int) -> None:
    x, window = random_array((2, 50, 1)), random_array((12,), 1)
    constants = {"step": 5, "window": window}
    model = one_op("STFT", {"x": x.shape}, constants, 17, ["x", "step", "window"], onesided=onesided)
    (expected,) = run_onnxruntime(model, {"x": x})
    np.testing.assert_allclose(computed(model, {"x": x}), expected, rtol=1e-4, atol=1e-4)


def test_a_transform_of_a_million_samples_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="length is 1000000; supported: 1 to 4096"):
        convert(one_op("DFT", {"x": (1, 1000000, 1)}, {}, 17, axis=1))


@pytest.mark.parametrize(
    ("op", "shapes", "constants", "attributes", "text"),
    [
        ("NonMaxSuppression", {"b": (2, 9, 4), "s": (1, 1, 9)}, {"most": 3}, {}, "do not fit"),
        ("NonMaxSuppression", {"b": (1, 9, 3), "s": (1, 1, 9)}, {"most": 3}, {}, "do not fit"),
        ("NonMaxSuppression", {"b": (1, 9, 4), "s": (1, 9)}, {"most": 3}, {}, "do not fit"),
        ("MaxRoiPool", {"x": (1, 2, 5, 5), "r": (3, 4)}, {}, {"pooled_shape": [2, 2]}, "an image and four coordinates"),
        ("DFT", {"x": (1, 9, 3)}, {}, {"axis": 1}, "whose last axis holds 1 or 2 parts"),
        ("DFT", {"x": (1, 9, 1)}, {}, {"axis": 2}, "axis 2 of a signal"),
    ],
)
def test_shapes_that_do_not_fit(
    op: str, shapes: dict[str, Any], constants: dict[str, Any], attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ModelError, match=text):
        convert(one_op(op, shapes, constants, 17, **attributes))
