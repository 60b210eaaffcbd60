"""Convolution and pooling with every kind of window compute what ONNX Runtime computes."""

from __future__ import annotations

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
    """Draws the attributes of a window; its padding is narrower than the window, as ONNX Runtime asks."""
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
    """Returns ceil_mode, which is set only where the window has explicit padding."""
    return {"ceil_mode": int(draw_ceil and "pads" in attributes)}


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


@settings(max_examples=60, deadline=None)
@given(image=images, attributes=windows(dilated=True), group=st.integers(1, 3), per_group=st.integers(1, 3))
def test_a_convolution_with_any_window_computes_what_onnxruntime_computes(
    image: tuple[int, int], attributes: dict[str, Any], group: int, per_group: int
) -> None:
    assume(_fits(image, attributes))
    constants = {
        "w": random_array((group * per_group, 2, *attributes["kernel_shape"]), 1),
        "b": random_array((group * per_group,), 2),
    }
    model = one_op("Conv", {"x": (2, 2 * group, *image)}, constants, 11, group=group, **attributes)
    assert_matches_onnxruntime(model)


@settings(max_examples=60, deadline=None)
@given(image=images, attributes=windows(dilated=False), ceil=st.booleans(), opset=st.sampled_from([10, 19, 22]))
def test_a_max_pool_with_any_window_computes_what_onnxruntime_computes(
    image: tuple[int, int], attributes: dict[str, Any], ceil: bool, opset: int
) -> None:
    assume(_fits(image, attributes))
    assert_matches_onnxruntime(
        one_op("MaxPool", {"x": (1, 2, *image)}, opset=opset, **_ceil(ceil, attributes), **attributes)
    )


@settings(max_examples=100, deadline=None)
@given(image=images, attributes=windows(dilated=False), ceil=st.booleans(), include=st.booleans())
def test_an_average_pool_with_any_window_computes_what_onnxruntime_computes(
    image: tuple[int, int], attributes: dict[str, Any], ceil: bool, include: bool
) -> None:
    assume(_fits(image, attributes))
    more = {**_ceil(ceil, attributes), "count_include_pad": int(include)}
    assert_matches_onnxruntime(one_op("AveragePool", {"x": (1, 2, *image)}, opset=19, **more, **attributes))


@pytest.mark.parametrize("opset", [7, 9, 11, 22, NEWEST_RUNTIME_OPSET])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_windows_of_every_opset_compute_what_onnxruntime_computes(op: str, opset: int) -> None:
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
        ({"kernel_shape": [3], "strides": [1]}, "kernel_shape is [3]; supported: two values, for 2D"),
        ({"kernel_shape": [3, 3], "dilations": [2, 2]}, "dilations is [2, 2]; supported: [1, 1]"),
        ({"kernel_shape": [3, 3], "auto_pad": "VALID", "ceil_mode": 1}, "ceil_mode is 1; supported: 0 together with"),
        ({"kernel_shape": [3, 3], "storage_order": 1}, "storage_order is 1; supported: 0"),
        ({"kernel_shape": [3, 3], "auto_pad": "FULL"}, "auto_pad is 'FULL'; supported: NOTSET, SAME_UPPER"),
        ({"kernel_shape": [3, 3], "pads": [-1, 0, 0, 0]}, "pads is [-1, 0, 0, 0]; supported: values that are not neg"),
        (
            {"kernel_shape": [3, 3], "colour": "red"},
            "colour is 'red'; supported: no attribute of this name in opset 17",
        ),
    ],
)
def test_an_unsupported_window_is_refused(attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        import_onnx(one_op("MaxPool", {"x": (1, 2, 8, 8)}, **attributes))
    assert str(caught.value).startswith("node 'node' (MaxPool): ")
    assert text in str(caught.value)


def test_a_window_larger_than_the_image_is_refused() -> None:
    with pytest.raises(ModelError, match=r"node 'node' \(MaxPool\): window \(9, 3\) is larger than the padded input"):
        import_onnx(one_op("MaxPool", {"x": (1, 2, 8, 8)}, kernel_shape=[9, 3]))


def test_a_filter_that_does_not_fit_is_refused() -> None:
    model = one_op("Conv", {"x": (1, 4, 8, 8)}, {"w": random_array((6, 3, 3, 3))})
    with pytest.raises(ModelError, match=r"filter \(6, 3, 3, 3\) in 1 group\(s\) does not fit .* \(1, 4, 8, 8\)"):
        import_onnx(model)


def test_a_filter_computed_at_run_time_is_refused() -> None:
    model = one_op("Conv", {"x": (1, 4, 8, 8), "w": (2, 4, 3, 3)})
    with pytest.raises(UnsupportedError, match=r"\(Conv\): filter 'w' is computed at run time; supported: a constant"):
        import_onnx(model)
