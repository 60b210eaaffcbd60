"""What tests launch the kernels of indexed reads and of elements of any type with, and what they compute."""

from __future__ import annotations

import numpy as np

from runtime.oracle.evaluate import compute
from runtime.semantics.functions import ElementFunction
from runtime.types import ELEMENT_NAMES, ElementType
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, indexed, nest
from tests.runtime.kernel_cases import TABLE, Case, numbered

FAR = 1 << 32  # an index whose low word alone would be in range


def gather(
    extents: tuple[int, ...],
    xs: tuple[int, ...],
    ks: tuple[int, ...],
    counted: tuple[int, int],
    chosen: tuple[int, ...],
    words: int = 1,
) -> Case:
    """`counted`: elements of the axis that indices count, and its stride."""
    lead = 4 - len(extents)
    dims = numbered("d", (1,) * lead + extents)
    dims |= numbered("xs", (0,) * lead + xs) | numbered("ks", (0,) * lead + ks)
    dims |= {"limit": counted[0], "step": counted[1]}
    table = np.array(chosen, np.int64 if words == 2 else np.int32).view(np.int32)
    defines = {"INDEX_WORDS": words, "RUNS": int((xs[-1], ks[-1]) == (1, 0))}
    return Case(TABLE["gather"], dims, defines, tables={"k": tuple(map(int, table))})


def compute_gather(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    limit, step, extents = dims["limit"], dims["step"], indexed(dims, "d", 4)
    chosen = arrays["k"].view(np.int64 if defines["INDEX_WORDS"] == 2 else np.int32)
    index = nest(chosen.astype(np.int64), extents, indexed(dims, "ks", 4))
    each = nest(arrays["x"], [*extents, limit], [*indexed(dims, "xs", 4), step])
    found = np.take_along_axis(each, (index % limit)[..., None], axis=-1)[..., 0]
    return np.where((index >= -limit) & (index < limit), found, np.nan)


def elements(function: ElementFunction, *types: ElementType, strides: tuple[tuple[int, ...], ...] = ()) -> Case:
    """Of two rows of 37; the last type is the result's. `strides`: of a, b and c along both loops."""
    operands = (*types[:-1], *[types[-2]] * (4 - len(types)), types[-1])
    dims = numbered("d", (1, 1, 2, 37)) | numbered("ys", (0, 0, 37, 1))
    for name, own in zip("abc", strides or ((37, 1),) * 3, strict=True):
        dims |= numbered(f"{name}s", (0, 0, *own))
    computed = types[1:] if function == ElementFunction.WHERE else types[:-1]
    defines = {"ELEMENT": int(function), "REAL": int(function.is_of_reals or REAL in computed)}
    defines |= {f"{name.upper()}_TYPE": int(kind) for name, kind in zip("abcy", operands, strict=True)}
    return Case(TABLE["elements"], dims, defines, {"alpha": 0.0, "beta": 1.0})


def compute_elements(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    function = ElementFunction(defines["ELEMENT"])
    operands = []
    for name, _ in zip("abc", range(function.operands), strict=False):
        known = np.float64 if defines[f"{name.upper()}_TYPE"] == REAL else np.int64
        values = nest(arrays[name], indexed(dims, "d", 4), indexed(dims, f"{name}s", 4))
        operands.append(values.astype(known))
    attributes = {"function": function.name.lower(), "dtype": ELEMENT_NAMES[ElementType(defines["Y_TYPE"])], **floats}
    return np.asarray(compute("Elementwise", operands, attributes), np.float64)


REAL, WHOLE, LONG, TRUTH = ElementType.F32, ElementType.I32, ElementType.I64, ElementType.BOOL
CASES = {
    **{
        f"elements {function.name.lower()}": elements(function, LONG, LONG, LONG)
        for function in (ElementFunction.MUL, ElementFunction.MAX)
    },
    "elements add": elements(ElementFunction.ADD, WHOLE, WHOLE, WHOLE, strides=((0, 1), (1, 0), (0, 0))),
    "elements cast": elements(ElementFunction.CAST, REAL, LONG),
    "elements cast to floats": elements(ElementFunction.CAST, TRUTH, REAL),
    "elements is_inf": elements(ElementFunction.IS_INF, REAL, TRUTH),
    "elements less_or_equal": elements(
        ElementFunction.LESS_OR_EQUAL, REAL, REAL, TRUTH, strides=((37, 1), (0, 0), (0, 0))
    ),
    "elements and": elements(ElementFunction.AND, TRUTH, TRUTH, TRUTH),
    "elements where": elements(ElementFunction.WHERE, TRUTH, REAL, REAL, REAL, strides=((0, 1), (37, 1), (0, 0))),
    "elements where of longs": elements(ElementFunction.WHERE, TRUTH, LONG, LONG, LONG),
    "gather rows": gather((4, 19), (0, 1), (1, 0), (6, 19), (5, -6, 0, -1)),
    "gather rows by long indices": gather((5, 33), (0, 1), (1, 0), (3, 33), (-3, 2, FAR, 3, FAR - 1), words=2),
    "gather out of range": gather((3, 35), (0, 1), (1, 0), (4, 35), (4, -5, 3)),
    "gather columns": gather((3, 37), (5, 0), (0, 1), (5, 1), tuple(n % 7 - 3 for n in range(37))),
    "gather an element each": gather(
        (2, 3, 2, 5), (60, 0, 5, 1), (30, 10, 5, 1), (4, 10), tuple(n % 8 - 4 for n in range(60))
    ),
}
ORACLES = {"gather": compute_gather, "elements": compute_elements}
