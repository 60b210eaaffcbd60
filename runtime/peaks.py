"""An analytic model of time: what a launch computes and moves, against the peaks of a device (a roofline).

Peaks are measured on the device, each as far as it was, else those of a typical device of the GPU's generation, by its
compute units. Typical ones rank candidates where nothing was measured; how far off they are does not
matter as long as the order is right.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Mapping, Sequence

from runtime.target import Target, preferred_memory, runs_on_cpu, wider_family
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
        in_buffers: how many of the multiply-adds kernels reach that read no images.
    """

    macs: float
    buffer_bytes: float
    image_bytes: float
    launch_ms: float = 0.01
    cpu_macs: float = 1e7
    cpu_bytes: float = 8e6
    map_ms: float = 0.05
    overlap: bool = True
    in_buffers: float = 1.0

    def gpu_ms(self, macs: float, buffer_bytes: float, image_bytes: float) -> float:
        """Time of a launch on the GPU."""
        moving = buffer_bytes / self.buffer_bytes + image_bytes / self.image_bytes
        multiplying = macs / (self.macs * (1.0 if image_bytes else self.in_buffers))
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

    @property
    def image_slowdown(self) -> float:
        """How many times as long as through a buffer it takes to move a byte through an image; 1 where not known."""
        through = [self.figures.get(each) for each in (PeakFigure.BUFFER_BYTES, PeakFigure.IMAGE_BYTES)]
        return through[0] / through[1] if through[0] and through[1] else 1.0

    def without(self, figure: PeakFigure) -> MeasuredPeaks:
        """The same without a figure."""
        return MeasuredPeaks({each: value for each, value in self.figures.items() if each != figure})


NOT_MEASURED = MeasuredPeaks()


@dataclasses.dataclass(frozen=True)
class _Typical:
    """Multiply-adds per ms and compute unit in float; the others as in Peaks."""

    macs: float
    buffer_bytes: float
    image_bytes: float
    launch_ms: float
    in_buffers: float = 1.0


# Orders of magnitude of vendors' data sheets and optimisation guides. A CPU's driver computes an image's address in
# software for every read.
_FAMILIES = {
    "nvidia": _Typical(6e7, 6e8, 5e8, 0.005),
    "amd": _Typical(6e7, 2e8, 1.8e8, 0.008),
    "intel": _Typical(2e7, 3e7, 2.5e7, 0.01),
    "pocl": _Typical(2e7, 1e7, 1e6, 0.01),
    "cpu": _Typical(2e7, 1e7, 1e6, 0.01),
    "": _Typical(2e7, 1e7, 9e6, 0.02),
}

# Mobile GPUs by generation: what their drivers call them (else the family), multiply-adds a clock of each compute unit
# that OpenCL counts, MHz in most SoCs, and `in_buffers`, which follows from what texture units and load units bring a
# clock. The first pattern that is found counts.
_ADRENO = r"adreno\W*(?:tm\W*)?"
_GENERATIONS: Sequence[tuple[str, float, float, float]] = (
    # ALUs, clocks: en.wikipedia.org/wiki/Adreno; of the fifth generation the small ones are one unit, the large four.
    (rf"{_ADRENO}[1-4]", 32, 550, 0.6),
    (rf"{_ADRENO}50[45]", 48, 450, 0.6),
    (rf"{_ADRENO}51", 128, 650, 0.6),
    (rf"{_ADRENO}5", 64, 600, 0.6),
    (rf"{_ADRENO}6[01]", 192, 750, 0.6),
    (rf"{_ADRENO}6", 340, 620, 0.6),
    (r"adreno", 256, 800, 0.6),
    # Half of the operations a clock and core, and texels: Arm's GPU Datasheets of 2021 and 2024; clocks: those of SoCs.
    (r"mali-(g[67]15|5th)", 128, 900, 0.3),
    (r"mali-g[3567]10", 64, 850, 0.4),
    (r"mali-(t|midgard)", 14, 700, 1.3),
    (r"mali-g7[12]\b", 12, 800, 1.3),
    (r"mali-g[35]1\b", 12, 750, 0.6),
    (r"mali-(g(52|76)\b|bifrost)", 24, 850, 0.6),
    (r"mali-(g(57|68|7[78])\b|valhall)", 32, 850, 0.6),
    (r"mali", 24, 850, 0.6),
    # Imagination's pages: clusters of two pipes of 16, from the A-Series on of 128 and more.
    (r"\b[abcd]x[a-z]-|d-series", 128, 950, 0.6),
    (r"powervr", 32, 650, 0.7),
    (r"xclipse", 128, 1200, 0.4),  # en.wikipedia.org/wiki/Exynos; two of AMD's compute units are one of OpenCL's
    (r"maleoon", 128, 750, 0.6),  # as Arm's of its years: four cores of 750 MHz, little else is public
)
_LAUNCH_MS = {"adreno": 0.02, "powervr": 0.04, "mali": 0.03, "xclipse": 0.02, "maleoon": 0.03}  # by maker
_REACHED, _FED = 0.6, 85.0  # kernels reach so many of a unit's multiply-adds, and as many a clock as its caches feed
# Bytes per ms: makers of SoCs give a GPU of four times the multiply-adds a memory that moves twice the bytes.
_BYTES = 1.2e3
_PAST_TEXTURES = 0.75  # of these, in buffers, on GPUs whose cache is for textures


def _typical(target: Target) -> _Typical:
    """What is typical of a target's GPU: by its generation, else by its family."""
    maker, name = wider_family(target.gpu_family), f"{target.gpu} {target.opencl_version} {target.gpu_family}"
    found = (figures for pattern, *figures in _GENERATIONS if re.search(pattern, name, re.IGNORECASE))
    if maker not in _LAUNCH_MS or not (generation := next(found, None)):
        return _FAMILIES.get(maker, _FAMILIES[""])
    width, mhz, in_buffers = generation
    clocks = mhz * 1e3
    moved = _BYTES * math.sqrt(width * clocks * max(target.compute_units, 1))
    past_textures = moved * (_PAST_TEXTURES if preferred_memory(maker) == "image" else 1.0)
    return _Typical(min(_REACHED * width, _FED) * clocks, past_textures, moved, _LAUNCH_MS[maker], in_buffers)


def peaks_of(target: Target, measured: MeasuredPeaks = NOT_MEASURED) -> Peaks:
    """The peaks of a target: those that were measured, else by its GPU's generation, compute units and precision."""
    typical = _typical(target)
    half = 2.0 if target.precision.computes_in_half else 1.0
    figures = measured.figures
    macs = figures.get(PeakFigure.MACS, typical.macs * max(target.compute_units, 1)) * half
    if target.precision.computes_in_half:
        macs = figures.get(PeakFigure.HALF_MACS, macs)
    return Peaks(
        macs,
        figures.get(PeakFigure.BUFFER_BYTES, typical.buffer_bytes),
        figures.get(PeakFigure.IMAGE_BYTES, typical.image_bytes),
        figures.get(PeakFigure.LAUNCH_MS, typical.launch_ms),
        overlap=not runs_on_cpu(target.gpu_family),
        in_buffers=typical.in_buffers,
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
