"""Metrics of outputs against hand-made cases: what passes, what fails, and what NaN and infinity do."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from farm.model.arithmetic_limits import longest_sum
from farm.model.metrics import (
    DEFAULT_THRESHOLDS,
    SQNR_LIMIT_DB,
    Thresholds,
    compare,
    default_thresholds,
    for_sums,
    judge_output,
    noise_excess,
    thresholds_of_similarity,
    worst,
)
from farm.rows.status import Status
from runtime.types import Precision
from tests.runtime.graphs import GraphMaker

STRICT = Thresholds(0.9999, 60.0, 1e-3)
ANYTHING = Thresholds(-1.0, -SQNR_LIMIT_DB, math.inf)

finite = arrays(np.float32, array_shapes(max_dims=4, max_side=4), elements=st.floats(-(2.0**100), 2.0**100, width=32))


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.slow
@given(finite)
def test_an_array_agrees_with_itself(x: np.ndarray) -> None:
    found = judge_output(x, x.copy(), STRICT)
    is_constant = x.size > 1 and bool((x == x.flat[0]).all())
    assert (found.status, bool(found.reason)) == (Status.OK, is_constant)
    assert found.metrics is not None
    assert found.metrics.cosine == pytest.approx(1.0) and found.metrics.sqnr_db == SQNR_LIMIT_DB
    assert found.metrics.max_abs_error == found.metrics.max_rel_error == 0.0
    assert found.metrics.pixel_accuracy == 1.0


@given(finite, st.data())
def test_a_nan_alone_never_passes(x: np.ndarray, data: st.DataObject) -> None:
    spoiled = x.copy()
    spoiled.flat[data.draw(st.integers(0, x.size - 1))] = np.nan
    assert judge_output(x, spoiled, ANYTHING).status == Status.WRONG_RESULT
    found = judge_output(spoiled, x, ANYTHING)
    assert (found.status, found.reason) == (Status.NO_REFERENCE, "the reference holds 1 NaN")
    assert judge_output(spoiled, spoiled, STRICT).status == Status.OK


def test_what_is_wrong_beside_an_expected_nan_is_wrong() -> None:
    assert judge_output(array(1, 2, np.nan), array(1, -2, np.nan), STRICT).status == Status.WRONG_RESULT


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (array(0.5, 0.5), "the reference is 0.5 everywhere, which is no evidence"),
        (array(np.nan, np.nan), "the reference holds no number, which is no evidence"),
        (array(1.0), ""),
        (array(1.0, 2.0), ""),
    ],
)
def test_a_reference_that_shows_nothing_says_so(expected: np.ndarray, reason: str) -> None:
    found = judge_output(expected, expected, STRICT)
    assert (found.status, found.reason) == (Status.OK, reason)
    assert judge_output(expected, expected + 1, STRICT).status == (
        Status.OK if np.isnan(expected).all() else "wrong_result"
    )


def test_metrics_of_a_known_case() -> None:
    metrics = compare(array(3.0, 4.0), array(4.0, 3.0))
    assert metrics.cosine == pytest.approx(24 / 25)
    assert metrics.sqnr_db == pytest.approx(10 * math.log10(25 / 2))
    assert metrics.max_abs_error == 1.0
    assert metrics.max_rel_error == pytest.approx(1 / 3)
    assert metrics.scaled_error == pytest.approx(0.25)
    assert metrics.pixel_accuracy == 0.0


@pytest.mark.parametrize(
    ("expected", "actual", "cosine", "sqnr_db"),
    [
        (array(0, 0), array(0, 0), 1.0, SQNR_LIMIT_DB),
        (array(0, 0), array(0, 1), 0.0, -SQNR_LIMIT_DB),
        (array(0, 1), array(0, 0), 0.0, 0.0),
        (array(1, 2), array(-1, -2), -1.0, 10 * math.log10(1 / 4)),
        (array(1e-38, 0), array(1e-38, 0), 1.0, SQNR_LIMIT_DB),
        (array(3e38, 3e38), array(3e38, 3e38), 1.0, SQNR_LIMIT_DB),
    ],
)
def test_the_cosine_of_zero_and_extreme_vectors_is_defined(
    expected: np.ndarray, actual: np.ndarray, cosine: float, sqnr_db: float
) -> None:
    metrics = compare(expected, actual)
    assert metrics.cosine == pytest.approx(cosine)
    assert metrics.sqnr_db == pytest.approx(sqnr_db)


def test_thresholds_follow_long_sums_alone() -> None:
    strict = default_thresholds("cpu", Precision.FP32)
    assert for_sums(strict, 1 << 24) == strict
    long = for_sums(strict, 1 << 27)
    assert (round(long.sqnr_db), round(long.scaled_error, 4), long.cosine) == (51, 0.0028, strict.cosine)


def test_the_longest_sum_of_a_graph() -> None:
    make = GraphMaker()
    x = make.conv(make.input(1, 6, 5, 5), 4, group=2)
    y = make.add("ReduceMean", x, axes=(2, 3), keepdims=True)
    assert longest_sum(make.finish(y)) == 3 * 3 * 3
    wide = make.add("ReduceSum", x, axes=(1, 2, 3), keepdims=True)
    assert longest_sum(make.finish(y, wide)) == 4 * 5 * 5


def test_a_zero_output_is_wrong() -> None:
    found = judge_output(array(0, 1), array(0, 0), STRICT)
    assert found.status == Status.WRONG_RESULT
    assert "cosine 0.000000 < 0.9999" in found.reason


def test_the_same_infinity_agrees_and_another_does_not() -> None:
    assert judge_output(array(1, np.inf), array(1, np.inf), STRICT).status == Status.OK
    for actual in (array(1, -np.inf), array(np.inf, np.inf), array(1, 7)):
        assert judge_output(array(1, np.inf), actual, STRICT).status == Status.WRONG_RESULT
    found = judge_output(array(1, 2), array(1, np.inf), ANYTHING)
    assert found.reason == "0 NaN and 1 unexpected infinities in the output"
    assert found.metrics is not None and found.metrics.sqnr_db == -SQNR_LIMIT_DB


def test_another_shape_is_wrong() -> None:
    found = judge_output(np.zeros((1, 3), np.float32), np.zeros((3, 1), np.float32), ANYTHING)
    assert found.status == Status.WRONG_RESULT and found.metrics is None
    assert found.reason == "shape (3, 1), expected (1, 3)"


def test_empty_and_scalar_arrays_are_compared() -> None:
    assert judge_output(np.zeros((0, 4)), np.zeros((0, 4)), STRICT).status == Status.OK
    assert judge_output(np.float32(2) * np.ones(()), np.ones(()), STRICT).status == Status.WRONG_RESULT


def test_a_wrong_scale_fails_though_its_cosine_is_one() -> None:
    x = np.random.default_rng(1).normal(size=100).astype(np.float32)
    found = judge_output(x, 2 * x, thresholds_of_similarity(0.9))
    assert found.metrics is not None and found.metrics.cosine == pytest.approx(1.0)
    assert found.status == Status.WRONG_RESULT and "SQNR" in found.reason


@pytest.mark.slow
def test_one_wrong_element_fails_though_cosine_and_sqnr_are_high() -> None:
    x = np.random.default_rng(1).normal(size=10**6).astype(np.float32)
    actual = x.copy()
    actual[5] += 0.5
    found = judge_output(x, actual, STRICT)
    assert found.metrics is not None and found.metrics.cosine > 0.9999 and found.metrics.sqnr_db > 60
    assert found.status == Status.WRONG_RESULT and found.reason.startswith("error 0.5 is")


@pytest.mark.slow
@given(st.floats(0.01, 0.99999))
def test_a_similarity_allows_noise_up_to_its_angle(similarity: float) -> None:
    tangent = math.sqrt(1 / similarity**2 - 1)
    expected = np.array([1.0, 0.0])
    thresholds = thresholds_of_similarity(similarity)
    assert judge_output(expected, np.array([1.0, tangent * 0.999]), thresholds).status == Status.OK
    assert judge_output(expected, np.array([1.0, tangent * 1.001]), thresholds).status == Status.WRONG_RESULT


@given(finite, st.integers(0, 99), st.sampled_from([1e-6, 1e-4, 1e-2, 0.1]), st.sampled_from([0.9, 0.999, 0.99999]))
def test_more_noise_than_allowed_is_what_fails(x: np.ndarray, seed: int, noise: float, similarity: float) -> None:
    actual = (x * (1.0 + noise * np.random.default_rng(seed).normal(size=x.shape))).astype(np.float32)
    for thresholds in (thresholds_of_similarity(similarity), STRICT, DEFAULT_THRESHOLDS["gpu", Precision.FP16]):
        found = judge_output(x, actual, thresholds)
        assert found.metrics is not None
        excess = noise_excess(found.metrics, thresholds)
        assert (excess <= 1.0) == (found.status == Status.OK) or excess == pytest.approx(1.0)


def test_the_excess_is_a_ratio_of_powers() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=10**4)
    orthogonal = random.normal(size=10**4)
    orthogonal -= x * (x @ orthogonal) / (x @ x)
    orthogonal *= np.linalg.norm(x) / np.linalg.norm(orthogonal)
    thresholds = thresholds_of_similarity(0.999)
    allowed = math.sqrt(1 / 0.999**2 - 1)
    for times in (0.5, 3.0, 20.0):
        found = compare(x, x + math.sqrt(times) * allowed * orthogonal)
        assert noise_excess(found, thresholds) == pytest.approx(times, rel=1e-3)
    assert noise_excess(compare(x, x * np.nan), thresholds) == math.inf


def test_pixels_are_compared_along_the_channels() -> None:
    expected = np.zeros((1, 2, 1, 4), np.float32)
    expected[0, 0] = [[9, 9, 1, 1]]
    expected[0, 1] = [[1, 1, 9, 9]]
    actual = expected.copy()
    actual[0, :, 0, 3] = [9, 1]
    assert compare(expected, actual).pixel_accuracy == 0.75
    nhwc = (0, 2, 3, 1)
    assert compare(expected.transpose(nhwc), actual.transpose(nhwc), channel_axis=3).pixel_accuracy == 0.75


def test_a_tie_may_go_either_way_and_a_nan_may_not() -> None:
    expected = array(5, 5, 1)
    assert compare(expected, array(4, 5, 1)).pixel_accuracy == 1.0
    assert compare(expected, array(4, 5, 6)).pixel_accuracy == 0.0
    assert compare(expected, array(5, 5, np.nan)).pixel_accuracy == 0.0


def test_relative_error_leaves_tiny_elements_out() -> None:
    assert compare(array(1000, 1e-6), array(1000, 2e-6)).max_rel_error == 0.0
    assert compare(array(1000, 2), array(1000, 3)).max_rel_error == pytest.approx(0.5)


def test_worst_takes_the_worst_of_each_figure() -> None:
    first, second = compare(array(1, 2), array(1, 2)), compare(array(1, 2), array(1, np.nan))
    merged = worst([first, second])
    assert merged is not None
    assert (merged.cosine, merged.nan_count, merged.max_abs_error) == (0.0, 1, math.inf)
    assert worst([]) is None


def test_thresholds_loosen_with_precision() -> None:
    order = [default_thresholds("gpu", precision) for precision in Precision]
    assert [row.sqnr_db for row in order] == sorted((row.sqnr_db for row in order), reverse=True)
    assert all(row.cosine > 0.98 for row in DEFAULT_THRESHOLDS.values())
