"""Single operators through conversion and farmrt, on the CPU, buffers and images, against ONNX Runtime."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from onnx import TensorProto

from benchmarks.onnx_cases import Case, Runner, outcome, targets
from farm.model.oracle import Oracle
from runtime.target import Target
from tests.runtime.onnx_models import one_op, random_array
from tests.runtime.test_recurrent import quantized_layer

pytestmark = [pytest.mark.slow, pytest.mark.opencl]


def typed(model: onnx.ModelProto, kind: int) -> onnx.ModelProto:
    """The model with an output of another element type."""
    model.graph.output[0].type.tensor_type.elem_type = kind
    return model


PLACES = ("cpu", "buffer", "image")
BATCH_NORM = {name: random_array((6,), seed, 0.1) for seed, name in enumerate(("scale", "shift", "mean", "variance"))}
MODELS: dict[str, onnx.ModelProto] = {
    **{
        f"depth to space, {mode}": one_op("DepthToSpace", {"x": (2, 12, 3, 5)}, opset=13, blocksize=2, mode=mode)
        for mode in ("DCR", "CRD")
    },
    "depth to space, opset 7": one_op("DepthToSpace", {"x": (1, 18, 3, 5)}, opset=7, blocksize=3),
    "space to depth": one_op("SpaceToDepth", {"x": (2, 5, 4, 6)}, opset=7, blocksize=2),
    "batch normalisation of a line": one_op("BatchNormalization", {"x": (2, 6, 5)}, BATCH_NORM, 9),
    "batch normalisation of a volume": one_op("BatchNormalization", {"x": (2, 6, 3, 4, 2)}, BATCH_NORM, 9),
    "what is not zero": typed(one_op("NonZero", {"x": (3, 4)}), TensorProto.INT64),
    "normal numbers": one_op("RandomNormalLike", {"x": (3, 4)}, opset=13),
    "numbers of 0 and 1": one_op("Bernoulli", {"x": (3, 40)}, opset=15),
    "classes": typed(one_op("Multinomial", {"x": (3, 4)}, opset=13, sample_size=9), TensorProto.INT32),
    "quantised LSTM": quantized_layer("bidirectional", by_column=False, zero_point=True)[0],
    "a lower bound above the upper one": one_op("Clip", {"x": (3, 4)}, {"min": 2.0, "max": 1.0}, 13),
    "hardmax, opset 11": one_op("Hardmax", {"x": (2, 3, 4)}, opset=11, axis=1),
}


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Target, Runner]]]:
    found = targets(tmp_path_factory.mktemp("operators"))
    gpu, runner = found["cpu+gpu"]
    image = dataclasses.replace(gpu, memory="image")
    with found["cpu"][1], runner:
        yield {"cpu": found["cpu"], "buffer": (gpu, runner), "image": (image, runner)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", MODELS)
def test_an_operator_is_right_wherever_it_runs(name: str, place: str, runners: dict[str, Any]) -> None:
    model = MODELS[name]
    inputs = {
        value.name: random_array([dim.dim_value for dim in value.type.tensor_type.shape.dim], seed)
        for seed, value in enumerate(model.graph.input)
    }
    outputs = Oracle(model).outputs(inputs)
    case = Case(name, model.graph.node[0].op_type, model, inputs, outputs, 1e-5, 1e-5)
    ended = outcome(case, *runners[place])
    assert ended.status == ("padded" if case.operator == "NonZero" else "right"), ended.reason
