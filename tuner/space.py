"""The search space of a launch: every variant that fits, with every local size that can matter, and a guessed cost.

The guessed cost is in natural logarithms of time. It counts what costs time on any device: work items that rounding
adds, compute units without a work group at the end, lanes that a work group leaves idle. Measurements replace it
(ranking.py).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

from runtime.kernels.spec import Variant, ceil_div, within_local_limit
from runtime.lowering.trials import TrialLaunch
from runtime.target import Target, shares_an_axis
from tuner.trial import DRIVERS_CHOICE, Candidate, LocalSize

_MOST_WASTE = 2.0  # work items launched, to those needed
_GROUPS_A_UNIT = 4  # work groups that keep a compute unit busy to the end
_DRIVERS_CHOICE = 0.3  # guessed cost: a driver knows the device, not the kernel, and PoCL builds for each launch anew
_LATER_VARIANT = 0.02  # guessed cost of each place in the kernel table behind the default


def candidate_costs(launch: TrialLaunch, target: Target, preferred_multiple: int = 0) -> dict[Candidate, float]:
    """All candidates with their guessed costs; the kernel table's own default local sizes have cost 0.

    `preferred_multiple` is the device's preferred multiple of the work-group size, 0 if unknown.
    """
    all_costs: dict[Candidate, float] = {}
    limit = launch.kernel.local_limit
    allowed = within_local_limit(target, limit)
    for order, variant in enumerate(fitting_variants(launch, target)):
        items = three_dimensional(launch.work_items(variant))
        costs = {} if limit else {DRIVERS_CHOICE: _DRIVERS_CHOICE}
        costs |= _size_costs(items, allowed, preferred_multiple)
        if launch.kernel.local_size:
            usual = three_dimensional(launch.kernel.local_size(launch.dims, variant, target))
            costs = _shared_alike(costs, items, usual) if shares_an_axis(target.gpu_family) else costs
            costs[usual] = 0.0
        all_costs |= {Candidate(variant, size): cost + _LATER_VARIANT * order for size, cost in costs.items()}
    return all_costs | {default_candidate(launch): 0.0}


def _shared_alike(costs: Mapping[LocalSize, float], items: LocalSize, usual: LocalSize) -> dict[LocalSize, float]:
    """The sizes that share the axis of the usual one among cores: by another a core reads what others have written.

    Alone such a launch may be faster; in its model the launches around it divide the work as the usual sizes do.
    """
    axis = _widest_axis(items, usual)
    return {size: cost for size, cost in costs.items() if size != DRIVERS_CHOICE and _widest_axis(items, size) == axis}


def _widest_axis(items: LocalSize, size: LocalSize) -> int:
    """The axis of most work groups."""
    groups = [ceil_div(count, side) for count, side in zip(items, size, strict=True)]
    return groups.index(max(groups))


def default_candidate(launch: TrialLaunch) -> Candidate:
    """The candidate that an untuned plan launches."""
    return Candidate(launch.variant, three_dimensional(launch.local_size))


def fitting_variants(launch: TrialLaunch, target: Target) -> list[Variant]:
    """Variants that can run these dims, in the launch's precision, on this target; the default first."""
    default, target = launch.variant, dataclasses.replace(target, precision=launch.precision)
    others = [variant for variant in launch.kernel.variants if variant != default]
    return [default, *(variant for variant in others if not launch.kernel.misfit(launch.dims, variant, target))]


def three_dimensional(sizes: Sequence[int]) -> LocalSize:
    """Pads one to three sizes with 1 to three dimensions; a first size of 0 means that the driver chooses."""
    x, y, z = (*sizes, *([1] * (3 - len(sizes))))
    return (x, max(y, 1), max(z, 1)) if x else DRIVERS_CHOICE


@functools.lru_cache(4096)
def _size_costs(items: LocalSize, target: Target, preferred_multiple: int) -> dict[LocalSize, float]:
    """Guessed costs of the local sizes of so many work items, which variants, layers and models have in common."""
    sizes = local_sizes(items, target, preferred_multiple)
    return {size: local_cost(items, size, target.compute_units, preferred_multiple) for size in sizes}


def local_sizes(work_items: Sequence[int], target: Target, preferred_multiple: int = 0) -> list[LocalSize]:
    """Legal local sizes that can matter for a launch of so many work items.

    Powers of two, divisors and multiples of the preferred multiple in each dimension, within the device's limits;
    not those that launch more than twice the work, or leave compute units idle that smaller groups would use.
    """
    items = three_dimensional(work_items)
    limits = target.max_work_item_sizes
    largest = target.max_work_group_size
    x, y, z = (_side_lengths(count, min(limit, largest)) for count, limit in zip(items, limits, strict=True))
    x = sorted({*x, *_multiples(preferred_multiple, max(x))})
    count = math.prod(items)
    busy, most = min(target.compute_units, count), _MOST_WASTE * count
    legal = (size for size in itertools.product(x, y, z) if _items(size) <= largest)
    return [size for size in legal if busy <= (groups := _groups(items, size)) and groups * _items(size) <= most]


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
    return ceil_div(items[0], size[0]) * ceil_div(items[1], size[1]) * ceil_div(items[2], size[2])


def _items(size: LocalSize) -> int:
    return size[0] * size[1] * size[2]


def local_cost(items: LocalSize, size: LocalSize, compute_units: int, preferred_multiple: int) -> float:
    """Guessed cost of a local size alone: rounding, imbalance at the end, idle lanes, and the number of groups."""
    groups = _groups(items, size)
    imbalance = ceil_div(groups, compute_units) * compute_units / groups
    lanes = _items(size)
    idle = ceil_div(lanes, preferred_multiple) * preferred_multiple / lanes if preferred_multiple else 1.0
    crowding = 0.05 * abs(math.log2(groups / (_GROUPS_A_UNIT * compute_units)))
    return math.log(groups * lanes / math.prod(items)) + math.log(imbalance) + min(math.log(idle), 0.5) + crowding
