"""Convolution and pooling at import: every way to say a window, against ONNX Runtime."""

import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runtime.errors import ModelError, UnsupportedError
from runtime.importers.onnx_importer import import_onnx
from tests.runtime.onnx_models import NEWEST_RUNTIME_OPSET, assert_matches_onnxruntime, one_op, random_array

extents = st.integers(1, 4)
strides = st.integers(1, 3)
images = st.tuples(st.integers(1, 11), st.integers(1, 11))


@st.composite
def windows(draw: st.DrawFn, *, dilated: bool) -> dict[str, Any]:
    """Attributes of a window, padding narrower than the window, as ONNX Runtime asks."""
    kernel = [draw(extents), draw(extents)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [draw(strides), draw(strides)]}
    mode = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if dilated and not mode.startswith("SAME"):  # which ONNX Runtime refuses
        attributes["dilations"] = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    if mode == "NOTSET":
        attributes["pads"] = [draw(st.integers(0, kernel[axis] - 1)) for axis in (0, 1, 0, 1)]
    else:
        attributes["auto_pad"] = mode
    return attributes


def _ceil(draw_ceil: bool, attributes: dict[str, Any]) -> dict[str, int]:
    """ceil_mode, unless of VALID padding."""
    return {"ceil_mode": int(draw_ceil and attributes.get("auto_pad") != "VALID")}


def _fits(image: tuple[int, int], attributes: dict[str, Any]) -> bool:
    pads = attributes.get("pads", [0] * 4)
    if attributes.get("auto_pad", "").startswith("SAME"):
        # ONNX Runtime's pools shift or refuse a window that is smaller than its stride; its convolution does not.
        return all(k >= s for k, s in zip(attributes["kernel_shape"], attributes["strides"], strict=True))
    dilations = attributes.get("dilations", [1, 1])
    return all(
        dilations[axis] * (attributes["kernel_shape"][axis] - 1) < image[axis] + pads[axis] + pads[axis + 2]
        for axis in (0, 1)
    )


@settings(max_examples=60)
@given(image=images, attributes=windows(dilated=True), group=st.integers(1, 3), per_group=st.integers(1, 3))
def test_conv(image: tuple[int, int], attributes: dict[str, Any], group: int, per_group: int) -> None:
    assume(_fits(image, attributes))
    constants = {
        "w": random_array((group * per_group, 2, *attributes["kernel_shape"]), 1),
        "b": random_array((group * per_group,), 2),
    }
    model = one_op("Conv", {"x": (2, 2 * group, *image)}, constants, 11, group=group, **attributes)
    assert_matches_onnxruntime(model)


@pytest.mark.slow
@settings(max_examples=60)
@given(image=images, attributes=windows(dilated=False), ceil=st.booleans(), opset=st.sampled_from([10, 19, 22]))
def test_max_pool(image: tuple[int, int], attributes: dict[str, Any], ceil: bool, opset: int) -> None:
    assume(_fits(image, attributes))
    assert_matches_onnxruntime(
        one_op("MaxPool", {"x": (1, 2, *image)}, opset=opset, **_ceil(ceil, attributes), **attributes)
    )


@pytest.mark.slow
@settings(max_examples=100)
@given(image=images, attributes=windows(dilated=False), ceil=st.booleans(), include=st.booleans())
def test_average_pool(image: tuple[int, int], attributes: dict[str, Any], ceil: bool, include: bool) -> None:
    assume(_fits(image, attributes))
    more = {**_ceil(ceil, attributes), "count_include_pad": int(include)}
    assert_matches_onnxruntime(one_op("AveragePool", {"x": (1, 2, *image)}, opset=19, **more, **attributes))


@pytest.mark.parametrize("opset", [7, 9, 11, 22, NEWEST_RUNTIME_OPSET])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_every_opset(op: str, opset: int) -> None:
    constants = {"w": random_array((3, 4, 3, 2))} if op == "Conv" else {}
    pads = {"pads": [1, 0, 1, 1], "strides": [2, 1], "kernel_shape": [3, 2]}
    assert_matches_onnxruntime(one_op(op, {"x": (2, 4, 7, 8)}, constants, opset, **pads))


@pytest.mark.parametrize(("op", "expected"), [("GlobalAveragePool", "ReduceMean"), ("GlobalMaxPool", "ReduceMax")])
def test_global_pool_is_a_reduction(op: str, expected: str) -> None:
    graph = assert_matches_onnxruntime(one_op(op, {"x": (2, 3, 5, 4)}))
    assert [node.op for node in graph.nodes] == [expected]


def test_average_over_the_whole_image_is_a_reduction() -> None:
    graph = assert_matches_onnxruntime(one_op("AveragePool", {"x": (2, 3, 5, 4)}, kernel_shape=[5, 4]))
    assert [node.op for node in graph.nodes] == ["ReduceMean"]


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        (
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1},
            "ceil_mode is 1; supported: 0 where windows of auto_pad VALID do not end with the input",
        ),
        ({"kernel_shape": [3, 3], "auto_pad": "FULL"}, "auto_pad is 'FULL'; supported: NOTSET, SAME_UPPER"),
        ({"kernel_shape": [3, 3], "pads": [-1, 0, 0, 0]}, "pads is [-1, 0, 0, 0]; supported: values that are not neg"),
        (
            {"kernel_shape": [3, 3], "colour": "red"},
            "colour is 'red'; supported: no attribute of this name in opset 17",
        ),
    ],
)
def test_unsupported_window(attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        import_onnx(one_op("MaxPool", {"x": (1, 2, 8, 8)}, **attributes))
    assert str(caught.value).startswith("node 'node' (MaxPool): ")
    assert text in str(caught.value)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER"])
def test_ceil_mode_changes_nothing_where_windows_end_with_the_input(op: str, mode: str) -> None:
    attributes = {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": mode}
    models = [one_op(op, {"x": (1, 2, 9, 8)}, opset=18, ceil_mode=ceil, **attributes) for ceil in (0, 1)]
    without, rounded_up = (assert_matches_onnxruntime(model) for model in models)
    assert without.shape("y") == rounded_up.shape("y")


def test_window_of_another_rank() -> None:
    with pytest.raises(ModelError, match=r"a window of 1 axes over 2 spatial axes"):
        import_onnx(one_op("MaxPool", {"x": (1, 2, 8, 8)}, kernel_shape=[3], strides=[1]))


@pytest.mark.parametrize("shape", [(1, 2, 9), (2, 3, 8, 7), (1, 2, 5, 6, 7)])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_over_any_number_of_axes(op: str, shape: tuple[int, ...]) -> None:
    rank = len(shape) - 2
    attributes = {"kernel_shape": [3, 2, 3][:rank], "strides": [2, 1, 2][:rank], "pads": [1, 0, 1][:rank] * 2}
    assert_matches_onnxruntime(one_op(op, {"x": shape}, opset=18, **attributes))


@pytest.mark.parametrize("mode", [{}, {"ceil_mode": 1}, {"auto_pad": "SAME_UPPER"}], ids=str)
def test_the_greatest_over_three_axes_is_that_of_images(mode: dict[str, Any]) -> None:
    attributes = {"kernel_shape": [2, 3, 3], "strides": [2, 1, 2], **mode}
    graph = assert_matches_onnxruntime(one_op("MaxPool", {"x": (2, 3, 5, 6, 7)}, opset=18, **attributes))
    assert {node.op for node in graph.nodes} == {"Reshape", "MaxPool"}


SPATIAL = [
    {"kernel_shape": [3, 2, 3], "pads": [1, 0, 2, 0, 1, 0]},
    {"kernel_shape": [2, 1, 1], "pads": [1, 0, 0, 1, 0, 0], "strides": [2, 1, 1]},
    {"kernel_shape": [2, 1, 1], "strides": [1, 2, 1]},
    {"kernel_shape": [1, 3, 2], "strides": [1, 2, 1]},
    {"kernel_shape": [1, 1, 1], "pads": [0, 0, 1, 0, 1, 0], "strides": [2, 1, 1]},
    {"kernel_shape": [3, 3, 2], "dilations": [2, 1, 2], "strides": [2, 2, 1], "pads": [2, 1, 1, 1, 0, 1]},
]


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("attributes", SPATIAL, ids=str)
def test_convolution_over_three_axes_is_one_of_images(attributes: dict[str, Any], group: int) -> None:
    weights = {"w": random_array((8, 4 // group, *attributes["kernel_shape"])), "b": random_array((8,))}
    graph = assert_matches_onnxruntime(one_op("Conv", {"x": (2, 4, 5, 6, 7)}, weights, group=group, **attributes))
    assert "Conv" in {node.op for node in graph.nodes} <= {"Conv", "Pad", "Reshape", "Strided", "Transpose"}


def test_dilated_maximum() -> None:
    graph = assert_matches_onnxruntime(one_op("MaxPool", {"x": (1, 2, 8, 8)}, kernel_shape=[3, 3], dilations=[2, 2]))
    assert [node.op for node in graph.nodes] == ["StridedReduction"]


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "output_padding": [1, 0]},
        {"pads": [1, 0, 2, 1], "dilations": [2, 1]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 3], "output_shape": [11, 16]},
    ],
)
def test_transposed_convolution(group: int, attributes: dict[str, Any]) -> None:
    weights = {"w": random_array((4, 3, 3, 2)), "b": random_array((3 * group,))}
    model = one_op("ConvTranspose", {"x": (2, 4, 5, 6)}, weights, group=group, **attributes)
    assert [node.op for node in assert_matches_onnxruntime(model).nodes] == ["ConvTranspose"]


def test_transposed_convolution_of_a_signal() -> None:
    weights = {"w": random_array((4, 3, 5)), "b": random_array((3,))}
    model = one_op("ConvTranspose", {"x": (2, 4, 7)}, weights, strides=[3], pads=[1, 2], output_padding=[1])
    graph = assert_matches_onnxruntime(model)
    assert [node.op for node in graph.nodes] == ["Reshape", "ConvTranspose", "Reshape"]


@pytest.mark.parametrize("shape", [(2, 4, 5, 6), (1, 4, 3, 2, 3)])
def test_transposed_convolution_without_kernels_is_a_strided_product(shape: tuple[int, ...]) -> None:
    """Filters that are computed at run time, or three axes."""
    rank = len(shape) - 2
    filters = {"w": (4, 3, *(2,) * rank)}
    constants = {"w": random_array(filters["w"])} if rank > 2 else {}
    inputs = {"x": shape} if rank > 2 else {"x": shape, **filters}
    model = one_op("ConvTranspose", inputs, constants, strides=[2] * rank, output_padding=[1] * rank)
    assert "StridedProduct" in [node.op for node in assert_matches_onnxruntime(model).nodes]


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"output_padding": [1]}, "output_padding is [1]; 2 numbers are needed"),
        ({"pads": [1, 1]}, "pads are [1, 1]; 4 numbers are needed"),
        ({"pads": [9, 9, 9, 9]}, "pads (9, 9, 9, 9) cut all of the output away"),
    ],
)
def test_a_broken_transposed_convolution(attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=re.escape(text)):
        import_onnx(one_op("ConvTranspose", {"x": (2, 4, 5, 6)}, {"w": random_array((4, 3, 2, 2))}, **attributes))


def test_window_larger_than_the_image() -> None:
    with pytest.raises(ModelError, match=r"node 'node' \(MaxPool\): window \(9, 3\) is larger than the padded input"):
        import_onnx(one_op("MaxPool", {"x": (1, 2, 8, 8)}, kernel_shape=[9, 3]))


def test_filter_that_does_not_fit() -> None:
    model = one_op("Conv", {"x": (1, 4, 8, 8)}, {"w": random_array((6, 3, 3, 3))})
    with pytest.raises(ModelError, match=r"filter \(6, 3, 3, 3\) in 1 group\(s\) does not fit .* \(1, 4, 8, 8\)"):
        import_onnx(model)


def test_filter_computed_at_run_time() -> None:
    model = one_op("Conv", {"x": (1, 4, 8, 8), "w": (2, 4, 3, 3)})
    graph = assert_matches_onnxruntime(model)
    assert [node.op for node in graph.nodes] == ["StridedProduct", "Reshape"]
