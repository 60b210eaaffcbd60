"""Whole Caffe networks: what ONNX Runtime and the graph make of the import, against OpenCV's own reading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runtime.convert import convert
from runtime.graph import Array
from runtime.oracle.evaluate import evaluate
from tests.opencl import EXHAUSTIVE
from tests.runtime.caffe_architectures import ARCHITECTURES
from tests.runtime.caffe_networks import CaffeNet


def noise(shape: tuple[int, ...]) -> dict[str, Array]:
    return {"data": np.random.default_rng(7).normal(0, 1, shape).astype(np.float32)}


LARGE = ("alexnet", "resnet")  # 4 and 12 seconds, with no layer that the small ones lack


def assert_near(actual: Array, expected: Array) -> None:
    assert actual.shape == expected.shape
    assert np.ptp(expected) > 0, "a constant output shows nothing"
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


def assert_opencv_agrees(net: CaffeNet, inputs: dict[str, Array], results: dict[str, Array]) -> None:
    pytest.importorskip("cv2")
    for name, value in results.items():
        assert_near(value, net.run_opencv(inputs, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_small_network_is_what_opencv_reads(tmp_path: Path, name: str) -> None:
    build, small, _ = ARCHITECTURES[name]
    net, shape, outputs = build(*small)
    inputs = noise(shape)
    results = net.run(tmp_path, inputs, outputs)
    graph, _ = convert(net.load(tmp_path, outputs=outputs).model)
    values = evaluate(graph, inputs)
    for output in outputs:
        assert_near(values[output], results[output])
    assert_opencv_agrees(net, inputs, results)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if EXHAUSTIVE or name not in LARGE])
def test_a_whole_network_is_what_opencv_reads(tmp_path: Path, name: str) -> None:
    build, _, whole = ARCHITECTURES[name]
    net, shape, outputs = build(*whole)
    inputs = noise(shape)
    assert_opencv_agrees(net, inputs, net.run(tmp_path, inputs, outputs))


def test_batch_norm_and_scale_are_folded_into_the_convolution(tmp_path: Path) -> None:
    """What a user pays for: MobileNet has no operator but convolutions, a mean, a reshape or none, and Softmax."""
    build, small, _ = ARCHITECTURES["mobilenet"]
    net, _, outputs = build(*small)
    graph, _ = convert(net.load(tmp_path, outputs=outputs).model)
    assert {node.op for node in graph.nodes} == {"Conv", "ReduceMean", "Softmax"}
