"""Weights as integers with scales: found in floats whatever was done to them, and packed as documented."""

import gc

import numpy as np
import pytest

from runtime.graph import Array
from runtime.layout import integer_rows as found_rows
from runtime.layout.integer_rows import IntegerRows, integer_rows

RANDOM = np.random.default_rng(3)


def floats_of(rows: IntegerRows) -> Array:
    cols = rows.integers.shape[2]
    return rows.integers.astype(np.float32) * np.repeat(rows.scales, rows.group or cols, axis=2)


def weights(bits: int, group: int, shape: tuple[int, int, int] = (2, 24, 96)) -> Array:
    """As a quantiser makes them: the greatest of a group is the greatest integer."""
    values = RANDOM.standard_normal(shape).astype(np.float32)
    parted = values.reshape(-1, group or shape[2])
    scale = np.abs(parted).max(axis=1, keepdims=True) / np.float32(2 ** (bits - 1) - 1)
    return np.asarray((np.rint(parted / scale) * scale).reshape(shape), np.float32)


@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 0), (8, 32), (4, 16), (4, 32)])
def test_integers_are_found_again(bits: int, group: int) -> None:
    given = weights(bits, group)
    found = integer_rows(given)
    assert found is not None
    assert (found.bits, found.group) == (bits, group)
    np.testing.assert_allclose(floats_of(found), given, rtol=3e-7)


def test_a_factor_of_each_row_leaves_them_integers() -> None:
    """As folding a batch normalisation does."""
    given = weights(8, 0) * RANDOM.uniform(0.1, 9, (2, 24, 1)).astype(np.float32)
    found = integer_rows(given)
    assert found is not None and found.bits == 8
    np.testing.assert_allclose(floats_of(found), given, rtol=1e-6)


def test_the_least_integer_is_found_where_it_is_the_greatest_number() -> None:
    given = weights(8, 0)
    given[0, 0] = np.arange(-128, -32) * np.float32(0.01)
    found = integer_rows(given)
    assert found is not None
    assert found.integers[0, 0].tolist() == list(range(-128, -32))


def test_rows_of_zeros_and_of_few_values_are_integers_too() -> None:
    given = weights(8, 0)
    given[0, 3], given[1, 5] = 0, np.float32(0.3)
    found = integer_rows(given)
    assert found is not None
    np.testing.assert_allclose(floats_of(found), given, rtol=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        RANDOM.standard_normal((1, 40, 64)).astype(np.float32),
        np.rint(RANDOM.uniform(-200, 200, (1, 40, 64))).astype(np.float32),
        np.concatenate([weights(8, 0), RANDOM.standard_normal((2, 1, 96)).astype(np.float32)], axis=1),
        weights(8, 0, (1, 4, 32)),
    ],
    ids=["floats", "integers of more bits", "one row of floats", "few"],
)
def test_others_stay_floats(given: Array) -> None:
    assert integer_rows(given) is None


def test_what_was_found_is_kept_as_long_as_the_constant() -> None:
    constant, others = weights(8, 0)[0].copy(), len(found_rows._found)
    found = integer_rows(constant[None])
    assert found is not None and integer_rows(constant[None]) is found
    assert integer_rows(constant.T[None]) is not found and not constant.flags.writeable
    del constant, found
    gc.collect()
    assert len(found_rows._found) == others


def test_packed_eight_bits() -> None:
    found = integer_rows(weights(8, 32))
    assert found is not None
    blocks = found.packed(16).reshape(4, -1)  # of 24 rows in 2 groups
    scales, integers = blocks[:, : 3 * 16 * 4].copy().view(np.float32), blocks[:, 3 * 16 * 4 :]
    np.testing.assert_array_equal(scales.reshape(4, 3, 16)[1, :, :8], found.scales[0, 16:].T)
    np.testing.assert_array_equal(integers.reshape(4, 96, 16)[2], found.integers[1, :16].T)
    assert not integers.reshape(4, 96, 16)[1, :, 8:].any()


def test_packed_four_bits() -> None:
    found = integer_rows(weights(4, 0, (1, 16, 97)))
    assert found is not None
    pairs = found.packed(16)[16 * 4 :].view(np.uint8).reshape(49, 16)
    np.testing.assert_array_equal((pairs & 15).astype(int) - 8, found.integers[0, :, 0::2].T)
    np.testing.assert_array_equal((pairs >> 4).astype(int)[:48] - 8, found.integers[0, :, 1::2].T)


@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 0), (8, 16), (4, 32)])
def test_words_are_scales_and_integers(bits: int, group: int) -> None:
    found = integer_rows(weights(bits, group))
    assert found is not None
    words = found.words().reshape(2, 24, 96 // (group or 96), -1)
    np.testing.assert_array_equal(words[..., 0].copy().view(np.float32), found.scales)
    shifts = np.arange(0, 32, bits)
    parts = (words[..., 1:, None] >> shifts & (1 << bits) - 1).reshape(2, 24, 96)
    np.testing.assert_array_equal(parts - (parts >> bits - 1 << bits), found.integers)


def test_words_are_read_in_whole_words_and_groups() -> None:
    plain, grouped = integer_rows(weights(4, 0)), integer_rows(weights(8, 32))
    assert plain is not None and grouped is not None
    assert [plain.in_words(run) for run in (8, 12)] == [True, False]
    assert [grouped.in_words(run) for run in (32, 48)] == [True, False]


def test_a_row_whose_greatest_number_divides_128_is_integers_too() -> None:
    integers = np.random.default_rng(8).integers(-60, 61, (40, 32)).astype(np.float32)
    integers[:, 0], integers[3, 0] = 127, 64
    assert integer_rows(integers[None] * np.float32(0.01)) is not None


@pytest.mark.parametrize("zero", [0, 77, 128, 140, 255])
def test_integers_of_rows_with_zero_points_are_found_less_an_offset(zero: int) -> None:
    """And few are, too: of depthwise filters a row is one window."""
    whole = RANDOM.integers(0, 256, (1, 24, 9)) - zero
    whole[0, :2, :2] = -zero, 255 - zero
    scales = RANDOM.uniform(0.001, 0.9, (1, 24, 1)).astype(np.float32)
    given = whole.astype(np.float32) * scales
    found = integer_rows(given, has_offsets=True)
    assert found is not None and found.offsets is not None and found.integers.dtype == np.int8
    sums = found.integers + found.offsets[..., None]
    np.testing.assert_allclose(sums * found.scales, given, rtol=1e-6)
    assert integer_rows(given) is None


def test_integers_that_span_more_than_a_byte_are_none() -> None:
    given = np.float32(0.3) * np.arange(-130, 127, dtype=np.float32)[None, None]
    assert integer_rows(given, has_offsets=True) is None
