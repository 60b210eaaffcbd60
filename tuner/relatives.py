"""What journals of other devices say of a kernel's variants: each device counts by how alike it is to this one.

Devices are alike where they put variants into the same order: Kendall's tau of the pairs of variants that both have
timed (M. Kendall, "A new measure of rank correlation", 1938). Until enough pairs are known, which takes a few probes,
their families say how alike they are. A device that is known to be alike spares the building of variants that are far
behind on it.
"""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from runtime.kernels.spec import Variant
from runtime.target import runs_on_cpu
from tuner.journal import ForeignTrial

_SAME_FAMILY, _SAME_KIND, _STRANGER = 0.8, 0.5, 0.2  # how alike devices are believed to be before any probe
_LEAST_PAIRS = 6  # of variants, until their order counts: four variants make so many
_TRUSTED = 0.6  # likeness from which on a device spares builds
_FAR_BEHIND = math.log(1.6)  # on each trusted device: not worth a build
_TIE = math.log(1.05)  # variants so close are in no order: it would be that of the noise
_PROBES = 4  # variants that are tried first, spread over the order that others suggest


class Relative:
    """A device's best times of variants, by kernel and tuning key; `family` is its GPU family, empty if unknown."""

    def __init__(self, family: str) -> None:
        self.family = family
        self._log_ns: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))

    def observe(self, kernel: str, key: str, variant: str, ns: float) -> None:
        """Adds a time; of a variant's times for a launch the shortest counts, and infinite ones do not."""
        if math.isfinite(ns) and ns > 0:
            times = self._log_ns[kernel][key]
            times[variant] = min(math.log(ns), times.get(variant, math.inf))

    @property
    def kernels(self) -> Sequence[str]:
        """Kernels with times."""
        return list(self._log_ns)

    def gaps(self, kernel: str) -> Mapping[str, float]:
        """How far each variant is behind the best, in logarithms: the mean over launches with several variants."""
        gaps: dict[str, list[float]] = defaultdict(list)
        for times in self._log_ns.get(kernel, {}).values():
            best = min(times.values())
            for variant, log_ns in times.items() if len(times) > 1 else ():
                gaps[variant].append(log_ns - best)
        return {variant: sum(of_variant) / len(of_variant) for variant, of_variant in gaps.items()}


class Relatives:
    """Other devices, and what this one has shown so far: `own`."""

    def __init__(self, own_family: str, others: Iterable[Relative] = ()) -> None:
        self.own = Relative(own_family)
        self._others = list(others)

    def likeness(self, other: Relative) -> float:
        """How alike a device orders variants, 0 to 1; by its family as long as too few pairs are known."""
        signs = [sign for kernel in self.own.kernels for sign in _pairs(self.own.gaps(kernel), other.gaps(kernel))]
        if len(signs) < _LEAST_PAIRS:
            return _believed(self.own.family, other.family)
        return max(sum(signs) / len(signs), 0.0)

    def penalty(self, kernel: str, variant: Variant) -> float | None:
        """How far a variant is likely to be behind the best, in logarithms; None where no such device knows it."""
        known = [
            (likeness, gap)
            for other in self._others
            if (gap := other.gaps(kernel).get(variant.name)) is not None and (likeness := self.likeness(other)) > 0
        ]
        total = sum(likeness for likeness, _ in known)
        return sum(likeness * gap for likeness, gap in known) / total if known else None

    def is_far_behind(self, kernel: str, variant: Variant) -> bool:
        """Whether devices that are shown to be alike spare the building of a variant."""
        gaps = [other.gaps(kernel).get(variant.name) for other in self._others if self._is_trusted(other)]
        known = [gap for gap in gaps if gap is not None]
        return bool(known) and min(known) > _FAR_BEHIND

    def _is_trusted(self, other: Relative) -> bool:
        pairs = sum(len(_pairs(self.own.gaps(kernel), other.gaps(kernel))) for kernel in self.own.kernels)
        return pairs >= _LEAST_PAIRS and self.likeness(other) >= _TRUSTED

    def in_order(self, kernel: str, variants: Sequence[Variant]) -> list[Variant]:
        """Variants, the most promising first, or as given where no device knows them, but for probes from among all.

        Probes are for a device that nobody chose defaults for: its best may be nowhere near them in the kernel table.
        """
        unknown = _FAR_BEHIND  # between what is good and what is far behind
        penalties = {variant: self.penalty(kernel, variant) for variant in variants}
        ordered = sorted(variants, key=lambda each: unknown if penalties[each] is None else penalties[each] or 0.0)
        probes = [ordered[index * len(ordered) // _PROBES] for index in range(min(_PROBES, len(ordered)))]
        return list(dict.fromkeys([*probes, *ordered]))


@dataclasses.dataclass(frozen=True)
class KernelRelatives:
    """Relatives, asked for one kernel."""

    relatives: Relatives
    kernel: str

    def observe(self, key: str, variant: Variant, ns: float) -> None:
        """Adds a time of this device."""
        self.relatives.own.observe(self.kernel, key, variant.name, ns)

    def penalty(self, variant: Variant) -> float | None:
        """See Relatives."""
        return self.relatives.penalty(self.kernel, variant)

    def is_far_behind(self, variant: Variant) -> bool:
        """See Relatives."""
        return self.relatives.is_far_behind(self.kernel, variant)

    def in_order(self, variants: Sequence[Variant]) -> list[Variant]:
        """See Relatives."""
        return self.relatives.in_order(self.kernel, variants)


def relatives_of(own_family: str, trials: Iterable[ForeignTrial]) -> Relatives:
    """The devices that have written trials into journals, for a device of a family."""
    others: dict[str, Relative] = {}
    for trial in trials:
        other = others.setdefault(trial.fingerprint, Relative(trial.family))
        other.observe(trial.kernel, trial.key, trial.variant, trial.ns)
    return Relatives(own_family, others.values())


def _pairs(own: Mapping[str, float], other: Mapping[str, float]) -> list[int]:
    """For each pair of variants that both devices know and this one tells apart: 1 where they agree, else -1."""
    common = [variant for variant in own if variant in other]
    differences = ((own[a] - own[b], other[a] - other[b]) for a, b in itertools.combinations(common, 2))
    return [1 if mine * theirs > 0 else -1 for mine, theirs in differences if abs(mine) > _TIE]


def _believed(own: str, other: str) -> float:
    if own == other:
        return _SAME_FAMILY
    return _SAME_KIND if other and runs_on_cpu(own) == runs_on_cpu(other) else _STRANGER
