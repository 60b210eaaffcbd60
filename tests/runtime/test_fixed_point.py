"""Rounding by fixed point, of a model that says that its source does so, against plain integers of our own."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.convert import convert
from runtime.graph import Array
from runtime.oracle.evaluate import evaluate
from runtime.semantics import fixed_point
from runtime.semantics.fixed_point_softmax import softmax
from tests.runtime.fixed_point_models import B_STEP, B_ZERO, SHAPE, X_STEP, X_ZERO, Y_STEP, Y_ZERO, drawn_weights, model

RANDOM = np.random.default_rng(11)


def truncated(numerator: int, denominator: int) -> int:
    """As C divides."""
    return int(math.copysign(1, numerator)) * (abs(numerator) // denominator)


def multiplier_of(real: float) -> tuple[int, int]:
    mantissa, shift = math.frexp(real)
    whole = math.floor(abs(mantissa) * 2**31 + 0.5)
    return int(math.copysign(whole, real)), shift


def high_half(a: int, b: int) -> int:
    product = a * b
    return truncated(product + (2**30 if product >= 0 else 1 - 2**30), 2**31)


def divided_by_power(x: int, exponent: int) -> int:
    mask = 2**exponent - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def scaled(x: int, real: float) -> int:
    """The product, rounded twice."""
    multiplier, shift = multiplier_of(real)
    return divided_by_power(high_half(x << max(shift, 0), multiplier), max(-shift, 0))


def halves_away(total: int, count: int) -> int:
    return truncated(total + count // 2 if total > 0 else total - count // 2, count)


@pytest.mark.parametrize("real", [0.00071, 0.5, 0.9999999999, 1.0, 3.7, -0.13, 2.0**-40])
def test_products_are_rounded_twice(real: float) -> None:
    values = np.concatenate([np.arange(-700, 700), RANDOM.integers(-(2**24), 2**24, 500)])
    found = fixed_point.multiply(values, *fixed_point.quantized_multiplier(real))
    np.testing.assert_array_equal(found, [scaled(int(x), real) if abs(real) > 2**-32 else 0 for x in values])


def test_a_product_that_is_rounded_once_differs() -> None:
    values, factor = np.arange(-(2**16), 2**16), fixed_point.quantized_multiplier(3 / 2**10)
    once, twice = fixed_point.multiply_once(values, *factor), fixed_point.multiply(values, *factor)
    np.testing.assert_array_equal(once, [(int(x) * 3 + 2**9) >> 10 for x in values])
    assert 0 < np.count_nonzero(once != twice) < values.size // 50
    assert np.abs(once - twice).max() == 1


def test_quotients_round_halves_away_from_zero() -> None:
    found = fixed_point.divided(np.arange(-100, 101), 8)
    np.testing.assert_array_equal(found, [halves_away(total, 8) for total in range(-100, 101)])


@pytest.mark.parametrize(("count", "step"), [(5, 0.01), (40, 0.11), (300, 0.6)])
def test_softmax_is_within_a_step_of_that_in_floats(count: int, step: float) -> None:
    values = RANDOM.integers(-128, 128, (50, count))
    real = np.exp((values - values.max(1, keepdims=True)) * step)
    found = softmax(values, step, 256)
    assert np.abs(found - 256 * real / real.sum(1, keepdims=True)).max() < 0.51


def test_hard_swish_is_near_that_in_floats() -> None:
    values = np.arange(-128, 128)
    real = values * 0.05 * np.clip(values * 0.05 + 3, 0, 6) / 6
    found = fixed_point.hard_swish(values, 0.05, 0.03)
    assert np.abs(found - real / 0.03).max() < 1.1


def test_weights_of_interpolation() -> None:
    np.testing.assert_array_equal(
        fixed_point.interpolation_weights(2, 4, "half_pixel"), [[1024, 0], [768, 256], [256, 768], [0, 1024]]
    )
    third = fixed_point.interpolation_weights(4, 3, "align_corners")
    np.testing.assert_array_equal(third, [[1024, 0, 0, 0], [0, 512, 512, 0], [0, 0, 0, 1024]])


# --- graphs ---


def results(op: str, weights: dict[str, Array], inputs: dict[str, Array], **attributes: Any) -> tuple[Array, Array]:
    """By fixed point, and as ONNX rounds."""
    graphs = [convert(model(op, weights, fixed, **attributes))[0] for fixed in (True, False)]
    fixed, plain = (evaluate(graph, {n: inputs[n] for n in graph.inputs})["y"] for graph in graphs)
    assert fixed.dtype == plain.dtype == np.int8
    assert np.abs(fixed.astype(int) - plain).max() <= 1
    return fixed, plain


def drawn() -> dict[str, Array]:
    return {name: RANDOM.integers(-128, 128, SHAPE).astype(np.int8) for name in ("x", "b")}


def stored(whole: Array) -> Array:
    return np.clip(whole + int(Y_ZERO), -128, 127).astype(np.int8)


def both(inputs: dict[str, Array], function: Callable[[int, int], int]) -> Array:
    pairs = zip(inputs["x"].flat, inputs["b"].flat, strict=True)
    found = [function(int(x) - int(X_ZERO), int(b) - int(B_ZERO)) for x, b in pairs]
    return stored(np.array(found).reshape(SHAPE))


@pytest.mark.parametrize(("op", "sign"), [("Add", 1), ("Sub", -1)])
def test_sums(op: str, sign: int) -> None:
    inputs, twice = drawn(), 2 * float(B_STEP)
    by_x, by_b, of_sum = (float(X_STEP) / twice, float(B_STEP) / twice, twice / (2**20 * float(Y_STEP)))
    fixed, _ = results(op, {}, inputs)
    expected = both(inputs, lambda x, b: scaled(scaled(x << 20, by_x) + sign * scaled(b << 20, by_b), of_sum))
    np.testing.assert_array_equal(fixed, expected)


def test_products_of_two_tensors() -> None:
    inputs = drawn()
    fixed, plain = results("Mul", {}, inputs)
    real = float(X_STEP * B_STEP / Y_STEP)
    np.testing.assert_array_equal(fixed, both(inputs, lambda x, b: scaled(x * b, real)))
    assert (fixed != plain).any()


@pytest.mark.parametrize("groups", [1, 16])
def test_convolutions(groups: int) -> None:
    weights = drawn_weights(16, 16 // groups, 1, 1)
    inputs = drawn()
    fixed, plain = results("Conv", weights, inputs, group=groups)
    x, w = inputs["x"][0].astype(int) - int(X_ZERO), weights["w"][:, :, 0, 0].astype(int)
    sums = np.einsum("oi,ihw->ohw", w, x) if groups == 1 else w[:, 0, None, None] * x
    sums += weights["c"][:, None, None]
    reals = weights["ws"].astype(float) * float(X_STEP) / float(Y_STEP)
    expected = [[scaled(int(s), real) for s in plane.flat] for plane, real in zip(sums, reals, strict=True)]
    np.testing.assert_array_equal(fixed[0].reshape(16, -1), stored(np.array(expected)))
    assert (fixed != plain).any()


def test_means() -> None:
    inputs = drawn()
    fixed, _ = results("ReduceMean", {}, inputs, axes=[2, 3])
    sums = inputs["x"][0].astype(int).sum(axis=(1, 2)) - 64 * int(X_ZERO)
    multiplier, shift = multiplier_of(float(X_STEP) / float(Y_STEP))
    found = [divided_by_power(high_half(int(s), (multiplier << 6) // 64), 6 - shift) for s in sums]
    np.testing.assert_array_equal(fixed[0, :, 0, 0], stored(np.array(found)))


def test_a_leaky_relu() -> None:
    inputs = drawn()
    fixed, plain = results("LeakyRelu", {}, inputs, alpha=0.1)
    slope, real = float(X_STEP * np.float32(0.1) / Y_STEP), float(X_STEP) / float(Y_STEP)
    expected = both(inputs, lambda x, _: scaled(x, slope if x < 0 else real))
    np.testing.assert_array_equal(fixed, expected)
    assert (fixed != plain).any()


def test_what_the_source_computes_in_floats_is_rounded_as_floats() -> None:
    made = model("LeakyRelu", {}, True, alpha=0.1)
    made.metadata_props[0].value = json.dumps(["r"])
    x = drawn()["x"]
    plain = evaluate(convert(model("LeakyRelu", {}, False, alpha=0.1))[0], {"x": x})["y"]
    np.testing.assert_array_equal(evaluate(convert(made)[0], {"x": x})["y"], plain)
