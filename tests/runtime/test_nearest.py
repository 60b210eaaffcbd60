"""Nearest Resize takes the pixels that ONNX Runtime takes, for every mode, over hundreds of sizes."""

import functools
import itertools
import random
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime.families.resize.definition import RESIZE_COORDINATES, RESIZE_ROUNDING
from runtime.families.resize.nearest import Indices, nearest_indices
from runtime.importers.onnx_importer import import_onnx
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from tests.opencl import default_device
from tests.runtime.onnx_models import NEAREST_RESIZES, inputs_of, nearest_resizes, run_onnxruntime

# Where a coordinate in exact or reciprocal arithmetic falls on the other side of a tie or an integer.
KNOWN = [(68, 36), (5, 205), (52, 182), (2, 7), (1, 1), (1, 9), (9, 1), (5000, 5000)]
SCALES = [0.6, 2.5, 0.3, 1.7, 3.3333333, 0.1, 1.0, 1.05, 2.0, 0.5, 7.77]
MODES = list(itertools.product((*RESIZE_COORDINATES, "half_pixel_symmetric"), RESIZE_ROUNDING))
each_mode = pytest.mark.parametrize("modes", MODES, ids="-".join)
Modes = tuple[str, str]


def size_pairs(count: int, largest: int = 300) -> list[tuple[int, int]]:
    rng = random.Random(20)
    return KNOWN + [(rng.randint(1, largest), rng.randint(1, largest)) for _ in range(count)]


@functools.cache
def session(modes: Modes, given: str) -> onnxruntime.InferenceSession:
    """ONNX Runtime's Resize of one axis by its input `given`, `sizes` or `scales`."""
    inputs = ["x", "", "", "sizes"] if given == "sizes" else ["x", "", "scales"]
    kind = TensorProto.INT64 if given == "sizes" else TensorProto.FLOAT
    attributes = {"coordinate_transformation_mode": modes[0], "nearest_mode": modes[1]}
    node = helper.make_node("Resize", inputs, ["y"], mode="nearest", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, "n", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x, helper.make_tensor_value_info(given, kind, [4])], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def taken_by_onnxruntime(extent: int, modes: Modes, given: str, value: float) -> Indices:
    """The input index of each output position."""
    x = np.arange(extent, dtype=np.float32).reshape(1, 1, extent, 1)
    values = np.array([1, 1, value, 1], np.int64 if given == "sizes" else np.float32)
    (y,) = session(modes, given).run(None, {"x": x, given: values})
    return np.asarray(y).reshape(-1).astype(np.int32)


@each_mode
def test_given_sizes_take_the_pixels_that_onnxruntime_takes(modes: Modes) -> None:
    for extent, size in size_pairs(300):
        expected = taken_by_onnxruntime(extent, modes, "sizes", size)
        found = nearest_indices(extent, size, size / extent, *modes)
        np.testing.assert_array_equal(found, expected, err_msg=f"{extent} -> {size}")


@each_mode
def test_given_scales_take_the_pixels_that_onnxruntime_takes(modes: Modes) -> None:
    for extent, scale in itertools.product((1, 2, 3, 7, 10, 28, 33, 68, 101, 224), SCALES):
        expected = taken_by_onnxruntime(extent, modes, "scales", scale)
        if len(expected) == extent and scale != 1:
            continue  # ONNX Runtime copies, whatever ONNX's formula says of the scale
        found = nearest_indices(extent, len(expected), scale, *modes)
        np.testing.assert_array_equal(found, expected, err_msg=f"{extent} x {scale}")


def first_resize(scales: tuple[float, float], extents: tuple[int, int]) -> onnx.ModelProto:
    """Resize as opset 10 has it, without modes for coordinates and rounding."""
    node = helper.make_node("Resize", ["x", "scales"], ["y"], "resize", mode="nearest")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, *extents])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    values = numpy_helper.from_array(np.array([1, 1, *scales], np.float32), "scales")
    graph = helper.make_graph([node], "g", [x], [y], [values])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=5)


def first_resizes() -> Iterator[tuple[tuple[float, float], tuple[int, int]]]:
    rng = random.Random(10)
    for _ in range(400):
        extents = rng.randint(2, 90), rng.randint(2, 90)
        scales = rng.choice(SCALES), rng.choice([*SCALES, rng.uniform(0.2, 3.0)])
        if all(int(np.float32(extent) * np.float32(scale)) >= 1 for extent, scale in zip(extents, scales, strict=True)):
            yield scales, extents


@pytest.mark.slow
def test_the_first_resize() -> None:
    """Rounds down where an axis grows, up where it shrinks, as ONNX Runtime does."""
    compared = 0
    for scales, extents in first_resizes():
        model = first_resize(scales, extents)
        x = np.arange(extents[0] * extents[1], dtype=np.float32).reshape(1, 1, *extents)
        (expected,) = run_onnxruntime(model, {"x": x})
        if expected.shape == x.shape and scales != (1.0, 1.0):
            continue  # ONNX Runtime copies, whatever the scales
        graph = import_onnx(model)
        found = evaluate(graph, {"x": x})["y"]
        np.testing.assert_array_equal(found, expected, err_msg=f"{extents} by {scales}")
        compared += 1
    assert compared > 300


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("memory", ["buffer", "image"])
@pytest.mark.parametrize("size", NEAREST_RESIZES, ids=str)
def test_plans_take_the_pixels_that_onnxruntime_takes(size: tuple[int, int], memory: str) -> None:
    """One plan resizes height and width by every mode, and each output equals ONNX Runtime's exactly."""
    model = nearest_resizes(size, NEAREST_RESIZES[size])
    graph = import_onnx(model)
    plan = lower(graph, target_of_device(default_device(), memory=memory))
    inputs = inputs_of(graph)
    outputs = Executor(encode_plan(plan), plan.data, default_device()).run(inputs)
    for name, expected in zip(graph.outputs, run_onnxruntime(model, inputs), strict=True):
        np.testing.assert_array_equal(outputs[name], expected, err_msg=name)
