"""Which further inputs there are, and what of the reference is evidence for a plan."""

from typing import Any

import numpy as np
from onnx import helper

from farm.config.deployment import Input
from farm.model.further_cases import OWN, FurtherCases, FurtherTensor, further_cases
from farm.model.further_inputs import further_inputs, nudged
from runtime.convert import convert
from runtime.types import Precision
from tests.farm.model.tiny_model import FLOAT, model_of

ALLOWED = 10.0**-1.8


def tensor(name: str, data_type: Any = "float32", low: float = -1.0, high: float = 3.0) -> Input:
    return Input(name, (2, 3), data_type, "NONE", (low, high))


def test_further_inputs_stay_within_their_ranges_and_change_nothing_that_is_given() -> None:
    tensors = [tensor("x"), tensor("positive", low=0.5), tensor("index", "int32", 0, 9), tensor("mask")]
    own = {each.name: np.ones((2, 3), each.data_type) for each in tensors}
    sets = further_inputs(tensors, own, {"mask"})
    assert list(sets) == ["normal noise", "the lowest values", "the highest values", "zeros"]
    for values in sets.values():
        assert values["mask"] is own["mask"]
        for each in tensors:
            assert values[each.name].dtype == each.data_type and values[each.name].shape == each.shape
            assert (values[each.name] >= each.value_range[0]).all() and (values[each.name] <= each.value_range[1]).all()
    assert {name: (sets["the highest values"][name] == 3).all() for name in ("x", "positive")} == {
        "x": True,
        "positive": True,
    }
    assert not sets["zeros"]["x"].any() and sets["zeros"]["positive"] is own["positive"]
    assert all(sets[what]["index"] is own["index"] for what in list(sets)[1:])
    moved = nudged(tensors, own, {"mask"})
    assert 0 < np.abs(moved["x"] - own["x"]).max() <= 3 * 2.0**-11 and moved["index"] is own["index"]


def test_inputs_that_are_all_given_leave_none() -> None:
    assert further_inputs([tensor("x")], {"x": np.zeros((2, 3), np.float32)}, {"x"}) == {}


def cases_of(*operators: str, **attributes: Any) -> FurtherCases:
    names = ["x", *(f"t{number}" for number in range(1, len(operators))), "y"]
    nodes = [
        helper.make_node(op, [names[at], *attributes.get(f"{op}_inputs", [])], [names[at + 1]], f"n{at}")
        for at, op in enumerate(operators)
    ]
    values = [helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in ("x", "y")]
    model = model_of(nodes, values[:1], values[1:], attributes.get("constants"))
    graph, _ = convert(model)
    own = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    return further_cases(model, graph, {}, [tensor("x", high=1.0)], own, ())


def test_what_is_chaos_where_the_input_is_constant_is_no_evidence() -> None:
    """The deviation of a row of equal values is nothing but rounding."""
    constants = {"scale": np.ones(3), "shift": np.array([0.0, 1.0, 2.0])}
    found = cases_of("LayerNormalization", LayerNormalization_inputs=["scale", "shift"], constants=constants)
    evidence = {case.name: case.expected["y"].is_evidence(Precision.FP16, ALLOWED) for case in found.cases}
    assert evidence["normal noise"] and not evidence["the highest values"]


def test_what_is_chaos_from_one_rounding_of_a_float_is_no_evidence_in_floats() -> None:
    """Large equal values are normalised to their rounding; a smaller nudge moves them as far as a large one."""
    constants = {"large": np.full(3, 1e5), "scale": np.ones(3), "shift": np.array([0.0, 1.0, 2.0])}
    inputs = {"Mul_inputs": ["large"], "LayerNormalization_inputs": ["scale", "shift"]}
    found = cases_of("Mul", "LayerNormalization", constants=constants, **inputs)
    evidence = {case.name: case.expected["y"].is_evidence(Precision.FP32, 1e-6) for case in found.cases}
    assert evidence["normal noise"] and not evidence["the highest values"]


def test_what_is_no_number_or_the_same_everywhere_is_left_out() -> None:
    """The logarithm of what is negative; of what is constant."""
    assert [case.name for case in cases_of("Log").cases] == []
    assert [case.name for case in cases_of("Exp").cases] == ["normal noise"]


def test_a_mask_beyond_halfs_range_is_no_evidence_in_half() -> None:
    scores = FurtherTensor("scores", np.array([1.0, -1e9], np.float32), inner=True)
    assert not scores.is_evidence(Precision.FP16_STORAGE, ALLOWED)
    assert scores.is_evidence(Precision.FP32, ALLOWED)


def test_a_step_of_a_quantised_tensor_that_falls_the_other_way_is_no_evidence() -> None:
    """Sums in another order move a value over the edge of a step, and with it the tensor by a whole step."""
    constants = {"weights": np.random.default_rng(2).normal(size=(3, 3))}
    plain = cases_of("MatMul", "Softmax", MatMul_inputs=["weights"], constants=constants)
    stepped = cases_of(
        "MatMul", "Floor", "Softmax", MatMul_inputs=["weights"], constants={"weights": 1000 * constants["weights"]}
    )
    for found, tensor, is_evidence in ((plain, "t1", True), (stepped, "t2", False)):
        own = found.cases[0]
        assert own.name == OWN and own.expected[tensor].is_evidence(Precision.FP32, 1e-6) == is_evidence
