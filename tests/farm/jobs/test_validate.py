"""Verdicts over outputs and layers, on a real graph with spoiled values."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from farm.config import deployment
from farm.jobs.models.prepare import Prepared, TestData, prepare
from farm.jobs.validate import Validation, compare_layers, compare_outputs, thresholds_for
from farm.model.fetch import Fetcher
from farm.model.metrics import default_thresholds, thresholds_of_similarity
from farm.rows.result import OK
from farm.rows.row import Ending
from farm.rows.status import Status
from runtime.oracle.evaluate import evaluate
from runtime.target import Target
from runtime.types import Precision
from tests.farm.model.tiny_model import write_deployment

GPU = Target("soc", "abi")


def prepared(folder: Path, **keys: str) -> Prepared:
    found = deployment.load(write_deployment(folder, **keys))
    return prepare(found, "tiny", Fetcher(found), check=True)


def test_right_outputs_are_ok(tmp_path: Path) -> None:
    found = prepared(tmp_path, check_tensors="[act]")
    expected = TestData(found, {}).expected
    validation = compare_outputs(found, GPU, expected, expected)
    assert validation.is_ok and validation.ending.reason == "" and validation.comparison.cosine == 1.0
    assert [output.name for output in validation.comparison.outputs] == ["y", "act"]


def test_a_wrong_output_is_named_and_its_figures_count(tmp_path: Path) -> None:
    found = prepared(tmp_path, check_tensors="[act]")
    expected = TestData(found, {}).expected
    validation = compare_outputs(found, GPU, expected, expected | {"act": -expected["act"]})
    assert validation.ending.status == Status.WRONG_RESULT
    assert validation.ending.reason.startswith("act: cosine -1.000000 < 0.9999")
    assert validation.comparison.cosine == pytest.approx(-1.0)
    assert [output.status for output in validation.comparison.outputs] == [Status.OK, Status.WRONG_RESULT]


def test_a_nan_is_counted(tmp_path: Path) -> None:
    found = prepared(tmp_path)
    expected = TestData(found, {}).expected
    validation = compare_outputs(found, GPU, expected, {"y": np.full((1, 5), np.nan, np.float32)})
    assert (validation.ending.status, validation.comparison.nan_count) == (Status.WRONG_RESULT, 5)


def test_the_files_similarity_takes_the_place_of_the_defaults(tmp_path: Path) -> None:
    assert thresholds_for(prepared(tmp_path), GPU) == default_thresholds("gpu", Precision.FP32)
    found = prepared(tmp_path, validation_threshold="{GPU: 0.9}")
    half = dataclasses.replace(GPU, precision=Precision.FP16)
    assert thresholds_for(prepared(tmp_path), half) == default_thresholds("gpu", Precision.FP16)
    assert thresholds_for(found, GPU) == thresholds_of_similarity(0.9)
    assert thresholds_for(found, dataclasses.replace(GPU, memory="cpu")) == default_thresholds("cpu", Precision.FP32)


def layers(found: Prepared, spoiled: dict[str, float], outputs: Ending = OK) -> Validation:
    expected = evaluate(found.graph, TestData(found, {}).inputs)
    actual = {node.output: expected[node.output] for node in found.graph.nodes}
    actual |= {name: actual[name] * factor for name, factor in spoiled.items()}
    thresholds = default_thresholds("gpu", Precision.FP32)
    return compare_layers(found.graph, expected, actual, thresholds, Validation(outputs))


def test_layers_that_agree_are_counted(tmp_path: Path) -> None:
    found = prepared(tmp_path)
    validation = layers(found, {})
    assert validation.is_ok and validation.comparison.layers
    assert validation.comparison.layers.first_departure is None
    assert validation.comparison.layers.compared == len(found.graph.nodes) >= 3


def test_the_first_layer_that_departs_is_named_in_run_order(tmp_path: Path) -> None:
    found = prepared(tmp_path)
    middle, last = found.graph.nodes[1], found.graph.nodes[-1]
    validation = layers(found, {last.output: 2.0, middle.output: 0.5})
    assert validation.ending.status == Status.WRONG_RESULT
    assert f"operator '{middle.name}' ({middle.op}) is the first that departs: SQNR" in validation.ending.reason
    assert validation.comparison.layers and validation.comparison.layers.first_departure
    assert validation.comparison.layers.first_departure.name == middle.name


def test_layers_that_agree_under_a_wrong_output_accuse_the_conversion(tmp_path: Path) -> None:
    wrong = Ending(status=Status.WRONG_RESULT, reason="y: cosine 0.1 < 0.9")
    ending = layers(prepared(tmp_path), {}, wrong).ending
    assert ending.status == Status.WRONG_RESULT
    assert ending.reason.startswith("y: cosine 0.1 < 0.9; every operator does what the converted graph says")
