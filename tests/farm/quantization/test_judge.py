"""What is left of outputs, and which layers stay in float."""

import numpy as np
import pytest

from farm.quantization.judge import Fidelity, LossBudget, fewest_in_float, fidelity
from farm.quantization.layers import LayerNodes

LAYERS = [LayerNodes(f"layer{number}", "Conv", (), frozenset(), "") for number in range(20)]
ALONE_DB = {layer.name: float((7 * number) % 20) for number, layer in enumerate(LAYERS)}
WORST_FIRST = sorted(ALONE_DB, key=ALONE_DB.__getitem__)


@pytest.mark.parametrize("needed", range(20))
def test_as_many_stay_in_float_as_are_needed(needed: int) -> None:
    asked: list[int] = []

    def holds(in_float: frozenset[str]) -> bool:
        asked.append(len(in_float))
        return len(in_float) >= needed

    assert fewest_in_float(LAYERS, ALONE_DB, holds) == frozenset(WORST_FIRST[:needed])
    assert len(asked) == len(set(asked)) <= 10


def test_none_where_not_one_layer_can_be_quantised() -> None:
    assert fewest_in_float(LAYERS, ALONE_DB, lambda in_float: False) is None


def test_fidelity_is_that_of_the_worst_output_over_all_samples() -> None:
    expected = [{"a": np.array([[3.0, 4.0]]), "b": np.array([[1.0, 0.0]])}] * 2
    actual = [dict(expected[0]), {"a": np.array([[3.0, 4.5]]), "b": np.array([[0.0, 0.1]])}]
    found = fidelity(expected, actual, {"a": 1, "b": 1})
    assert found.sqnr_db == pytest.approx(10 * np.log10(2 / 1.01))
    assert found.agreement == pytest.approx(0.75)


def test_a_budget_asks_for_both() -> None:
    budget = LossBudget(30, 90)
    assert budget.holds(Fidelity(30, 0.95)) and not budget.holds(Fidelity(29, 0.95))
    assert not budget.holds(Fidelity(40, 0.89)) and not LossBudget().is_set
