"""Which of several is the fastest: named where every interval says so, and only there."""

import numpy as np
import pytest

from farm.decision.fastest import least_turns, standings


def blocks(scale: float, seed: int, noise: float, turns: int = 8) -> list[float]:
    return list(scale * np.random.default_rng(seed).lognormal(0, noise, turns))


def test_a_clear_lead_is_the_fastest_with_the_others_ratios() -> None:
    found = standings({"slow": blocks(2.0, 1, 0.02), "fast": blocks(1.0, 2, 0.02), "slower": blocks(3.0, 3, 0.02)})
    assert found["fast"].leads and found["fast"].is_fastest and found["fast"].ratio is None
    for name, ratio in (("slow", 2.0), ("slower", 3.0)):
        standing = found[name]
        assert not standing.leads and standing.ratio == pytest.approx(ratio, rel=0.05) and standing.ratio_ci
        assert standing.ratio_ci[0] < ratio * 1.05 and standing.ratio_ci[1] > ratio * 0.95 > 1


def test_what_all_share_in_a_turn_tells_nothing() -> None:
    weather = np.random.default_rng(4).lognormal(0, 1.0, 8)
    found = standings({"a": list(1.0 * weather), "b": list(1.1 * weather)})
    assert found["a"].is_fastest and found["b"].ratio == pytest.approx(1.1)


def test_too_few_turns_or_too_much_noise_names_nobody() -> None:
    few = standings({"a": blocks(1.0, 1, 0.01, 4), "b": blocks(5.0, 2, 0.01, 4)})
    assert few["a"].leads and not few["a"].is_fastest and few["b"].ratio_ci is None
    noisy = standings({"a": blocks(1.0, 1, 0.5), "b": blocks(1.05, 2, 0.5)})
    assert not any(each.is_fastest for each in noisy.values()) and sum(each.leads for each in noisy.values()) == 1


def test_equal_engines_are_rarely_called_different() -> None:
    called = 0
    for seed in range(300):
        found = standings({name: blocks(1.0, 4 * seed + index, 0.1) for index, name in enumerate("abcd")})
        called += any(each.is_fastest for each in found.values())
    assert called <= 0.05 * 300


def test_one_alone_leads_and_nobody_is_nothing() -> None:
    assert standings({"a": [1.0, 2.0]})["a"].leads and standings({}) == {}


@pytest.mark.parametrize("engines", [2, 6, 7, 12])
def test_least_turns_are_the_fewest_that_give_intervals(engines: int) -> None:
    for turns, is_known in ((least_turns(engines), True), (least_turns(engines) - 1, False)):
        found = standings({str(index): blocks(1.0 + index, index, 0.01, turns) for index in range(engines)})
        assert all((each.ratio_ci is not None) == is_known for each in found.values() if not each.leads)
