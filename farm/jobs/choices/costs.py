"""What launches cost on a device: measured there, else on the best match of its GPU family, else modelled."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from farm.config.execution import DEFAULT, Execution
from farm.farmrt.answers import ProbeAnswer
from farm.units import target_files
from farm.units.shipped_facts import shipped_probe
from farm.workspace import journal_file, journal_files
from runtime.errors import FormatError
from runtime.lowering.launch import Launch
from runtime.peaks import NOT_MEASURED, MeasuredPeaks
from runtime.plan.artifacts import fingerprint_of
from runtime.selection.calibration import (
    Bound,
    Group,
    ModelledKind,
    ScaledCosts,
    model_scales,
    times_of_least,
    with_beaten,
)
from runtime.selection.costs import CostOrigin, LaunchCosts, MeasuredCosts, modelled_costs
from runtime.selection.peak_probes import measured_peaks
from runtime.target import Target, wider_family
from tuner.journal_times import DeviceTimes, read_times, scale_between

UNKNOWN = ("", "unknown")  # families of which nothing follows
NEVER_MS = 1e6  # of a launch that computes something wrong, or fails: no choice has one that can do without
_ABI = "arm64-v8a"  # of the SoCs whose GPUs are known to farm


def trials_fingerprint(target: Target, execution: Execution = DEFAULT) -> str:
    """What trials in a journal are valid for: the device, and the hints under which it works faster or slower."""
    digest = fingerprint_of(target).digest
    return f"{digest},{execution.hints}" if execution.hints else digest


@dataclasses.dataclass(frozen=True)
class KnownCosts:
    """Costs by key in ms: `measured` on the device itself, `family` on another one, which `family_source` names.

    `peaks`: what the device was measured to do at most, for the model of all else. `best_ms`: fastest repetitions by
    key, which show these. `scales`: by what the model is multiplied, `times_of_least`: how many times what the
    peaks allow launches take at the least, see `calibrated`. `refused`: journals that could
    not be used, each with the reason.
    """

    target: Target
    measured: Mapping[str, float]
    family: Mapping[str, float] = dataclasses.field(default_factory=dict)
    family_source: str = ""
    refused: tuple[str, ...] = ()
    peaks: MeasuredPeaks = NOT_MEASURED
    best_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    scales: Mapping[ModelledKind, float] = dataclasses.field(default_factory=dict)
    times_of_least: Mapping[Group, float] = dataclasses.field(default_factory=dict)

    def costs(self, scale: float = 1.0) -> LaunchCosts:
        """Each launch's cost by the best source that knows it; what the device has not measured is multiplied."""
        return MeasuredCosts(self.measured, self._unmeasured(scale))

    def bound(self, doubt: float) -> LaunchCosts:
        """Optimistic times of what the device has not measured: expected ones, divided by `doubt`.

        Nor are they longer than the measured peaks allow, as far as these are known: where launches of a group have
        all been far from those, than `doubt` times nearer than any.
        """
        times = {group: max(times / doubt, 1.0) for group, times in self.times_of_least.items()}
        return Bound(self._unmeasured(1.0 / doubt), self.peaks, times)

    def _unmeasured(self, scale: float) -> LaunchCosts:
        """What launches cost by all that others measured and the model says, multiplied by a factor."""
        model = ScaledCosts(self._model, self.scales)
        expected = MeasuredCosts(self.family, model, CostOrigin.FAMILY)
        return ScaledCosts(expected, dict.fromkeys(ModelledKind, scale))

    @property
    def _model(self) -> LaunchCosts:
        return modelled_costs(self.target, self.peaks)

    def with_measured(self, new: Mapping[str, float]) -> KnownCosts:
        """Returns these costs with further times that the device itself measured."""
        return dataclasses.replace(self, measured={**self.measured, **_possible(new)})

    def calibrated(self, launches: Mapping[str, Launch]) -> KnownCosts:
        """Returns these costs with the modelled times multiplied by a factor, from launches that the device has timed.

        `launches` are by key. A measured peak that one of them beats becomes what that one shows.
        """
        times = {key: ms for key, ms in self.measured.items() if ms < NEVER_MS}
        true = dataclasses.replace(self, peaks=with_beaten(self.peaks, launches, times))
        scales, least = model_scales(launches, times, true._model), times_of_least(launches, times, true.peaks)
        return dataclasses.replace(true, scales=scales, times_of_least=least)


def known_costs(target: Target, execution: Execution = DEFAULT) -> KnownCosts:
    """What the journals below the build folder know of a target's launches."""
    refused: list[str] = []
    by_file = {path: _times_of(path, refused) for path in {journal_file(target.soc), *journal_files()}}
    device = trials_fingerprint(target, execution)
    own = next((times for times in by_file[journal_file(target.soc)] if times.device == device), None)
    measured, best_ms = (own.ms, own.best_ms) if own else ({}, {})
    others = [(path, times) for path, found in by_file.items() for times in found if times.device != device]
    source, family = _best_match(target, others)
    scale = scale_between(measured, family.ms) if family else 1.0
    scaled = {key: ms * scale for key, ms in family.ms.items()} if family else {}
    name = source.stem if source else ""
    peaks = measured_peaks(target, best_ms)
    return KnownCosts(target, _possible(measured), _possible(scaled), name, tuple(refused), peaks, best_ms)


def _times_of(path: Path, refused: list[str]) -> list[DeviceTimes]:
    try:
        return read_times(path)
    except FormatError as error:
        refused.append(str(error))
        return []


def _possible(times: Mapping[str, float]) -> dict[str, float]:
    return {key: ms if math.isfinite(ms) else NEVER_MS for key, ms in times.items()}


def _best_match(target: Target, others: Iterable[tuple[Path, DeviceTimes]]) -> tuple[Path | None, DeviceTimes | None]:
    """The device of the very family that timed most launches, else of the wider family; None where there is none."""
    ranked: list[tuple[tuple[bool, int, str], Path, DeviceTimes]] = []
    for path, times in others:
        family = times.gpu_family or _family_of_soc(path.stem)
        if family not in UNKNOWN and wider_family(family) == wider_family(target.gpu_family):
            ranked.append(((family == target.gpu_family, len(times.ms), path.stem), path, times))
    best = max(ranked, key=lambda entry: entry[0], default=None)
    return (best[1], best[2]) if best else (None, None)


def _family_of_soc(soc: str) -> str:
    """The GPU family of a SoC by what is known of it; empty where nothing is."""
    probes: Iterator[ProbeAnswer | None] = iter((target_files.stored(soc), shipped_probe(soc, _ABI)))
    probe = next((probe for probe in probes if probe and probe.opencl.device), None)
    return probe.target(soc).gpu_family if probe else ""
