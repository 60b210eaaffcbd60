"""An analytic model of time: what a launch computes and moves, against the peaks of a device (a roofline).

Peaks are measured on the device, each as far as it was, else those of a typical device of the GPU family, per compute
unit where they grow with them. Typical ones rank candidates where nothing was measured; how far off they are does not
matter as long as the order is right.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence

from runtime.target import Target, runs_on_cpu, wider_family
from runtime.types import Algorithm


@dataclasses.dataclass(frozen=True)
class Peaks:
    """What a device can do at most.

    Attributes:
        macs: multiply-adds per ms on the GPU.
        buffer_bytes, image_bytes: bytes per ms that kernels move through buffers and through images.
        launch_ms: least time of a launch.
        cpu_macs, cpu_bytes: the same of a step on the CPU.
        map_ms: time to hand memory over to the CPU and back, for a step of the CPU among launches of the GPU.
        overlap: whether the GPU moves memory while it multiplies; a CPU's driver does either.
    """

    macs: float
    buffer_bytes: float
    image_bytes: float
    launch_ms: float = 0.01
    cpu_macs: float = 1e7
    cpu_bytes: float = 8e6
    map_ms: float = 0.05
    overlap: bool = True

    def gpu_ms(self, macs: float, buffer_bytes: float, image_bytes: float) -> float:
        """Time of a launch on the GPU."""
        moving = buffer_bytes / self.buffer_bytes + image_bytes / self.image_bytes
        multiplying = macs / self.macs
        return self.launch_ms + (max(multiplying, moving) if self.overlap else multiplying + moving)

    def cpu_ms(self, macs: float, moved: float) -> float:
        """Time of a step on the CPU."""
        return max(macs / self.cpu_macs, moved / self.cpu_bytes)


class PeakFigure(enum.StrEnum):
    """What is measured on a GPU, see Peaks; a figure is a rate per ms, but that of a launch its ms."""

    MACS = "macs"
    HALF_MACS = "half_macs"  # multiply-adds in half arithmetic
    BUFFER_BYTES = "buffer_bytes"
    IMAGE_BYTES = "image_bytes"
    LAUNCH_MS = "launch_ms"


@dataclasses.dataclass(frozen=True)
class MeasuredPeaks:
    """The peaks that a device was measured to have; a figure that could not be measured, or was not yet, is missing."""

    figures: Mapping[PeakFigure, float] = dataclasses.field(default_factory=dict)

    def least_ms(self, in_half: bool, macs: float, buffer_bytes: float, image_bytes: float) -> dict[PeakFigure, float]:
        """What the peaks allow a launch at the least, by what it computes and moves; infinite where one is missing.

        No launch is faster than the longest of these, if the peaks are true.
        """
        work = {
            PeakFigure.HALF_MACS if in_half else PeakFigure.MACS: macs,
            PeakFigure.BUFFER_BYTES: buffer_bytes,
            PeakFigure.IMAGE_BYTES: image_bytes,
        }
        least = {
            each: amount / self.figures[each] if each in self.figures else math.inf
            for each, amount in work.items()
            if amount
        }
        return least | {PeakFigure.LAUNCH_MS: self.figures.get(PeakFigure.LAUNCH_MS, math.inf)}

    def without(self, figure: PeakFigure) -> MeasuredPeaks:
        """The same without a figure."""
        return MeasuredPeaks({each: value for each, value in self.figures.items() if each != figure})


NOT_MEASURED = MeasuredPeaks()


@dataclasses.dataclass(frozen=True)
class _Family:
    """Multiply-adds per ms and compute unit in float; bytes per ms through buffers and images; least launch in ms."""

    macs: float
    buffer_bytes: float
    image_bytes: float
    launch_ms: float


# Orders of magnitude of vendors' data sheets and optimisation guides: GPUs with a cache for textures only (Adreno,
# PowerVR) read images faster than buffers, those with one cache for both (Mali, desktops) do not gain; a CPU's driver
# computes an image's address in software for every read.
_FAMILIES = {
    "adreno": _Family(6e7, 8e6, 1.6e7, 0.02),
    "powervr": _Family(4e7, 6e6, 1.0e7, 0.03),
    "mali": _Family(2e7, 1.0e7, 8e6, 0.03),
    "mali-valhall": _Family(4e7, 1.2e7, 1.0e7, 0.03),
    "mali-5th": _Family(1e8, 1.5e7, 1.2e7, 0.03),
    "xclipse": _Family(6e7, 1.5e7, 1.2e7, 0.02),
    "maleoon": _Family(1e8, 1.5e7, 1.2e7, 0.03),  # as Arm's of its years: four cores of 750 MHz, little else is public
    "nvidia": _Family(6e7, 6e8, 5e8, 0.005),
    "amd": _Family(6e7, 2e8, 1.8e8, 0.008),
    "intel": _Family(2e7, 3e7, 2.5e7, 0.01),
    "pocl": _Family(2e7, 1e7, 1e6, 0.01),
    "cpu": _Family(2e7, 1e7, 1e6, 0.01),
    "": _Family(2e7, 1e7, 9e6, 0.02),
}


def peaks_of(target: Target, measured: MeasuredPeaks = NOT_MEASURED) -> Peaks:
    """The peaks of a target: those that were measured, else by its GPU family, compute units and precision."""
    families = (target.gpu_family, wider_family(target.gpu_family), "")
    family = next(_FAMILIES[name] for name in families if name in _FAMILIES)
    half = 2.0 if target.precision.computes_in_half else 1.0
    figures = measured.figures
    macs = figures.get(PeakFigure.MACS, family.macs * max(target.compute_units, 1)) * half
    if target.precision.computes_in_half:
        macs = figures.get(PeakFigure.HALF_MACS, macs)
    return Peaks(
        macs,
        figures.get(PeakFigure.BUFFER_BYTES, family.buffer_bytes),
        figures.get(PeakFigure.IMAGE_BYTES, family.image_bytes),
        figures.get(PeakFigure.LAUNCH_MS, family.launch_ms),
        overlap=not runs_on_cpu(target.gpu_family),
    )


def modelled_algorithm(
    x_shape: Sequence[int], y_shape: Sequence[int], element_bytes: int, peaks: Peaks, image: bool = False
) -> Algorithm:
    """The algorithm of the least modelled time for a 3x3 convolution."""

    def modelled_ms(algorithm: Algorithm) -> float:
        if algorithm == Algorithm.DIRECT:
            return _direct_ms(x_shape, y_shape, element_bytes, peaks, image)
        return _winograd_ms(x_shape, y_shape, algorithm.tile, element_bytes, peaks, image)

    return min(Algorithm, key=modelled_ms)


def _launch_ms(peaks: Peaks, macs: float, elements: float, element_bytes: int, image: bool) -> float:
    moved = elements * element_bytes
    return peaks.gpu_ms(macs, 0 if image else moved, moved if image else 0)


def _direct_ms(x: Sequence[int], y: Sequence[int], element_bytes: int, peaks: Peaks, image: bool) -> float:
    n, out_c, out_h, out_w = y
    pixels, filters = n * out_h * out_w, 9 * x[1] * out_c
    elements = n * x[1] * x[2] * x[3] + pixels * out_c + filters
    return _launch_ms(peaks, pixels * filters, elements, element_bytes, image)


def _winograd_ms(x: Sequence[int], y: Sequence[int], tile: int, element_bytes: int, peaks: Peaks, image: bool) -> float:
    n, out_c, out_h, out_w = y
    points, tiles = (tile + 2) ** 2, n * -(-out_h // tile) * -(-out_w // tile)
    v, m, u = points * tiles * x[1], points * tiles * out_c, points * x[1] * out_c
    launches = (
        (0, n * x[1] * x[2] * x[3] + v),
        (points * tiles * x[1] * out_c, v + u + m),
        (0, m + n * out_c * out_h * out_w),
    )
    return sum(_launch_ms(peaks, macs, elements, element_bytes, image) for macs, elements in launches)
