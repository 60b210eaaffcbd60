"""Packed rows hold each weight where their index formula says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.layout.buffer import pack_rows
from tests.runtime.unpacked import unpack_rows

EXTENT = st.integers(1, 6)


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
