"""With Winograd's matrices, transformed filter and input give the convolution, for both tile sizes."""

import numpy as np
import pytest

from runtime.layout.winograd import INPUT_TRANSFORM, OUTPUT_TRANSFORM, TILES, transform_filter


@pytest.mark.parametrize("tile", TILES)
def test_a_tile_equals_the_direct_convolution(tile):
    rng = np.random.default_rng(tile)
    alpha = tile + 2
    weights, data = rng.standard_normal((5, 3, 3, 3)), rng.standard_normal((3, alpha, alpha))
    before, after = INPUT_TRANSFORM[tile], OUTPUT_TRANSFORM[tile]
    product = np.einsum("oiuv,iuv->ouv", transform_filter(weights, tile), before @ data @ before.T)
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(after @ product @ after.T, np.einsum("oiuv,ihwuv->ohw", weights, windows), atol=1e-12)


@pytest.mark.parametrize("tile", TILES)
def test_transformed_filters_keep_their_element_type(tile):
    assert transform_filter(np.ones((1, 1, 3, 3), np.float32), tile).dtype == np.float32
