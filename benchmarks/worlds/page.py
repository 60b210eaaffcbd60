"""The table of the worlds in docs/measurement.md."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.worlds.measured import RULES, SIZES, Count
from benchmarks.worlds.unit_pair import ALONE, DUET
from farm.decision.controls import poisson_interval

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


PAGE = Path(__file__).parents[2] / "docs" / "measurement.md"
BEGIN, END = "<!-- worlds: python -m benchmarks.decisions --write -->\n", "<!-- /worlds -->\n"

TITLE = (
    "Of a unit alone, with duets, and by its history alone: false alarms a series-year (exact 95 % interval), "
    "steps and ramps seen (percent), blocks of duets in percent of a night's own:"
)
HISTORY = "history's"
HEAD = (
    *("world", "false alarms", HISTORY, "10 %, first night", HISTORY, "5 %, three nights", HISTORY, "ramps"),
    "duets' cost",
)
Found = Mapping[str, Mapping[str, Count]]


def tables(found: Found) -> str:
    """One table: a row a world."""
    rows = [_row(world, counts[DUET], counts[ALONE]) for world, counts in found.items()]
    lines = (f"| {' | '.join(cells)} |" for cells in (HEAD, ("---", *["---:"] * (len(HEAD) - 1)), *rows))
    return "\n".join((f"{TITLE}\n", *lines, ""))


def _row(world: str, duets: Count, history: Count) -> tuple[str, ...]:
    ten, five = SIZES
    return (
        *(world, _rate(duets), f"{history.alarms / history.years:.2f}" if history.years else "-"),
        *(_share(duets, ten, 0), _share(history, ten, 0), _share(duets, five, 1), _share(history, five, 1)),
        *(_ramp(duets), f"{100 * duets.duets / max(duets.blocks, 1):.0f}"),
    )


def written(page: str, text: str) -> str:
    """The page with these tables in place of those between the marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{text}{END}{rest.split(END)[1]}"


def _rate(count: Count) -> str:
    if not count.years:
        return "-"
    low, high = poisson_interval(count.alarms)
    return f"{count.alarms / count.years:.2f} ({low / count.years:.2f}-{high / count.years:.2f})"


def _share(count: Count, size: float, which: int) -> str:
    seen = count.steps.get(size)
    return f"{100 * seen[which] / seen[2]:.0f}" if seen else "-"


def _ramp(count: Count) -> str:
    seen, of = count.change
    return f"{100 * seen / of:.0f}" if of else "-"


def volume_text(found: Found) -> str:
    """How much was simulated, of the world that has least of it to the one that has most."""
    counts = [of_world[DUET] for of_world in found.values()]
    years, steps = (
        [round(count.years) for count in counts],
        [sum(seen[2] for seen in count.steps.values()) for count in counts],
    )
    return f"{_range(years)} series-years, {_range(steps)} steps of either size a world."


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return str(low) if low == high else f"{low} to {high}"
