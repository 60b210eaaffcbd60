"""The fastest layers in eight bits within a limit of noise: the best of all choices, by the times that are known."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper, shape_inference

from farm.jobs.tune.layer_times import layer_times
from farm.quantization.cheapest import LayerTimes, cheapest_in_float, kept_times
from farm.quantization.layers import layers_of
from farm.rows.benchmark import BenchmarkRow, ProfiledOperator
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import FLOAT, model_of

EDGES = [
    ("x", "", "a"),
    ("a", "a", "b"),
    ("a", "a", "s"),
    ("s", "", "c"),
    ("b", "b", "c"),
    ("c", "c", "y"),
    ("y", "y", ""),
]


def model() -> ModelProto:
    """Five layers, with a node between that always computes in float."""
    steps = [
        ("MatMul", "x w", "a"),
        ("Erf", "a", "s"),
        ("MatMul", "a w2", "b"),
        ("Add", "s b", "c"),
        ("MatMul", "c w3", "y"),
    ]
    nodes = [helper.make_node(op, reads.split(), [y], y) for op, reads, y in steps]
    ends = [helper.make_tensor_value_info(name, FLOAT, (1, 4)) for name in ("x", "y")]
    return shape_inference.infer_shapes(
        model_of(nodes, ends[:1], ends[1:], {name: np.eye(4) for name in ("w", "w2", "w3")})
    )


LAYERS = ("a", "b", "c", "y")


def cost(in_float: frozenset[str], times: LayerTimes) -> float:
    """Written out anew: a conversion of a tensor each way, once, whoever reads it so."""
    total = sum((times.in_float if name in in_float else times.in_bytes)[name] for name in LAYERS)
    into, out_of = set(), set()
    for tensor, writer, reader in EDGES:
        ends = [bool(name) and name in LAYERS and name not in in_float for name in (writer, reader)]
        into |= {tensor} if ends == [False, True] else set()
        out_of |= {tensor} if ends == [True, False] else set()
    return total + sum(4 * times.into for _ in into) + sum(4 * times.out_of for _ in out_of)


def drawn(seed: int) -> tuple[LayerTimes, dict[str, float], float]:
    random = np.random.default_rng(seed)
    one, other, powers = (dict(zip(LAYERS, random.uniform(0.05, 1, 4).tolist(), strict=True)) for _ in range(3))
    into, out_of = random.uniform(0, 0.05, 2).tolist()
    return LayerTimes(in_bytes=one, in_float=other, into=into, out_of=out_of), powers, float(random.uniform(0.1, 2))


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_within_the_limit_is_faster(seed: int) -> None:
    times, powers, most = drawn(seed)
    layers = layers_of(model())
    assert {layer.name for layer in layers} == set(LAYERS)

    def noise(in_float: frozenset[str]) -> float:
        return sum(power for name, power in powers.items() if name not in in_float)

    found = cheapest_in_float(model(), layers, powers, times, most, noise)
    every = [frozenset(kept) for count in range(5) for kept in itertools.combinations(LAYERS, count)]
    best = min((each for each in every if noise(each) <= most), key=lambda each: cost(each, times))
    assert noise(found) <= most and cost(found, times) == pytest.approx(cost(best, times))


@pytest.mark.parametrize("factor", [0.3, 2.5])
def test_noise_that_does_not_add_up_as_expected_is_measured(factor: float) -> None:
    """Less than expected leaves room for more layers in eight bits, more is corrected until the limit holds."""
    times = LayerTimes(in_bytes=dict.fromkeys(LAYERS, 0.1), in_float=dict.fromkeys(LAYERS, 1.0))
    powers = dict(zip(LAYERS, (1.0, 2.0, 3.0, 4.0), strict=True))

    def noise(in_float: frozenset[str]) -> float:
        return factor * sum(power for name, power in powers.items() if name not in in_float)

    found = cheapest_in_float(model(), layers_of(model()), powers, times, 3.0, noise)
    assert noise(found) <= 3.0 and len(found) == {0.3: 0, 2.5: 3}[factor]


def test_all_stay_in_float_where_that_is_faster() -> None:
    times = LayerTimes(in_bytes=dict.fromkeys(LAYERS, 1.0), in_float=dict.fromkeys(LAYERS, 0.5))
    found = cheapest_in_float(model(), layers_of(model()), dict.fromkeys(LAYERS, 0.1), times, math.inf, lambda _: 0.0)
    assert found == set(LAYERS)


def row(unit: str, *steps: tuple[str, float, str]) -> BenchmarkRow:
    """Of a model whose steps of these names take so many ms; what a note is of is a conversion of four elements."""
    rest = dict.fromkeys(("start_ms", "first_ms", "last_ms", "percent", "cdf_percent", "gmacps"), 0.0)
    shapes = dict.fromkeys(("stride", "pad", "filter_shape", "dilation"), ())
    ops = [
        {**rest, **shapes, "name": name, "avg_ms": ms, "type": "Quantize" if note else "MatMul", "note": note}
        for name, ms, note in steps
    ]
    given = [{**op, "device": "cpu", "macs": 0, "output_shape": (1, 4)} for op in ops]
    return BenchmarkRow.model_construct(
        unit=unit, runtime="cpu", ops=tuple(ProfiledOperator.model_validate(op) for op in given)
    )


def test_times_of_units_are_shares_of_their_time_in_float() -> None:
    owners = {"a": "a", "relu": "a", "y": "y"}
    floats = [row("slow", ("a", 60, ""), ("y", 40, "")), row("fast", ("a", 2, ""), ("relu", 1, ""), ("y", 1, ""))]
    into, out_of = ("q", 8, "NHWC -> eight bits"), ("d", 4, "eight bits -> NHWC")
    in_bytes = [row("slow", into, ("a", 30, ""), ("y/sum", 10, ""), out_of), row("fast", ("a", 1, ""), ("y", 1, ""))]
    found = layer_times(owners, floats, in_bytes)
    assert found.in_float == pytest.approx({"a": (0.6 + 0.75) / 2, "y": (0.4 + 0.25) / 2})
    assert found.in_bytes == pytest.approx({"a": (0.3 + 0.25) / 2, "y": (0.1 + 0.25) / 2})
    assert (found.into, found.out_of) == pytest.approx((0.02 / 2, 0.01 / 2))


def test_a_damaged_file_of_times_is_named(tmp_path: Path) -> None:
    file = tmp_path / "net.times.json"
    assert kept_times(file) is None
    file.write_text('{"in_bytes": {}}')
    with pytest.raises(ConfigError, match=r"net\.times\.json: damaged; delete it, and run farm tune"):
        kept_times(file)
