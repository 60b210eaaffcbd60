"""What launches cost: measured times by key, and a model of those that nobody has measured."""

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from runtime.kernels.spec import ArgumentForm
from runtime.lowering.launch import Launch
from runtime.peaks import NOT_MEASURED, MeasuredPeaks, Peaks, peaks_of
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Precision


class CostOrigin(enum.StrEnum):
    """Where a cost comes from."""

    MEASURED = "measured"  # on this SoC
    FAMILY = "family"  # on another SoC of the GPU family
    MODELLED = "modelled"


class LaunchCosts(Protocol):
    """What a launch costs, and where that figure comes from."""

    def milliseconds(self, launch: Launch) -> float:
        """Time of the launch, 0 or more."""
        ...

    def origin(self, launch: Launch) -> CostOrigin:
        """Where that time comes from."""
        ...


def cost_key(launch: Launch) -> str:
    """What a launch's time is kept under: its tuning key, else its kernel, element types, options and dims."""
    if launch.tuning_key:
        return launch.tuning_key
    kind = "cpu" if launch.kind == StepKind.CPU else launch.kernel.memory.value
    elements = (launch.tensors[0][0].element, launch.output.element)
    element = ">".join(dict.fromkeys(each.name.lower() for each in elements))
    options = ",".join(f"{key}={value}" for key, value in sorted(launch.defines.items()))
    return "|".join((launch.kernel.name, kind, element, options, ",".join(f"{k}={v}" for k, v in launch.dims.items())))


@dataclasses.dataclass(frozen=True)
class MeasuredCosts:
    """Times from a table {cost key: milliseconds}; `fallback` has those that it lacks.

    `kind`: FAMILY where the table was measured on another SoC of the family.
    """

    table: Mapping[str, float]
    fallback: LaunchCosts
    kind: CostOrigin = CostOrigin.MEASURED

    def milliseconds(self, launch: Launch) -> float:
        """The table's time, else the fallback's."""
        known = self.table.get(cost_key(launch))
        return self.fallback.milliseconds(launch) if known is None else known

    def origin(self, launch: Launch) -> CostOrigin:
        """The table's kind, else what the fallback says."""
        return self.kind if cost_key(launch) in self.table else self.fallback.origin(launch)


@dataclasses.dataclass(frozen=True)
class AnalyticCosts:
    """Times of a roofline: multiply-adds and bytes against a device's peaks."""

    peaks: Peaks

    def milliseconds(self, launch: Launch) -> float:
        """The launch's modelled time."""
        buffers, images = moved_bytes(launch)
        if launch.kind == StepKind.CPU:
            return self.peaks.map_ms + self.peaks.cpu_ms(launch.macs, buffers + images)
        return self.peaks.gpu_ms(launch.macs, buffers, images)

    def origin(self, launch: Launch) -> CostOrigin:
        """Always the model."""
        return CostOrigin.MODELLED


@dataclasses.dataclass(frozen=True)
class CostsByPrecision:
    """Times by what has them for a launch's precision."""

    costs: Mapping[Precision, LaunchCosts]

    def milliseconds(self, launch: Launch) -> float:
        """The launch's time."""
        return self.costs[launch.precision].milliseconds(launch)

    def origin(self, launch: Launch) -> CostOrigin:
        """Where that time comes from."""
        return self.costs[launch.precision].origin(launch)


def modelled_costs(target: Target, measured: MeasuredPeaks = NOT_MEASURED) -> LaunchCosts:
    """The model of a target, by its peaks in the precision of each launch."""
    targets = {precision: dataclasses.replace(target, precision=precision) for precision in Precision}
    return CostsByPrecision({precision: AnalyticCosts(peaks_of(each, measured)) for precision, each in targets.items()})


def least_ms(launch: Launch, measured: MeasuredPeaks) -> float:
    """The time that no launch on the GPU beats if the measured peaks are true.

    Infinite where one of the peaks is missing that the launch depends on, or on the CPU: then nothing is known.
    """
    if launch.kind == StepKind.CPU:
        return math.inf
    return max(measured.least_ms(launch.precision.computes_in_half, launch.macs, *moved_bytes(launch)).values())


def moved_bytes(launch: Launch) -> tuple[int, int]:
    """Bytes that a launch reads and writes, each tensor once, of a table what is picked: in buffers, and in images.

    What is passed only to fill a place (zeros, a residual that is not added) does not count.
    """
    unread = {"zeros"} if launch.defines.get("RESIDUAL") else {"zeros", "residual"}
    packed = {each.argument: each.groups * each.rows * each.cols for each in launch.packed}
    arguments = zip(launch.kernel.tensors, launch.tensors, strict=True)
    moved = {ArgumentForm.FLAT: 0, ArgumentForm.IMAGE: 0}
    seen: set[int] = set()
    for (argument, _), (value, form) in arguments:
        if id(value) in seen or argument in unread:
            continue
        seen.add(id(value))
        elements = packed.get(argument) or value.size
        if argument in launch.kernel.picked:
            elements = min(elements, launch.output.size)
        moved[ArgumentForm.IMAGE if form == ArgumentForm.IMAGE else ArgumentForm.FLAT] += elements * value.element_bytes
    return moved[ArgumentForm.FLAT], moved[ArgumentForm.IMAGE]


def total_ms(launches: Iterable[Launch], costs: LaunchCosts) -> float:
    """Cost of launches one after the other."""
    return sum(costs.milliseconds(launch) for launch in launches)
