"""Computes which input row or column each output row or column of a nearest Resize takes.

Nothing else computes it: NumPy's oracle takes these indices, and a plan holds them as a table that every kernel and CPU
operator reads, so that no device rounds for itself. The arithmetic is that of ONNX Runtime, operation by operation: in
any other, a coordinate may fall on the other side of an integer or of a tie.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int32]
# ONNX Runtime counts a coordinate as close to the middle of two pixels as this as a tie.
TIE_WIDTH = np.float32(1e-6)


def nearest_indices(extent: int, size: int, scale: float, coordinates: str, rounding: str) -> Indices:
    """The input index (0 .. extent - 1) of each of `size` output positions of one axis.

    `scale` is output/input as the model gives it; `coordinates` and `rounding` are ONNX's names for Resize's
    coordinate_transformation_mode and nearest_mode.
    """
    return chosen_indices(_positions(extent, size, np.float32(scale), coordinates), extent, rounding)


def chosen_indices(positions: Floats, extent: int, rounding: str) -> Indices:
    """The index (0 .. extent - 1) next to each coordinate of an axis."""
    return np.clip(_rounded(positions, rounding), 0, extent - 1).astype(np.int32)


def _positions(extent: int, size: int, scale: np.float32, coordinates: str) -> Floats:
    outputs, half = np.arange(size, dtype=np.float32), np.float32(0.5)
    if scale == 1:
        return outputs
    if coordinates == "asymmetric":
        return outputs / scale
    if coordinates == "align_corners":
        return outputs * np.float32(extent - 1) / np.float32(max(size - 1, 1))
    if coordinates == "pytorch_half_pixel" and size == 1:
        return outputs
    if coordinates == "half_pixel_symmetric":
        length = np.float32(extent)
        offset = length / np.float32(2) * (np.float32(1) - np.float32(size) / (scale * length))
        # ONNX Runtime adds these in float64, unlike those of `half_pixel`.
        return (float(offset) + (outputs + 0.5).astype(np.float64) / float(scale) - 0.5).astype(np.float32)
    return (outputs + half) / scale - half


def _rounded(positions: Floats, rounding: str) -> Floats:
    below, above = np.floor(positions), np.ceil(positions)
    rest = positions - below
    is_tie = np.abs(rest - np.float32(0.5)) <= TIE_WIDTH
    nearer = np.where(rest < np.float32(0.5), below, above)
    choices: Mapping[str, Floats] = {
        "floor": below,
        "ceil": above,
        "round_prefer_floor": np.where(is_tie, below, nearer),
        "round_prefer_ceil": np.where(is_tie, above, nearer),
    }
    return choices[rounding]
