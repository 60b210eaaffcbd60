"""The oracle is right where ONNX Runtime has no such operator: in fused forms; its convolution equals plain loops."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.operators.table import infer_shape
from runtime.oracle.evaluate import compute, evaluate
from tests.runtime.graphs import GraphMaker
from tests.test_layers import ROOT

IDENTITY_CONV = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}


def noise(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def looped_convolution(x: Array, w: Array, stride: int, pad: int, dilation: int, group: int) -> Array:
    """Computes a convolution as it is defined, one multiply-accumulate at a time."""
    n, _, h, width = x.shape
    o, per_group, k, _ = w.shape
    rows, columns = ((size + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for size in (h, width))
    out = np.zeros((n, o, rows, columns))
    for b, f, i, j, p, u, v in np.ndindex(n, o, rows, columns, per_group, k, k):
        row, column = i * stride - pad + u * dilation, j * stride - pad + v * dilation
        if 0 <= row < h and 0 <= column < width:
            out[b, f, i, j] += w[f, p, u, v] * x[b, f // (o // group) * per_group + p, row, column]
    return out


@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "group"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4), (3, 1, 1, 1)]
)
def test_convolution_equals_plain_loops(stride: int, pad: int, dilation: int, group: int) -> None:
    x, w = noise(2, 4, 6, 5), noise(4, 4 // group, 3, 3)
    attributes = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (dilation,) * 2, "group": group}
    expected = looped_convolution(x, w, stride, pad, dilation, group)
    np.testing.assert_allclose(compute("Conv", [x, w], attributes), expected, atol=1e-12)


def test_a_layer_meets_residual_or_factor_before_the_activation() -> None:
    x, other, w, b = (np.full((1, 1), value) for value in (2.0, -5.0, 1.0, 1.0))
    attributes = {"activation": "leaky_relu", "alpha": 0.5}
    assert compute("FullyConnected", [x, w, b[0], other], attributes).item() == -1.0
    assert compute("FullyConnected", [x, w, b[0], None, other], attributes).item() == -7.5
    with pytest.raises(ModelError, match=r"one of the output's shape \(1, 1\) is supported"):
        infer_shape("FullyConnected", [(1, 1), (1, 1), (), (1, 1), (1, 1)], {})


def test_residual_is_added_before_the_activation() -> None:
    x, residual = np.full((1, 1, 1, 1), 2.0), np.full((1, 1, 1, 1), -5.0)
    attributes = {**IDENTITY_CONV, "activation": "leaky_relu", "alpha": 0.5}
    one = np.ones((1, 1, 1, 1))
    assert compute("Conv", [x, one, None, residual], attributes).item() == -1.5
    assert compute("Conv", [x, one, np.ones(1), residual], attributes).item() == -1.0


def test_fused_activation_equals_the_operator() -> None:
    x, y = noise(2, 3), noise(3)
    parameters = {"alpha": 0.25, "beta": 0.5}
    for op, activation in (("HardSigmoid", "hard_sigmoid"), ("Clip", "clip")):
        fused = compute("Add", [x, y], {"activation": activation, **parameters})
        np.testing.assert_array_equal(fused, compute(op, [x + y], parameters))


def test_channel_shuffle_interleaves_the_groups() -> None:
    x = np.arange(6.0).reshape(1, 6, 1, 1)
    assert compute("ChannelShuffle", [x], {"group": 2}).ravel().tolist() == [0, 3, 1, 4, 2, 5]
    assert compute("ChannelShuffle", [x], {"group": 3}).ravel().tolist() == [0, 2, 4, 1, 3, 5]


def test_scale_and_shift_apply_to_each_channel() -> None:
    x, scale, shift = noise(2, 3, 4, 4), noise(3), -noise(3)
    expected = np.stack([x[:, c] * scale[c] + shift[c] for c in range(3)], axis=1)
    np.testing.assert_allclose(compute("BatchNormalization", [x, scale, shift], {}), expected)


def test_large_values_saturate_without_overflow() -> None:
    x = np.asarray([-1e4, 0.0, 1e4], np.float32)
    assert compute("Sigmoid", [x], {}).tolist() == [0.0, 0.5, 1.0]
    assert np.isfinite(compute("Softmax", [x], {"axis": 0})).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_values_keep_the_type_of_the_inputs(kind: type) -> None:
    make = GraphMaker()
    hidden = make.add("Mul", make.weights(3, 1, 1), make.add("Sigmoid", make.conv(make.input(1, 2, 4, 4), 3)))
    y = make.add("ReduceMean", make.add("Relu", hidden), axes=(2, 3), keepdims=True)
    values = evaluate(make.finish(y), {"x0": noise(1, 2, 4, 4).astype(kind)})
    assert values[y].dtype == kind
    assert values.keys() == make.graph.tensors.keys()


def test_an_input_that_is_missing_or_of_another_shape_is_refused() -> None:
    graph = GraphMaker()
    y = graph.add("Relu", graph.input(2, 3))
    with pytest.raises(ModelError, match=r"input 'x0' is \(3, 2\); the graph reads shape \(2, 3\)"):
        evaluate(graph.finish(y), {"x0": noise(3, 2)})
    with pytest.raises(ModelError, match="input 'x0' is missing"):
        evaluate(graph.graph, {})


CODE = """
import numpy as np
from onnx import TensorProto, helper

from farm.model.oracle import Oracle

value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
Oracle(model).outputs({"x": np.ones(1, np.float32)})
"""


@pytest.mark.slow
def test_the_oracle_leaves_the_home_folder_as_it_was(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["farm", "runtime", "tuner", "benchmarks"])
def test_one_file_alone_imports_it(package: str) -> None:
    files = [path for path in (ROOT / package).rglob("*.py") if "\nimport onnxruntime" in path.read_text()]
    assert [path.name for path in files] == (["onnx_runtime.py"] if package == "runtime" else [])
