"""Operators between convolutions in eight bits keep bytes, and compute what the oracle does, which rounds floats."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from runtime.graph import Array, Graph
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.native.build import build_farmrt
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.target import Target
from tests.native.farmrt import Farmrt
from tests.native.test_quantized_convolution import BLOCKS, ISAS, rounded, rounding, whole_weights
from tests.runtime.graphs import GraphMaker

CPU = Target("host", "host", memory="cpu")
STEP, LAST, OTHER = 0.02117, 0.03071, 0.01303  # of which few sums lie in the middle of two steps
SHAPE = (2, 48, 9, 7)
POOL = {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 2, 1)}
MEAN = {"axes": (2, 3), "keepdims": True}
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
NEAREST |= {"sizes": (18, 15), "scales": (2.0, 15 / 7)}


class Maker(GraphMaker):
    """Tensors of images in steps of eight bits."""

    def image(self, *shape: int, step: float = STEP) -> str:
        x = rounding(self, self.input(*(shape or SHAPE)))
        self.graph.nodes[-1].attrs |= rounded(self, x, step=step)
        return x

    def last(self, op: str, *inputs: str, **attributes: object) -> str:
        """An operator and what rounds it, to other steps than its inputs have."""
        y = self.add("FakeQuantize", self.add(op, *inputs, **attributes), alpha=0.0, beta=1.0)
        self.graph.nodes[-1].attrs |= rounded(self, y, step=LAST)
        return y

    def kept(self, op: str, *inputs: str, step: float = STEP, **attributes: object) -> str:
        """An operator whose result has the steps of its inputs."""
        y = self.add(op, *inputs, **attributes)
        rounded(self, y, step=step)
        return y

    def activated(self, op: str, *inputs: str) -> str:
        """An operator that rounds its result itself."""
        y = self.add(op, *inputs)
        self.graph.nodes[-1].attrs |= {"activation": "fake_quantize", **rounded(self, y, step=LAST)}
        return y

    def convolution(self, x: str, out: int, **attributes: object) -> str:
        y = self.conv(x, out, **attributes)
        whole_weights(self, self.graph.nodes[-1].inputs[1])
        return y

    def number(self, value: float) -> str:
        return self.graph.add_constant("n", np.full((1, 1, 1, 1), value, np.float32))

    def stepped(self, y: str, step: float) -> str:
        """Tells the last node to round to steps of eight bits."""
        self.graph.nodes[-1].attrs |= rounded(self, y, step=step)
        return y


def winograd(m: Maker) -> str:
    y = m.convolution(m.image(), 40)
    m.graph.nodes[-1].attrs |= {"activation": "fake_quantize", **rounded(m, y, step=LAST)}
    return y


# What stands between the rounded inputs and the convolution behind, and how many steps it takes beside that.
CASES: dict[str, tuple[Callable[[Maker], str], int]] = {
    "sum": (lambda m: m.activated("Add", m.image(), m.image(step=OTHER)), 1),
    "sum that is rounded behind": (lambda m: m.last("Add", m.image(), m.image(step=OTHER)), 1),
    "difference": (lambda m: m.activated("Sub", m.image(2, 48, 1, 1), m.image()), 1),
    "product with a number for each channel": (lambda m: m.activated("Mul", m.image(), m.image(2, 48, 1, 1)), 1),
    "square": (lambda m: m.activated("Mul", *[m.image()] * 2), 1),
    "sum with a number": (lambda m: m.activated("Add", m.number(0.7), m.image()), 1),
    "maximum with a number": (lambda m: m.activated("Max", m.number(0.2), m.image()), 1),
    "maximum": (lambda m: m.kept("MaxPool", m.image(), **POOL), 1),
    "maximum in other steps": (lambda m: m.last("MaxPool", m.image(), **POOL), 1),
    "mean": (lambda m: m.last("AveragePool", m.image(), count_include_pad=False, **POOL), 1),
    "mean with padding": (lambda m: m.last("AveragePool", m.image(), count_include_pad=True, **POOL), 1),
    "mean of all": (lambda m: m.last("ReduceMean", m.image(), **MEAN), 1),
    "maximum of all": (lambda m: m.kept("ReduceMax", m.image(), **MEAN), 1),
    "sigmoid": (lambda m: m.last("Sigmoid", m.image()), 1),
    "sigmoid of an image of few channels": (lambda m: m.last("Sigmoid", m.image(2, 3, 4, 71)), 1),
    "sigmoid of an image of four channels": (lambda m: m.last("Sigmoid", m.image(1, 4, 3, 130)), 1),
    "sigmoid of channels side by side": (
        lambda m: m.last("Sigmoid", rounding(m, m.add("Transpose", m.input(1, 4, 71, 3), perm=(0, 3, 1, 2)))),
        1,
    ),
    "hard swish": (lambda m: m.last("HardSwish", m.image()), 1),
    "other steps": (lambda m: m.last("Identity", m.image()), 1),
    "nearest": (lambda m: m.kept("Resize", m.image(), **NEAREST), 1),
    "nearest in other steps": (lambda m: m.last("Resize", m.image(), **NEAREST), 2),
    "joined": (lambda m: m.kept("Concat", m.image(), m.image(2, 16, 9, 7), m.image(2, 5, 9, 7), axis=1), 3),
    "joined in other steps": (lambda m: m.last("Concat", m.image(), m.image(2, 5, 9, 7, step=0.05), axis=1), 2),
    "joined as it is written": (
        lambda m: m.kept("Concat", m.kept("MaxPool", m.image(1, 32, 9, 9), **POOL), m.image(1, 3, 5, 9), axis=1),
        1,
    ),
    "cut": (lambda m: m.kept("Slice", m.image(1, 48, 9, 7), axes=(1,), starts=(16,), ends=(40,), steps=(1,)), 0),
    "cut in other steps": (
        lambda m: m.last("Slice", m.image(1, 48, 9, 7), axes=(1,), starts=(16,), ends=(40,), steps=(1,)),
        1,
    ),
    "convolution by Winograd's algorithm": (winograd, 1),
}


def network(name: str) -> tuple[Graph, dict[str, Array]]:
    """A case, and behind it a convolution from bytes to floats; both are outputs."""
    maker = Maker()
    y = CASES[name][0](maker)
    z = maker.convolution(y, 24, k=1)
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return maker.finish(y, z), inputs


def rows_network(activation: str, rows: tuple[int, ...] = (3, 11)) -> tuple[Graph, dict[str, Array]]:
    """Rows, a product that is rounded, a function of other rows as a table, and a product in floats."""
    maker = Maker()
    x = maker.image(*rows, 64)
    y = maker.add("FullyConnected", x, maker.multiples(96, 64, bits=8), maker.weights(96))
    maker.graph.nodes[-1].attrs |= {"activation": "fake_quantize", **rounded(maker, y, step=LAST)}
    flat = (math.prod(rows), 96)
    z = maker.kept(
        "Reshape", maker.last("Gelu", maker.kept("Reshape", y, step=LAST, shape=flat)), step=LAST, shape=(*rows, 96)
    )
    attrs = {"activation": activation, "alpha": 1.0} if activation else {}
    v = maker.add("FullyConnected", z, maker.multiples(48, 96, bits=8), **attrs)
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return maker.finish(y, v), inputs


def normalized_network(centered: bool) -> tuple[Graph, dict[str, Array]]:
    """Rows, a product of them that is added to them, and these sums normalised, all rounded; a product in floats."""
    maker = Maker()
    x = maker.image(3, 11, 64)
    y = maker.stepped(
        maker.add("FullyConnected", x, maker.multiples(64, 64, bits=8), activation="fake_quantize"), OTHER
    )
    z = maker.activated("Add", maker.kept("Reshape", y, step=OTHER, shape=(3, 11, 64)), x)
    ends = maker.weights(64), maker.weights(64)
    z = maker.add(
        "LayerNormalization", z, *ends, axes=(2,), epsilon=1e-3, centered=centered, activation="fake_quantize"
    )
    z = maker.stepped(z, STEP)
    v = maker.add("FullyConnected", z, maker.multiples(48, 64, bits=8))
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return maker.finish(z, v), inputs


# How products of queries and keys become scores: what rounds them, if anything does, and what scales them behind.
SCORES: dict[str, Callable[[Maker, str], str]] = {
    "rounded": lambda m, x: m.stepped(m.add("FakeQuantize", x, alpha=0.0, beta=1.0), 0.31),
    "scaled": lambda m, x: m.stepped(m.add("Mul", x, m.number(0.23), activation="fake_quantize"), 0.11),
    "rounded and scaled": lambda m, x: m.stepped(
        m.add("Mul", SCORES["rounded"](m, x), m.number(0.23), activation="fake_quantize"), 0.11
    ),
    "rounded and divided": lambda m, x: m.stepped(
        m.add("Div", SCORES["rounded"](m, x), m.number(4.0), activation="fake_quantize"), 0.31 / 4
    ),
}


def attention_network(scores: str, queries: int = 19, keys: int = 23) -> tuple[Graph, dict[str, Array]]:
    """Attention of two images and three heads, side by side, all of it rounded, and a product in floats."""
    maker, heads, depth, values = Maker(), 3, 32, 16
    q, k = maker.image(2, queries, heads * depth), maker.image(2, keys, heads * depth, step=OTHER)
    v, loops = maker.image(2, keys, heads * values), (2, heads, queries)
    product = maker.add(
        "StridedProduct",
        *(q, k),
        shape=(*loops, keys),
        summed=(depth,),
        a_strides=(queries * heads * depth, depth, heads * depth, 0, 1),
        b_strides=(keys * heads * depth, depth, 0, heads * depth, 1),
    )
    weights = maker.add("Softmax", SCORES[scores](maker, product), axis=3)
    y = maker.add(
        "StridedProduct",
        *(maker.stepped(maker.add("FakeQuantize", weights, alpha=0.0, beta=1.0), 1 / 142), v),
        shape=(*loops, values),
        summed=(keys,),
        a_strides=(heads * queries * keys, queries * keys, keys, 0, 1),
        b_strides=(keys * heads * values, values, 0, 1, heads * values),
    )
    y = maker.stepped(maker.add("FakeQuantize", y, alpha=0.0, beta=1.0), LAST)
    y = maker.kept("Transpose", y, step=LAST, perm=(0, 2, 1, 3))
    y = maker.kept("Reshape", y, step=LAST, shape=(2, queries, heads * values))
    z = maker.add("FullyConnected", y, maker.multiples(48, heads * values, bits=8))
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return maker.finish(y, z), inputs


def check_attention(farmrt: Farmrt, scores: str, block: int, isa: str = "", threads: int = 2, **sizes: int) -> None:
    graph, inputs = attention_network(scores, **sizes)
    plan = lower(graph, CPU, Options(cpu=CpuOptions(block)))
    assert steps_between(plan) == ["quantized_attention"]
    check_plan(farmrt, graph, plan, inputs, isa, threads)


def steps_between(plan: Plan) -> list[str]:
    """The kernels of a plan without its last convolution, and what brings inputs into bytes and outputs out of them."""
    names = [step.kernel.name for step in plan.steps]
    return [name for name in names if name not in ("quantized_reorder", "reorder", "quantized_conv2d")]


def check(farmrt: Farmrt, name: str, block: int, isa: str = "", threads: int = 2) -> None:
    graph, inputs = network(name)
    plan = lower(graph, CPU, Options(cpu=CpuOptions(block)))
    assert len(steps_between(plan)) == CASES[name][1], steps_between(plan)
    assert sum(step.kernel.name == "quantized_reorder" for step in plan.steps) == len(inputs) + 1
    check_plan(farmrt, graph, plan, inputs, isa, threads)


def check_plan(
    farmrt: Farmrt, graph: Graph, plan: Plan, inputs: dict[str, Array], isa: str = "", threads: int = 2
) -> None:
    """Compares both outputs: one in steps, one in floats."""
    answer = farmrt.load_files(encode_plan(plan), plan.data, threads=threads, isa=isa or None)
    farmrt.run_loaded(answer, inputs)
    expected = evaluate(graph, inputs)
    written, behind = graph.outputs
    known = graph.tensors[written].quantization
    assert known is not None
    steps = (farmrt.output(written).reshape(graph.shape(written)) - expected[written]) / known.scale[0]
    assert np.abs(expected[written]).max() > 3 * known.scale[0]
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
    assert np.abs(steps).max() < 1.01 and (np.abs(steps) > 0.5).mean() <= 1e-3
    if not (np.abs(steps) > 0.5).any():
        found = farmrt.output(behind).reshape(graph.shape(behind))
        np.testing.assert_allclose(found, expected[behind], atol=2e-4, rtol=2e-5)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", CASES)
def test_operator(farmrt: Farmrt, name: str, block: int) -> None:
    check(farmrt, name, block)


def test_what_rounds_the_result_of_an_operator_can_be_kept() -> None:
    maker = Maker()
    y = maker.last("Sigmoid", maker.image())
    graph = maker.finish(maker.convolution(y, 24, k=1))
    assert y in {output.name for output in lower(graph, CPU, Options(keep=(y,))).outputs}


@pytest.mark.parametrize("isa", ["", *(pytest.param(isa, marks=pytest.mark.slow) for isa in ISAS)])
@pytest.mark.parametrize("activation", ["", "swish"])
@pytest.mark.parametrize("block", BLOCKS)
def test_rows_of_a_product(farmrt: Farmrt, block: int, activation: str, isa: str) -> None:
    for rows in ((3, 11), (8,)):
        graph, inputs = rows_network(activation, rows)
        plan = lower(graph, Target("host", "host", memory="cpu", cpu_block=block))
        names = [step.kernel.name for step in plan.steps]
        assert names == ["quantized_reorder", "quantized_conv2d", "quantized_lookup", *names[3:]]
        assert sorted(names[3:]) == ["quantized_conv2d", "quantized_reorder"]
        check_plan(farmrt, graph, plan, inputs, isa)


@pytest.mark.parametrize("isa", ["", *(pytest.param(isa, marks=pytest.mark.slow) for isa in ISAS)])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("block", BLOCKS)
def test_sums_of_rows_are_normalised_in_bytes(farmrt: Farmrt, block: int, centered: bool, isa: str) -> None:
    graph, inputs = normalized_network(centered)
    plan = lower(graph, CPU, Options(cpu=CpuOptions(block)))
    assert steps_between(plan) == ["quantized_binary", "quantized_normalization"]
    assert sum(step.kernel.name == "quantized_reorder" for step in plan.steps) == 2
    check_plan(farmrt, graph, plan, inputs, isa)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("scores", SCORES)
def test_attention_is_one_step(farmrt: Farmrt, scores: str, block: int) -> None:
    check_attention(farmrt, scores, block)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("sizes", [(4, 1), (21, 300), (700, 9)])
def test_attention_with_other_instructions(farmrt: Farmrt, sizes: tuple[int, int], isa: str) -> None:
    for block in BLOCKS:
        check_attention(farmrt, "rounded and scaled", block, isa, 5, queries=sizes[0], keys=sizes[1])


@pytest.mark.parametrize("kept", range(6))
def test_attention_whose_scores_are_to_be_had_is_several_steps(kept: int) -> None:
    graph, _ = attention_network("rounded and scaled")
    tensor = graph.nodes[3 + kept].output
    plan = lower(graph, CPU, Options(keep=(tensor,)))
    assert tensor in {output.name for output in plan.outputs}
    assert "quantized_attention" not in [step.kernel.name for step in plan.steps]


def test_rounded_products_of_rows_that_only_functions_read_stay_floats() -> None:
    maker = Maker()
    scores = maker.last("MatMul", maker.input(1, 3, 16, 16), maker.input(1, 3, 16, 16))
    graph = maker.finish(maker.add("Softmax", maker.last("Neg", scores), axis=3))
    assert not any(step.kernel.name.startswith("quantized") for step in lower(graph, CPU).steps)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_operator_with_other_instructions(farmrt: Farmrt, name: str, isa: str) -> None:
    for block in BLOCKS:
        check(farmrt, name, block, isa, threads=5)


@pytest.mark.slow
def test_no_access_is_outside_of_memory(tmp_path: Path) -> None:
    with Farmrt(build_farmrt(sanitize=True), tmp_path) as sanitized:
        for name in CASES:
            check(sanitized, name, 8, threads=3)
        graph, inputs = rows_network("swish")
        check_plan(sanitized, graph, lower(graph, CPU), inputs, threads=3)
        graph, inputs = normalized_network(True)
        check_plan(sanitized, graph, lower(graph, CPU), inputs, threads=3)
        for scores in SCORES:
            check_attention(sanitized, scores, 8, threads=3, queries=7, keys=6)
