"""NHWC views and packed rows hold each element where their index formulas say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.layout.buffer import nhwc_size, nhwc_view, pack_rows, unpack_rows

EXTENT = st.integers(1, 6)


@pytest.mark.slow
@given(st.integers(1, 3), EXTENT, st.lists(EXTENT, max_size=3), st.integers(0, 5), st.integers(0, 7))
def test_nhwc_view_addresses_pixel_times_stride_plus_channel(batch, channels, spatial, more, offset):
    shape, stride = (batch, channels, *spatial), channels + more
    storage = np.arange(offset + nhwc_size(shape, stride), dtype=np.float32)
    view = nhwc_view(storage, shape, offset, stride)
    assert view.shape == shape
    for pixel, (n, *position) in enumerate(np.ndindex(batch, *spatial)):
        for c in range(channels):
            assert view[n, c, *position] == offset + pixel * stride + c


@pytest.mark.slow
@given(st.integers(1, 2), EXTENT, EXTENT, EXTENT)
def test_writing_an_nhwc_view_leaves_the_other_channels_alone(batch, channels, height, width):
    storage = np.full(batch * height * width * (channels + 2), -1, np.float32)
    nhwc_view(storage, (batch, channels, height, width), 1, channels + 2)[...] = 7
    pixels = storage.reshape(-1, channels + 2)
    assert (pixels[:, [0, -1]] == -1).all()
    assert (pixels[:, 1:-1] == 7).all()


@pytest.mark.parametrize(("offset", "stride"), [(1, 3), (0, 4), (-1, 3), (0, 2)])
def test_a_view_outside_its_storage_is_refused(offset, stride):
    with pytest.raises(ValueError, match=r"exceeds|stride"):
        nhwc_view(np.zeros(12, np.float32), (1, 3, 2, 2), offset, stride)


@given(st.integers(1, 3), st.integers(1, 20), EXTENT, st.sampled_from([1, 3, 4, 8, 16]))
def test_packed_rows_stand_at_group_block_column_lane(groups, rows, cols, block):
    weights = np.arange(1, groups * rows * cols + 1, dtype=np.float32).reshape(groups, rows, cols)
    packed = pack_rows(weights, block)
    count = (rows + block - 1) // block
    assert packed.shape == (groups * count * cols * block,)
    for position, value in enumerate(packed):
        lane, rest = position % block, position // block
        col, rest = rest % cols, rest // cols
        group, row = rest // count, rest % count * block + lane
        assert value == (weights[group, row, col] if row < rows else 0)
    np.testing.assert_array_equal(unpack_rows(packed, groups, rows, cols, block), weights)
