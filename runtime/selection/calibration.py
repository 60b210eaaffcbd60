"""The model held against what the device has timed: by what its times are multiplied, and how low they may be.

On a device that is nothing like its family, or whose kernels are far from its peaks, the model is off by the same
factor nearly everywhere. Without that factor a launch that nobody has timed seems far cheaper, or far dearer, than
those that were.
"""

import dataclasses
import enum
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from runtime.kernels.spec import ArgumentForm
from runtime.lowering.launch import Launch
from runtime.peaks import MeasuredPeaks, PeakFigure
from runtime.plan.records import StepKind
from runtime.selection.costs import CostOrigin, LaunchCosts, cost_key, least_ms, moved_bytes

LEAST_SPREAD = math.log(3.0)  # how far single launches are off the model, at the least, as a logarithm
ENOUGH = 4  # launches of a group, until the least that they take of the peaks says what the others will
_DEVIATION = 1.4826  # a standard deviation, in median absolute deviations from the median


class ModelledKind(enum.StrEnum):
    """Launches whose model may be off by different factors."""

    BUFFER = "buffer"
    IMAGE = "image"
    CPU = "cpu"


Group = tuple[ModelledKind, bool]
"""Launches that come as near to the peaks as each other: by where they run, and whether they multiply."""


def group_of(launch: Launch) -> Group:
    """The group of a launch."""
    return kind_of(launch), launch.macs > 0


def kind_of(launch: Launch) -> ModelledKind:
    """Where a launch runs, and in what its tensors lie; with any image it is one of images."""
    if launch.kind == StepKind.CPU:
        return ModelledKind.CPU
    forms = {form for _, form in launch.tensors}
    return ModelledKind.IMAGE if ArgumentForm.IMAGE in forms else ModelledKind.BUFFER


def by_key(launches: Iterable[Launch]) -> dict[str, Launch]:
    """The distinct launches, by what their costs are kept under."""
    return {cost_key(launch): launch for launch in launches}


def model_scales(
    launches: Mapping[str, Launch], measured: Mapping[str, float], model: LaunchCosts
) -> dict[ModelledKind, float]:
    """By what the model is multiplied for each kind, by those of the launches whose time in ms is known by key.

    Where only buffers or only images were timed, the others count like these; the CPU is another device.
    """
    ratios: dict[ModelledKind, list[float]] = {}
    for key in launches.keys() & measured.keys():
        if measured[key] > 0.0:
            ratio = measured[key] / model.milliseconds(launches[key])
            ratios.setdefault(kind_of(launches[key]), []).append(ratio)
    scales = {kind: model_scale(of_kind) for kind, of_kind in ratios.items()}
    gpu = [scales[kind] for kind in (ModelledKind.BUFFER, ModelledKind.IMAGE) if kind in scales]
    return dict.fromkeys((ModelledKind.BUFFER, ModelledKind.IMAGE), gpu[0]) | scales if gpu else scales


def times_of_least(
    launches: Mapping[str, Launch], measured: Mapping[str, float], peaks: MeasuredPeaks
) -> dict[Group, float]:
    """How many times what the peaks allow the launches of a group have taken at the least, where ENOUGH are measured.

    `measured`: times in ms by key.
    """
    ratios: dict[Group, list[float]] = {}
    for key in launches.keys() & measured.keys():
        if 0.0 < (least := least_ms(launches[key], peaks)) < math.inf:
            ratios.setdefault(group_of(launches[key]), []).append(measured[key] / least)
    return {group: min(of_group) for group, of_group in ratios.items() if len(of_group) >= ENOUGH}


def with_beaten(peaks: MeasuredPeaks, launches: Mapping[str, Launch], measured: Mapping[str, float]) -> MeasuredPeaks:
    """The peaks, raised to what those of the launches show that beat them: they were read in a slow state of the unit.

    `measured`: times in ms by key.
    """
    figures = dict(peaks.figures)
    for key in launches.keys() & measured.keys():
        launch, ms = launches[key], measured[key]
        if launch.kind == StepKind.CPU or ms <= 0.0:
            continue
        least = MeasuredPeaks(figures).least_ms(launch.precision.computes_in_half, launch.macs, *moved_bytes(launch))
        for figure, at_least_ms in least.items():
            if ms < at_least_ms < math.inf:
                figures[figure] *= ms / at_least_ms if figure == PeakFigure.LAUNCH_MS else at_least_ms / ms
    return MeasuredPeaks(figures)


def model_scale(ratios: Sequence[float]) -> float:
    """The median ratio of measured to modelled, brought nearer to 1 by its own standard error; 1 without any.

    So a few launches count where they say that the model is far off, and not where chance may say it.
    """
    if not ratios:
        return 1.0
    logs = [math.log(ratio) for ratio in ratios]
    median = statistics.median(logs)
    spread = max(_DEVIATION * statistics.median(abs(each - median) for each in logs), LEAST_SPREAD)
    sure = max(abs(median) - spread / math.sqrt(len(logs)), 0.0)
    return math.exp(math.copysign(sure, median))


@dataclasses.dataclass(frozen=True)
class ScaledCosts:
    """Costs, multiplied by a factor for each kind of launch; 1 where it has none."""

    costs: LaunchCosts
    scales: Mapping[ModelledKind, float]

    def milliseconds(self, launch: Launch) -> float:
        """The launch's time."""
        return self.scales.get(kind_of(launch), 1.0) * self.costs.milliseconds(launch)

    def origin(self, launch: Launch) -> CostOrigin:
        """Where that time comes from."""
        return self.costs.origin(launch)


@dataclasses.dataclass(frozen=True)
class Bound:
    """Costs that are never longer than the least that measured peaks allow, where these are known.

    `times`: by what that least is multiplied, for groups that are far from the peaks; 1 for the others.
    """

    costs: LaunchCosts
    peaks: MeasuredPeaks
    times: Mapping[Group, float] = dataclasses.field(default_factory=dict)

    def milliseconds(self, launch: Launch) -> float:
        """The launch's time."""
        least = self.times.get(group_of(launch), 1.0) * least_ms(launch, self.peaks)
        return min(self.costs.milliseconds(launch), least)

    def origin(self, launch: Launch) -> CostOrigin:
        """Where that time comes from."""
        return self.costs.origin(launch)
