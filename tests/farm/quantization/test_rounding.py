"""Adaptive rounding leaves less noise in a layer's outputs than nearest integers, whatever the layer is."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from farm.model.reference_process import ReferenceProcess
from farm.quantization.layers import float_model, layers_of
from farm.quantization.qdq import dequantized_weights, integer_weights, weights_only
from farm.quantization.rounding import AdaptiveRounding, descended, rounded_rows, with_integers
from runtime.graph import Array

LAYERS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "Conv": ((1, 4, 9, 7), (6, 4, 3, 3), {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
    "Conv in groups": ((1, 4, 9, 9), (4, 2, 3, 2), {"group": 2, "dilations": [2, 1]}),
    "Conv of depth": ((2, 6, 8, 8), (6, 1, 3, 3), {"group": 6}),
    "Conv of lines": ((1, 4, 20), (5, 4, 3), {}),
    "MatMul": ((2, 5, 12), (12, 9), {}),
    "Gemm": ((7, 12), (9, 12), {"transB": 1}),
}


def correlated(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Noise in which channels and neighbours resemble each other, as in what layers read."""
    wide = random.standard_normal(shape, np.float32)
    whole = random.standard_normal((len(shape) > 2) * (shape[0], 1, *shape[2:]) or (len(wide), 1), np.float32)
    return np.asarray(np.cumsum(wide, -1) + 2 * whole + 0.7, np.float32)


def one_layer(name: str) -> tuple[onnx.ModelProto, list[Array]]:
    shape, weight, attributes = LAYERS[name]
    random = np.random.default_rng(len(name))
    node = helper.make_node(name.split()[0], ["x", "w"], ["y"], "layer", **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(random.standard_normal(weight, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, [correlated(random, shape) for _ in range(6)]


@pytest.mark.parametrize("bits", ["int8", "int4"])
@pytest.mark.parametrize("name", LAYERS)
def test_outputs_have_less_noise(name: str, bits: str, tmp_path: Path) -> None:
    source, samples = one_layer(name)
    process = ReferenceProcess()
    model = float_model(source, process, 21)
    layers = layers_of(model)
    nearest = weights_only(model, layers, bits)
    keyed = {str(number): (lambda x=x: {"x": x}) for number, x in enumerate(samples)}
    found = AdaptiveRounding(process, model, nearest, layers, keyed, tmp_path / "kept.npz").run(lambda text: None)
    adapted = with_integers(nearest, found)
    noise = []
    for other in (nearest, adapted):
        runs = [[process.run(each.SerializeToString(), {"x": x})["y"] for each in (model, other)] for x in samples]
        noise.append(sum(float(((a - b).astype(np.float64) ** 2).sum()) for a, b in runs))
    assert noise[1] < 0.96 * noise[0]
    assert found["w"].gain_db == pytest.approx(10 * np.log10(noise[0] / noise[1]), abs=0.2)
    steps = integer_weights(nearest)["w"].scales
    assert np.abs(dequantized_weights(adapted)["w"] - dequantized_weights(nearest)["w"]).max() <= 15 * steps.max()
    assert integer_weights(adapted)["w"].integers.dtype == integer_weights(nearest)["w"].integers.dtype


def test_with_few_weights_it_is_near_the_best_of_all_choices() -> None:
    random = np.random.default_rng(3)
    inputs = random.standard_normal((40, 5)) @ random.standard_normal((5, 5))
    weights, moments = random.standard_normal((1, 1, 5)), (inputs.T @ inputs)[None]
    steps = np.full_like(weights, 0.4)

    def error(whole: Array) -> float:
        difference = (weights - whole * steps)[0, 0]
        return float(difference @ moments[0] @ difference)

    below = np.floor(weights / steps)
    every = [error(below + np.array(up)) for up in itertools.product((-1, 0, 1, 2), repeat=5)]
    greedy = rounded_rows(weights, steps, moments, (-127.0, 127.0))
    found = error(descended(weights, greedy, steps, moments, (-127.0, 127.0)))
    assert found <= error(greedy) and found < error(np.rint(weights / steps))
    assert sum(each < found for each in every) < len(every) / 50


def test_a_second_call_takes_what_the_first_has_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, samples = one_layer("Conv")
    process = ReferenceProcess()
    model = float_model(source, process)
    layers = layers_of(model)
    quantised = weights_only(model, layers, "int8")
    keyed = {str(number): (lambda x=x: {"x": x}) for number, x in enumerate(samples)}
    given = process, model, quantised, layers

    def rounding(keys: int) -> AdaptiveRounding:
        some = dict(itertools.islice(keyed.items(), keys))
        return AdaptiveRounding(*given, some, tmp_path / "kept.npz")

    first = rounding(6).run(lambda text: None)
    monkeypatch.setattr(AdaptiveRounding, "_moments", lambda *told: pytest.fail("the samples are read again"))
    again = rounding(6).run(lambda text: None)
    np.testing.assert_array_equal(again["w"].integers, first["w"].integers)
    assert not rounding(5).found
    (tmp_path / "kept.npz").write_bytes(b"PK damaged")
    assert not rounding(6).found
