"""The tables of the worlds in docs/measurement.md: rows are worlds, columns rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.worlds.measured import DUET, OTAVA, RULES, SIZES, Count
from farm.decision.controls import poisson_interval

PAGE = Path(__file__).parents[2] / "docs" / "measurement.md"
BEGIN, END = "<!-- worlds: python -m benchmarks.decisions --unseen --write -->\n", "<!-- /worlds -->\n"

Found = Mapping[str, Mapping[str, Count]]


def tables(found: Found) -> str:
    """False alarms, then steps."""
    return "\n".join((_alarms(found), _steps(found, SIZES[0], 0), _steps(found, SIZES[1], 1), _duets(found)))


def written(page: str, text: str) -> str:
    """The page with these tables in place of those between the marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{text}{END}{rest.split(END)[1]}"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    return "\n".join((f"{title}\n", *lines, ""))


def _alarms(found: Found) -> str:
    rows = [[world, *(_rate(rule, counts[rule]) for rule in RULES)] for world, counts in found.items()]
    return _table("False alarms a series-year (exact 95 % interval):", ("world", *RULES), rows)


def _rate(rule: str, count: Count) -> str:
    if not count.years:
        return "not installed" if rule == OTAVA else "-"
    low, high = poisson_interval(count.alarms)
    return f"{count.alarms / count.years:.2f} ({low / count.years:.2f}-{high / count.years:.2f})"


def _steps(found: Found, size: float, which: int) -> str:
    rows = [[world, *(_share(counts[rule], size, which) for rule in RULES)] for world, counts in found.items()]
    title = f"Steps of {100 * size:.0f} % seen {('in the first night', 'within three nights')[which]}, percent:"
    return _table(title, ("world", *RULES), rows)


def _share(count: Count, size: float, which: int) -> str:
    seen = count.steps.get(size)
    return f"{100 * seen[which] / seen[2]:.0f}" if seen else "-"


def _duets(found: Found) -> str:
    rows = [[world, f"{100 * (counts[DUET].cost or 0):.0f}", _ramp(counts[DUET])] for world, counts in found.items()]
    return _table("Duets: their blocks in percent of a night's own; ramps seen:", ("world", "cost", "ramps (%)"), rows)


def _ramp(count: Count) -> str:
    seen, of = count.change
    return f"{100 * seen / of:.0f}" if of else "-"
