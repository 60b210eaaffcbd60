"""Whole Caffe networks: what ONNX Runtime and the graph make of the import, against OpenCV's own reading."""

import functools
import random
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.import_fuzzing import mutated
from runtime.convert import convert
from runtime.errors import ModelError
from runtime.graph import Array
from runtime.importers.caffe.caffe_importer import load_caffe
from runtime.oracle.evaluate import evaluate
from tests.opencl import EXHAUSTIVE
from tests.runtime.caffe_architectures import ARCHITECTURES
from tests.runtime.caffe_networks import CaffeNet
from tests.time_limit import within


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


EXTREMES = ("0", "-1", "2147483647", "4294967295", "1099511627776", "1e38", "nan", "inf", "-inf", "0.5", '""', "MAX")
NUMBERS = ("0", "1", "2", "3", "5", "7", "64", "1000", "65535", "2147483647", "4294967295")
WORD = re.compile(r"[A-Za-z_]\w*|-?\d[\d.e-]*|[{}:]")
NUMBER, NAME = re.compile(r"(?<= )\d+(?= )"), re.compile(r'"[^"]+"')


def mutated_text(text: str, chance: random.Random) -> str:
    """One to three changes: mostly a number or name by another, which still parses, or any word by anything."""
    for _ in range(chance.randint(1, 3)):
        pattern = chance.choice([NUMBER, NUMBER, NUMBER, NAME, NAME, WORD])
        words = list(pattern.finditer(text))
        if words:
            word, other = chance.choice(words), chance.choice(words)
            anything = chance.choice([chance.choice(EXTREMES), "", f"{word[0]} {word[0]}", other[0]])
            new = {NUMBER: chance.choice(NUMBERS), NAME: other[0], WORD: anything}[pattern]
            text = text[: word.start()] + new + text[word.end() :]
    return text


@functools.cache
def original(name: str) -> tuple[str, bytes, tuple[str, ...]]:
    """Text, weights and outputs of a small network of an architecture."""
    build, small, _ = ARCHITECTURES[name]
    net, _, outputs = build(*small)
    return net.text(), net.weights(), outputs


def import_mutated(folder: Path, seed: int) -> str:
    """Imports one mutated network; returns the refusal, empty where there is none."""
    chance = random.Random(seed)
    text, weights, outputs = original(chance.choice(sorted(ARCHITECTURES)))
    if chance.random() < 0.75:
        text = mutated_text(text, chance)
    else:
        weights = mutated(weights, chance)
    (folder / "net.prototxt").write_bytes(text.encode())
    (folder / "net.caffemodel").write_bytes(weights)
    try:
        convert(load_caffe(folder / "net.prototxt", folder / "net.caffemodel", None, outputs).model)
    except ModelError as error:
        return str(error)
    return ""


def assert_refused_in_one_line(folder: Path, seeds: range) -> list[str]:
    refusals = []
    for seed in seeds:
        with within(20):
            refusals.append(import_mutated(folder, seed))
    assert all(text.isprintable() for text in refusals)
    assert sum(map(bool, refusals)) > len(refusals) // 4
    return refusals


@pytest.mark.slow
def test_mutated_files_are_imported_or_refused(tmp_path: Path) -> None:
    assert_refused_in_one_line(tmp_path, range(20))


@pytest.mark.slow
@pytest.mark.slow
def test_many_mutated_files_are_imported_or_refused(tmp_path: Path) -> None:
    refusals = assert_refused_in_one_line(tmp_path, range(20, 520 if EXHAUSTIVE else 140))
    assert "" in refusals, "some mutations must reach the end of the import"
