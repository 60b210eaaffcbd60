"""Winograd's minimal filtering F(m x m, 3 x 3): matrices, and filters in the transformed domain.

A tile of m x m outputs is computed from alpha x alpha inputs, alpha = m + 2, as y = A' [(G g G') . (B' d B)] A. That
takes alpha^2 multiplications instead of 9 for each output (Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks"). The interpolation points are 0, 1, -1 for m = 2 and 0, 1, -1, 2, -2 for m = 4; the
kernels write the same matrices out as sums.
"""

import numpy as np

from runtime.graph import Array

TILES = (2, 4)
_FILTERS = 1024  # transformed together

INPUT_TRANSFORM: dict[int, Array] = {
    2: np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64),
    4: np.array(
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        np.float64,
    ),
}
FILTER_TRANSFORM: dict[int, Array] = {
    2: np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.float64) / 2,
    4: np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], np.float64) / 24,
}
OUTPUT_TRANSFORM: dict[int, Array] = {
    2: np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64),
    4: np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], np.float64),
}


def transform_filter(weights: Array, tile: int) -> Array:
    """Filters [o, i, 3, 3] for output tiles of `tile` x `tile`, as [alpha^2, o, i] in the same element type.

    The sums are in float64. G g G' is the product of a filter's nine numbers with the Kronecker square of G, some
    filters at a time, so that what is wide stays in the cache.
    """
    matrix = np.kron(FILTER_TRANSFORM[tile], FILTER_TRANSFORM[tile])
    filters = weights.reshape(-1, 9).T
    transformed = np.empty((len(matrix), filters.shape[1]), weights.dtype)
    for first in range(0, filters.shape[1], _FILTERS):
        part = slice(first, first + _FILTERS)
        transformed[:, part] = matrix @ filters[:, part].astype(np.float64)
    return transformed.reshape(len(matrix), *weights.shape[:2])
