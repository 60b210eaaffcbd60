"""How fast launches can be at the most, by a device's measured peaks, as long as no launch disproves these.

A peak reads lower where the unit was in a slow state. So one that any launch beats counts for nothing from then on.
"""

from runtime.kernels.spec import MemoryType
from runtime.lowering.trials import TrialLaunch
from runtime.peaks import NOT_MEASURED, MeasuredPeaks, PeakFigure

NEAR = 0.03  # of a time: what is nearer to the least than this can hardly become faster
BEATEN = 0.01  # of a time: a launch that is below the least by more is not so by chance
NS_PER_MS = 1e6
_FLOAT_BYTES, _HALF_BYTES = 4, 2


class Floors:
    """The least times of launches; without peaks that is 0, and nothing is ever near it."""

    def __init__(self, peaks: MeasuredPeaks = NOT_MEASURED) -> None:
        self._peaks = peaks.without(PeakFigure.LAUNCH_MS)  # what the shortest launch took was one launch's luck

    def least_ns(self, launch: TrialLaunch) -> float:
        """What its multiply-adds, or the bytes that it must touch, take at the peak; 0 where neither is known."""
        return max(self._least_ns(launch).values(), default=0.0)

    def note(self, launch: TrialLaunch, ns: float) -> None:
        """Takes a launch's time; a peak that it beats is none."""
        for figure, least_ns in self._least_ns(launch).items():
            if ns < (1.0 - BEATEN) * least_ns:
                self._peaks = self._peaks.without(figure)

    def _least_ns(self, launch: TrialLaunch) -> dict[PeakFigure, float]:
        moved = launch.bytes / _FLOAT_BYTES * (_HALF_BYTES if launch.precision.stores_half else _FLOAT_BYTES)
        on_images = launch.kernel.memory == MemoryType.IMAGE
        work = (launch.macs, 0.0 if on_images else moved, moved if on_images else 0.0)
        least = self._peaks.least_ms(launch.precision.computes_in_half, *work)
        return {figure: ms * NS_PER_MS for figure, ms in least.items() if figure in self._peaks.figures}
