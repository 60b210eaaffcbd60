"""Counts of the worlds in a file, a line for each part of the work: a long simulation goes on where it stopped."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.worlds.measured import RULES, Count

Counts = Mapping[str, Count]


class Results:
    """The parts that a file holds; every part has seeds of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._parts: dict[tuple[str, int], Counts] = {
            (part["world"], part["part"]): _counts(part["counts"]) for part in map(json.loads, lines)
        }

    def has(self, world: str, part: int) -> bool:
        """Whether it was simulated."""
        return (world, part) in self._parts

    def add(self, world: str, part: int, counts: Counts) -> None:
        """Keeps a part."""
        values = {rule: dataclasses.asdict(count) for rule, count in counts.items()}
        with self._path.open("a") as file:
            file.write(json.dumps({"world": world, "part": part, "counts": values}) + "\n")
        self._parts[world, part] = counts

    def totals(self, worlds: Sequence[str]) -> dict[str, dict[str, Count]]:
        """All parts of each of these worlds together; worlds without one are left out."""
        found = {}
        for world in worlds:
            parts = [counts for (name, _), counts in self._parts.items() if name == world]
            if parts:
                found[world] = {rule: sum((part[rule] for part in parts), Count()) for rule in RULES}
        return found


def _counts(values: Mapping[str, dict[str, object]]) -> dict[str, Count]:
    return {rule: _count(dict(members)) for rule, members in values.items()}


def _count(members: dict[str, object]) -> Count:
    steps = members.pop("steps")
    assert isinstance(steps, dict)
    return Count(steps={float(size): seen for size, seen in steps.items()}, **members)  # type: ignore[arg-type]
