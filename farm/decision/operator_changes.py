"""Which operators a change of latency comes from: their times since the change against those of the nights before it.

Each night profiles a model once, so that an operator has one average a night. Nights are the independent measurements:
the difference of the two groups' means is tested with Student's pooled distribution (W. S. Gosset, 1908), at a level
that is divided by the number of operators (C. E. Bonferroni, 1936), as the worst of many always looks bad.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

LEAST_NIGHTS = 3  # before the change: with fewer there is no telling how much an operator varies
ERROR = 0.05
Times = Mapping[tuple[str, str], float]  # milliseconds by name and type


def summed_times(times: Iterable[tuple[str, str, float]]) -> Times:
    """Times by name and type, given as (name, type, milliseconds); those of the same name and type are summed."""
    sums: dict[tuple[str, str], float] = {}
    for name, kind, time_ms in times:
        sums[name, kind] = sums.get((name, kind), 0.0) + time_ms
    return sums


@dataclasses.dataclass(frozen=True)
class OperatorChange:
    """An operator whose time has changed, in milliseconds: before, now, and the difference with its interval.

    `low` and `high` bound the differences of all operators together with a probability of 95 %; both are infinite for
    an operator that only one side has.
    """

    name: str
    kind: str
    before_ms: float | None
    now_ms: float | None
    difference_ms: float
    low_ms: float
    high_ms: float


def operator_changes(now: Sequence[Times], before: Sequence[Times]) -> list[OperatorChange]:
    """The operators that have changed beyond their noise, or are new or gone; the largest difference first.

    `now` and `before` are nights, each a time for each operator. Empty with fewer than `LEAST_NIGHTS` nights before.
    """
    if not now or len(before) < LEAST_NIGHTS:
        return []
    names = list(dict.fromkeys(name for night in [*now, *before] for name in night))
    changes = [change for name in names for change in _change(name, now, before, len(names))]
    return sorted(changes, key=lambda change: -abs(change.difference_ms))


def _change(
    name: tuple[str, str], now: Sequence[Times], before: Sequence[Times], operators: int
) -> Iterator[OperatorChange]:
    since = [night[name] for night in now if name in night]
    until = [night[name] for night in before if name in night]
    if not since or not until:
        yield _appeared(name, since, until)
        return
    difference = statistics.fmean(since) - statistics.fmean(until)
    margin = _margin(since, until, ERROR / operators)
    if abs(difference) > margin:
        means = (statistics.fmean(until), statistics.fmean(since))
        yield OperatorChange(*name, *means, difference, difference - margin, difference + margin)


def _appeared(name: tuple[str, str], since: Sequence[float], until: Sequence[float]) -> OperatorChange:
    now_ms = statistics.fmean(since) if since else None
    before_ms = statistics.fmean(until) if until else None
    return OperatorChange(*name, before_ms, now_ms, (now_ms or 0.0) - (before_ms or 0.0), -math.inf, math.inf)


def _margin(since: Sequence[float], until: Sequence[float], error: float) -> float:
    """Half of the interval of the difference of means; infinite where the nights are too few."""
    from scipy import special  # takes long to import, for most commands in vain

    degrees = len(since) + len(until) - 2
    if len(until) < LEAST_NIGHTS:
        return math.inf
    squares = sum((time - statistics.fmean(group)) ** 2 for group in (since, until) for time in group)
    spread = math.sqrt(squares / degrees * (1 / len(since) + 1 / len(until)))
    return float(special.stdtrit(degrees, 1 - error / 2)) * spread
