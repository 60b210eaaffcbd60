"""The tables of the worlds in docs/measurement.md: rows are worlds, columns rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.worlds.measured import DIVISIVE, OTAVA, RULES, SIZES, Count
from benchmarks.worlds.unit_pair import ALONE, DUET, DUET_TWIN
from farm.decision.controls import poisson_interval

PAGE = Path(__file__).parents[2] / "docs" / "measurement.md"
BEGIN, END = "<!-- worlds: python -m benchmarks.decisions --unseen --write -->\n", "<!-- /worlds -->\n"

DUETS = (DUET, DUET_TWIN)
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
    absent = {} if any(counts[OTAVA].years for counts in found.values()) else {OTAVA: "not installed"}
    rows = [
        [world, *(_rate(counts[rule]) or absent.get(rule, "-") for rule in RULES)] for world, counts in found.items()
    ]
    return _table("False alarms a series-year (exact 95 % interval):", ("world", *RULES), rows)


def _rate(count: Count) -> str:
    """Empty where nothing was simulated."""
    if not count.years:
        return ""
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
    rows = [
        [world, *(f"{100 * counts[rule].duets / max(counts[rule].blocks, 1):.0f}" for rule in DUETS),
         *(_ramp(counts[rule]) for rule in DUETS)]
        for world, counts in found.items()
    ]  # fmt: skip
    head = ("world", "cost, alone", "cost, twin", "ramps, alone (%)", "ramps, twin (%)")
    return _table("Duets: their blocks in percent of a night's own; ramps of 10 % in 30 nights seen:", head, rows)


def _ramp(count: Count) -> str:
    seen, of = count.change
    return f"{100 * seen / of:.0f}" if of else "-"


def volume_text(found: Found) -> str:
    """How much was simulated, of the world that has least of it to the one that has most."""
    kinds = {"With duets": DUET, "history": ALONE, "E-divisive and apache-otava": DIVISIVE}
    return (
        "; ".join(f"{kind}: {_volume([counts[rule] for counts in found.values()])}" for kind, rule in kinds.items())
        + " a world."
    )


def _volume(counts: Sequence[Count]) -> str:
    years, steps = (
        [round(count.years) for count in counts],
        [sum(seen[2] for seen in count.steps.values()) for count in counts],
    )
    return f"{_range(years)} series-years, {_range(steps)} steps of either size"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return str(low) if low == high else f"{low} to {high}"
