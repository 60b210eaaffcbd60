"""Where each output of a Resize lies in its input, and what its neighbours there weigh; source: ONNX Resize."""

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from runtime.families.resize.nearest import chosen_indices, nearest_indices

Reals = npt.NDArray[np.float64]
COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    "tf_crop_and_resize",
)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How Resize samples, the same for every axis but for the region of interest."""

    mode: str
    coordinates: str
    rounding: str
    antialias: bool = False
    exclude_outside: bool = False
    cubic: float = -0.75
    extrapolation: float = 0.0
    region: tuple[tuple[float, float], ...] = ((0.0, 1.0),) * 6

    def places(self, extent: int, size: int, scale: float, axis: int) -> Reals:
        """Coordinate in the input of each of `size` outputs; an axis of `extent` elements.

        The length resized, where a formula has it, is `size`: a whole number, as ONNX Runtime has it.
        """
        position = np.arange(size, dtype=np.float64)
        if self.coordinates == "asymmetric":
            return position / scale
        if self.coordinates == "align_corners":
            return position * (extent - 1) / max(size - 1, 1)
        if self.coordinates == "tf_crop_and_resize":
            start, end = self.region[axis]
            if size == 1:
                return np.full(1, 0.5 * (start + end) * (extent - 1))
            return start * (extent - 1) + position * (end - start) * (extent - 1) / (size - 1)
        if self.coordinates == "pytorch_half_pixel" and size == 1:
            return np.zeros(size)
        centred = (position + 0.5) / scale - 0.5
        if self.coordinates == "half_pixel_symmetric":
            return centred + extent / 2 * (1 - size / (scale * extent))
        return centred

    def nearest(self, extent: int, size: int, scale: float, axis: int) -> npt.NDArray[np.int32]:
        """The element that each output takes."""
        if self.coordinates == "tf_crop_and_resize":
            return chosen_indices(self.places(extent, size, scale, axis).astype(np.float32), extent, self.rounding)
        return nearest_indices(extent, size, scale, self.coordinates, self.rounding)

    def weights(self, places: Reals, extent: int, scale: float) -> Reals:
        """Matrix [outputs, inputs]: what each input weighs in each output."""
        width = 2.0 if self.mode == "cubic" else 1.0
        shrink = min(scale, 1.0) if self.antialias else 1.0
        reach = math.ceil(width / shrink) + 1
        matrix = np.zeros((len(places), extent))
        for row, place in enumerate(places):
            taps = np.arange(math.floor(place) - reach, math.floor(place) + reach + 1)
            values = self._kernel((taps - place) * shrink)
            if self.exclude_outside:
                values = np.where((taps < 0) | (taps >= extent), 0, values)
            if self.exclude_outside or self.antialias:
                values = values / values.sum()
            np.add.at(matrix[row], np.clip(taps, 0, extent - 1), values)
        return matrix

    def _kernel(self, distance: Reals) -> Reals:
        size = np.abs(distance)
        if self.mode == "linear":
            return np.asarray(np.maximum(1 - size, 0), np.float64)
        a = self.cubic
        near: Reals = ((a + 2) * size - (a + 3)) * size * size + 1
        far = ((a * size - 5 * a) * size + 8 * a) * size - 4 * a
        return np.asarray(np.where(size <= 1, near, np.where(size < 2, far, 0)), np.float64)
