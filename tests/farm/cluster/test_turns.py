"""Turns on a unit go by person, not by command."""

from __future__ import annotations

import itertools

from farm.cluster.turns import Turns

LANE = ("mi8", -10.0)


class Unit:
    """A unit that does what waits for it, the lowest number first, and of one number what came first."""

    def __init__(self) -> None:
        self.turns, self.waiting, self._counter = Turns(), list[tuple[int, int, str, str]](), itertools.count()

    def come(self, *commands: str) -> None:
        """Commands come, each named by its user and a number: `ann1`."""
        for command in commands:
            user, came = command.rstrip("0123456789"), next(self._counter)
            task = f"{command}/{came}"
            self.waiting.append((self.turns.give(task, LANE, user), came, task, command))

    def do(self, count: int, each_again: bool = True) -> list[str]:
        """The commands that have their turns; each comes again, with its next model."""
        done = []
        for _ in range(count):
            self.waiting.sort()
            _, _, task, command = self.waiting.pop(0)
            self.turns.end(task, was_run=True)
            done.append(command)
            if each_again:
                self.come(command)
        return done

    def cancel(self, *commands: str) -> None:
        """Commands go without having been run."""
        for _, _, task, command in self.waiting:
            if command in commands:
                self.turns.end(task, was_run=False)
        self.waiting = [each for each in self.waiting if each[3] not in commands]


def users(commands: list[str]) -> str:
    return "".join(command[0] for command in commands)


def test_a_person_with_many_commands_has_no_more_turns() -> None:
    unit = Unit()
    unit.come("ann1", "ann2", "ann3")
    unit.do(4)
    unit.come("bob1")
    done = unit.do(12)
    assert users(done).count("b") in (5, 6, 7) and users(done[:2]).count("b") == 1
    assert {each for each in done if each.startswith("a")} == {"ann1", "ann2", "ann3"}


def test_three_people_have_a_third_each() -> None:
    unit = Unit()
    unit.come("ann1", "ann2", "ann3", "ann4", "bob1", "carol1", "carol2")
    done = users(unit.do(30))
    assert {name: done.count(name) for name in "abc"} == {"a": 10, "b": 10, "c": 10}


def test_who_was_away_has_saved_no_turns() -> None:
    unit = Unit()
    unit.come("ann1")
    unit.do(50)
    unit.come("bob1")
    assert users(unit.do(10)).count("b") in (5, 6)


def test_what_is_cancelled_has_taken_no_turn() -> None:
    unit = Unit()
    unit.come("bob1", *(f"ann{number}" for number in range(20)))
    unit.cancel(*(f"ann{number}" for number in range(20)))
    unit.come("ann20")
    assert users(unit.do(6)).count("a") == 3


def test_turns_of_other_units_and_priorities_are_apart() -> None:
    turns = Turns()
    assert [turns.give(str(number), LANE, "ann") for number in range(3)] == [0, 1, 2]
    assert turns.give("other unit", ("mi9", -10.0), "ann") == 0
    assert turns.give("other priority", ("mi8", 0.0), "ann") == 0
    turns.end("unknown", was_run=True)


def test_who_leaves_is_forgotten() -> None:
    unit = Unit()
    unit.come("ann1", "bob1")
    unit.do(2, each_again=False)
    assert not unit.turns._given and not unit.turns._waiting
