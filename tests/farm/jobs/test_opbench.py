import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Iterator

import numpy as np
import pytest

from farm.jobs.opbench import MAX_TIME_FACTOR, measure, ratio_in_pairs
from farm.jobs.opbench_cases import CASES, Benchmark, benchmarks, spread_percent
from runtime.kernels.spec import needs_half
from runtime.kernels.table import KERNELS
from runtime.operators.case import OperatorCase
from runtime.operators.table import check_graph
from runtime.oracle.evaluate import evaluate
from runtime.target import Target
from runtime.types import Precision

IMAGES = {"image2d_max_width": 1 << 14, "image2d_max_height": 1 << 14}
ROOMY = Target(soc="x", abi="x", gpu_family="unknown", fp16=True, subgroups=True, **IMAGES)
MEMORIES = ("buffer", "image")
GRAMMAR = re.compile(
    r"[a-z0-9_]+/(buffer|image)/(fp32|fp16_storage|fp16)/[A-Z][A-Za-z]+_\d+(x\d+)*(_[A-Za-z0-9.-]+)*/[A-Za-z0-9_]+"
)


@functools.cache
def all_benchmarks(variants: bool = False) -> tuple[Benchmark, ...]:
    targets = [dataclasses.replace(ROOMY, memory=memory) for memory in MEMORIES]
    return tuple(b for case in CASES for target in targets for b in benchmarks(case, target, variants))


@pytest.mark.slow
def test_every_kernel_of_the_table_has_a_benchmark() -> None:
    found = {(benchmark.step.kernel.name, benchmark.step.kernel.memory) for benchmark in all_benchmarks()}
    assert found == {(kernel.name, kernel.memory) for kernel in KERNELS}


@pytest.mark.slow
def test_every_variant_has_a_benchmark() -> None:
    found = {(b.step.kernel.name, b.step.kernel.memory, b.variant.name) for b in all_benchmarks(variants=True)}
    table = {(kernel.name, kernel.memory, variant) for kernel in KERNELS for variant in kernel.variants}
    assert found == {(*key, variant.name) for *key, variant in table if not needs_half(variant, ROOMY)}
    half = dataclasses.replace(ROOMY, precision=Precision.FP16)
    assert [variant.name for *_, variant in table if needs_half(variant, ROOMY) and needs_half(variant, half)] == []


@pytest.mark.slow
def test_names_obey_the_grammar_and_are_distinct() -> None:
    found = [(b.name, b.plan.target.memory) for b in all_benchmarks(variants=True)]
    assert len(found) == len(set(found)) > 200
    assert [name for name, _ in found if not GRAMMAR.fullmatch(name)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_are_graphs_that_keep_the_rules(case: OperatorCase) -> None:
    check_graph(case.graph())


def test_a_case_computes_something() -> None:
    case = next(case for case in CASES if case.op == "BatchNormalization")
    graph = case.graph()
    values = evaluate(graph, {name: np.ones(graph.shape(name), np.float32) for name in graph.inputs})
    assert values["y"].shape == graph.shape("y") and np.ptp(values["y"]) > 0


def test_a_launch_covers_its_work_items() -> None:
    for benchmark in all_benchmarks(variants=True):
        items = benchmark.step.kernel.work_items(benchmark.step.dims, benchmark.variant)
        launch = benchmark.launch
        sizes, local = launch["global"], launch["local"]
        assert isinstance(sizes, tuple) and isinstance(local, tuple) and len(sizes) == len(items) == len(local)
        assert all(size >= item for size, item in zip(sizes, items, strict=True))
        assert all(step == 0 or size % step == 0 for size, step in zip(sizes, local, strict=True))


@pytest.mark.parametrize("precision", Precision)
def test_the_name_tells_the_precision(precision: Precision) -> None:
    found = next(benchmarks(CASES[0], dataclasses.replace(ROOMY, precision=precision)))
    assert found.name.split("/")[2] == precision.label and GRAMMAR.fullmatch(found.name)


def test_input_bytes_follow_the_precision() -> None:
    case = next(case for case in CASES if case.op == "Add")
    sizes = [next(benchmarks(case, dataclasses.replace(ROOMY, precision=p))).input_bytes for p in Precision]
    assert sizes == [2 * 64 * 56 * 56 * size for size in (4, 2, 2)]


def test_the_spread_is_the_interval_of_the_median() -> None:
    assert spread_percent([1.0] * 100) == 0.0
    assert spread_percent([1.0, 2.0]) == math.inf
    assert spread_percent([0.0] * 100) == 0.0
    noise = np.random.default_rng(0).normal(100, 10, 1000)
    # 1.96 * sqrt(pi / 2) * sigma / sqrt(n), in percent of the median
    assert spread_percent(list(noise)) == pytest.approx(0.78, rel=0.2)


def test_half_of_the_intervals_width_halves_with_four_times_the_samples() -> None:
    noise = np.random.default_rng(1).normal(100, 10, 40000)
    assert spread_percent(list(noise)) == pytest.approx(spread_percent(list(noise[:10000])) / 2, rel=0.2)


class Launch:
    """A launch of given times; counts what was asked."""

    def __init__(self, times_ns: Iterator[float]) -> None:
        self.times_ns = times_ns
        self.asked: list[int] = []

    def __call__(self, reps: int) -> list[float]:
        self.asked.append(reps)
        return [next(self.times_ns) for _ in range(reps)]


def test_a_steady_launch_is_measured_for_the_least_time() -> None:
    launch = Launch(itertools.chain([9e8], itertools.repeat(1e6)))
    samples = measure(launch, min_time_s=0.1)
    assert 100 <= len(samples) <= 115 and set(samples) == {1e6}
    assert launch.asked[:2] == [1, 2]  # the first builds the program and does not count


def test_a_noisy_launch_is_measured_longer_and_then_given_up() -> None:
    launch = Launch(itertools.cycle([1e6, 9e6, 2e6, 7e6, 3e6]))
    samples = measure(launch, min_time_s=0.1)
    assert MAX_TIME_FACTOR * 0.1e9 <= sum(samples) <= (MAX_TIME_FACTOR + 1) * 0.1e9


def test_launches_that_take_no_time_end_too() -> None:
    launch = Launch(itertools.repeat(1.0))
    assert len(measure(launch, min_time_s=1e-5)) >= 1e4


def test_variants_are_compared_with_the_default_beside_them() -> None:
    assert ratio_in_pairs([1.0, 1.6, 1.0], [99.0, 2.0, 3.2, 2.0]) == 0.5, "the warm-up's time belongs to no sample"
    assert ratio_in_pairs([1.0, 1.6], []) is None
    assert ratio_in_pairs([1.0], [0.0]) is None, "some drivers tell no time of short launches"
