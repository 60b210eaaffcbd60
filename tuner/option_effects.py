"""Predicts untried variants by their options: each option's value makes a variant slower by a factor of its own.

In logarithms such effects add up: a ridge regression on one column for each value of each option (A. Hoerl and
R. Kennard, 1970), fitted to how far the variants that were tried are behind the best. What no variant has shown yet
has no effect, so a prediction errs towards trying.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from runtime.kernels.spec import Variant

_LEAST_VARIANTS = 6  # tried, until options say anything
_RIDGE = 0.3  # pull of each effect towards none, in variants
_FAR_BEHIND = math.log(1.6)  # by a prediction that errs by its usual amount: not worth a build

Floats = npt.NDArray[np.float64]


def is_far_behind(variant: Variant, gaps: Mapping[Variant, float]) -> bool:
    """Whether a variant that was not tried is not worth a build; `gaps` of those that were, in logarithms."""
    if len(gaps) < _LEAST_VARIANTS:
        return False
    tried = list(gaps)
    values = sorted({option for each in tried for option in each.defines})
    observed = np.array([gaps[each] for each in tried])
    columns = np.array([_columns(each, values) for each in tried])
    effects = np.linalg.solve(columns.T @ columns + _RIDGE * np.eye(len(values)), columns.T @ observed)
    error = float(np.sqrt(np.mean((columns @ effects - observed) ** 2)))
    return float(_columns(variant, values) @ effects) - error > _FAR_BEHIND


def _columns(variant: Variant, values: list[tuple[str, int]]) -> Floats:
    return np.array([value in variant.defines for value in values], np.float64)
