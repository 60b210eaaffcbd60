"""Turns go to what saves most of the models' time for a second of device time."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from tuner.family_scheduler import take_turns


class FakeFamily:
    """A family whose rungs save and cost what is given; it has one task of so many variants."""

    def __init__(
        self, lab: Any, name: str, time_ns: float, rungs: list[tuple[float, float]], variants: int = 4
    ) -> None:
        self.name, self.time_ns, self.tasks = name, time_ns, ["task"]
        self._lab, self._rungs, self._variants = lab, rungs, variants

    def variants(self, task: str) -> list[int]:
        return list(range(self._variants))

    def play(self) -> Iterator[None]:
        for gain_ns, cost_s in self._rungs:
            self.time_ns -= gain_ns
            self._lab.spent_s += cost_s
            yield


def order(lab: Any, *families: Any) -> list[str]:
    strategy: Any = SimpleNamespace(explore=FakeFamily.play)
    return [family.name for family in take_turns(families, strategy, lab)]


def new_lab() -> Any:
    return SimpleNamespace(spent_s=0.0)


def test_the_heaviest_family_is_first_and_all_come_to_their_end() -> None:
    lab = new_lab()
    light = FakeFamily(lab, "light", 10.0, [(0.0, 1.0)])
    heavy = FakeFamily(lab, "heavy", 100.0, [(0.0, 1.0), (0.0, 1.0)])
    turns = order(lab, light, heavy)
    assert turns[0] == "heavy"
    assert sorted(turns) == ["heavy"] * 3 + ["light"] * 2, "each rung, and the turn that finds none left"


def test_few_variants_are_tried_before_many() -> None:
    lab = new_lab()
    many = FakeFamily(lab, "many", 100.0, [(0.0, 1.0)], variants=40)
    few = FakeFamily(lab, "few", 100.0, [(0.0, 1.0)], variants=4)
    assert order(lab, many, few)[0] == "few"


def test_success_brings_the_next_turn_and_failure_lets_others_in() -> None:
    lab = new_lab()
    winner = FakeFamily(lab, "winner", 100.0, [(40.0, 1.0), (0.0, 1.0), (0.0, 1.0)])
    other = FakeFamily(lab, "other", 50.0, [(0.0, 1.0)], variants=20)
    assert order(lab, winner, other)[:3] == ["winner", "winner", "other"]
