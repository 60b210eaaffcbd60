"""Which candidates a launch has: every variant that fits, times every local size that can matter, best guess first.

The guess is a cost in natural logarithms of time, from what any device obeys: work items that the rounding adds,
compute units without a group at the end, lanes that a group leaves idle. What was measured replaces it (ranking.py).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from runtime.kernels.spec import Variant, ceil_div
from runtime.lowering.trials import TrialLaunch
from runtime.target import Target
from tuner.trial import DRIVERS_CHOICE, Candidate, LocalSize

_MOST_WASTE = 2.0  # work items launched, to those needed
_GROUPS_A_UNIT = 4  # work groups that keep a compute unit busy to the end
_DRIVERS_CHOICE = 0.3  # guessed cost: a driver knows the device, not the kernel, and PoCL builds for each launch anew
_LATER_VARIANT = 0.02  # guessed cost of each place in the kernel table behind the default


def candidates(launch: TrialLaunch, target: Target, preferred_multiple: int = 0) -> dict[Candidate, float]:
    """All candidates with their guessed costs; the kernel table's own default local sizes count as perfect.

    `preferred_multiple` is the device's preferred multiple of the work-group size, 0 if unknown.
    """
    found: dict[Candidate, float] = {}
    for order, variant in enumerate(fitting_variants(launch, target)):
        items = three(launch.work_items(variant))
        costs = {DRIVERS_CHOICE: _DRIVERS_CHOICE}
        for size in local_sizes(items, target, preferred_multiple):
            costs[size] = local_cost(items, size, target.compute_units, preferred_multiple)
        if launch.kernel.local_size:
            costs[three(launch.kernel.local_size(launch.dims, variant, target))] = 0.0
        found |= {Candidate(variant, size): cost + _LATER_VARIANT * order for size, cost in costs.items()}
    return found | {default_candidate(launch): 0.0}


def default_candidate(launch: TrialLaunch) -> Candidate:
    """What an untuned plan launches."""
    return Candidate(launch.variant, three(launch.local_size))


def fitting_variants(launch: TrialLaunch, target: Target) -> list[Variant]:
    """Variants that can run these dims on this target, the default first."""
    default = launch.variant
    rest = [each for each in launch.kernel.variants if each != default]
    return [default, *(each for each in rest if not launch.kernel.fits(launch.dims, each, target))]


def three(sizes: Sequence[int]) -> LocalSize:
    """Sizes of one to three dimensions, as three, 1 in those that are not used; a first size of 0 leaves all open."""
    x, y, z = (*sizes, *([1] * (3 - len(sizes))))
    return (x, max(y, 1), max(z, 1)) if x else DRIVERS_CHOICE


def local_sizes(work_items: Sequence[int], target: Target, preferred_multiple: int = 0) -> list[LocalSize]:
    """Legal local sizes that can matter for a launch of so many work items.

    Powers of two, divisors and multiples of the preferred multiple in each dimension, within the device's limits;
    not those that launch more than twice the work, or leave compute units idle that smaller groups would use.
    """
    items = three(work_items)
    limits = target.max_work_item_sizes
    largest = target.max_work_group_size
    x, y, z = (_side_lengths(count, min(limit, largest)) for count, limit in zip(items, limits, strict=True))
    x = sorted({*x, *_multiples(preferred_multiple, max(x))})
    busy = min(target.compute_units, math.prod(items))
    legal = (size for size in itertools.product(x, y, z) if math.prod(size) <= largest)
    return [size for size in legal if _waste(items, size) <= _MOST_WASTE and _groups(items, size) >= busy]


def _side_lengths(count: int, limit: int) -> list[int]:
    """Powers of two up to the one that holds all work items, and divisors."""
    end = min(limit, 1 << (count - 1).bit_length())
    powers = [1 << exponent for exponent in range(end.bit_length())]
    return sorted({*powers, *_useful_divisors(count, min(limit, count))})


def _multiples(multiple: int, limit: int) -> list[int]:
    """The multiple, doubled as long as it is within the limit."""
    return [multiple << exponent for exponent in range(limit.bit_length()) if 0 < multiple << exponent <= limit]


@functools.cache
def _useful_divisors(count: int, limit: int) -> list[int]:
    """Divisors whose nearest power of two does not divide: else that power is as good, and shared by more launches."""
    divisors = (divisor for divisor in range(1, limit + 1) if count % divisor == 0)
    return [divisor for divisor in divisors if count % (1 << round(math.log2(divisor)))]


def _groups(items: LocalSize, size: LocalSize) -> int:
    return math.prod(ceil_div(count, side) for count, side in zip(items, size, strict=True))


def _waste(items: LocalSize, size: LocalSize) -> float:
    return _groups(items, size) * math.prod(size) / math.prod(items)


def local_cost(items: LocalSize, size: LocalSize, compute_units: int, preferred_multiple: int) -> float:
    """Guessed cost of a local size alone: rounding, imbalance at the end, idle lanes, and the number of groups."""
    groups = _groups(items, size)
    imbalance = ceil_div(groups, compute_units) * compute_units / groups
    lanes = math.prod(size)
    idle = ceil_div(lanes, preferred_multiple) * preferred_multiple / lanes if preferred_multiple else 1.0
    crowding = 0.05 * abs(math.log2(groups / (_GROUPS_A_UNIT * compute_units)))
    return math.log(_waste(items, size)) + math.log(imbalance) + min(math.log(idle), 0.5) + crowding
