"""Some drawn models are right in every executor; `python -m tests.random_models FIRST COUNT` draws more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runtime.graph import Array, Graph
from runtime.oracle.evaluate import evaluate
from tests.random_models import judge as judge_module
from tests.random_models.__main__ import judge, verdicts
from tests.random_models.judge import KINDS_OF_SEEDS, difference, draw

COUNT = 21  # three of each kind
# Models that were wrong once, or that farm died of.
FOUND = (280, 363)  # integer products of vectors were refused


@pytest.mark.slow
def test_drawn_models_are_right_in_every_executor(tmp_path: Path) -> None:
    found = {seed: verdict for seed, _, verdict in verdicts(iter((*range(COUNT), *FOUND)), tmp_path)}
    bad = {seed: verdict for seed, verdict in found.items() if verdict.startswith(("wrong", "dead", "refused"))}
    assert not bad
    assert sum(verdict == "right" for verdict in found.values()) > 0.8 * len(found)


@pytest.mark.slow
def test_an_executor_that_computes_something_else_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
        return {name: -value for name, value in evaluate(graph, inputs).items()}

    monkeypatch.setattr(judge_module, "evaluate", turned)
    with judge(tmp_path) as judging:
        assert judging.verdict(draw(1)).startswith("wrong: NumPy: ")


def test_a_seed_draws_the_same_model_each_time() -> None:
    for seed in range(len(KINDS_OF_SEEDS)):
        one, two = draw(seed), draw(seed)
        assert one.model == two.model
        assert all(np.array_equal(value, two.expected[name]) for name, value in one.expected.items())


def test_one_rounding_the_other_way_is_no_difference_where_values_are_steps() -> None:
    expected = np.zeros((4, 5), np.float32)
    flipped = expected.copy()
    flipped[0, 0] = 0.1
    assert difference(flipped, expected, steps=True) == ""
    assert difference(flipped, expected, steps=False) == "1 of 20 elements, by 0.1"
    assert difference(flipped + np.float32(0.1), expected, steps=True).startswith("20 of 20")
    assert difference(expected[0], expected, steps=True) == "shape (5,) instead of (4, 5)"
