"""Rows of the strided CPU operators that the generic operators of one loop nest become."""

import dataclasses

from runtime.kernels.buffer.nests import indexed
from runtime.kernels.strided import code, strided_row
from runtime.semantics.functions import CumulationFunction, ElementFunction, ReductionFunction, UpdateFunction

COMPONENTS = 6  # of an index
_PLACES = " ".join(
    (
        f"components:1-{COMPONENTS} component_stride:any",
        indexed("limit", COMPONENTS, ":any"),
        indexed("limit_stride", COMPONENTS, ":any"),
    )
)
_FUNCTION = code("function", ElementFunction)

STRIDED_KERNELS = (
    strided_row("elements0", "y", _FUNCTION, "alpha beta"),
    strided_row("elements1", "a y", _FUNCTION, "alpha beta"),
    strided_row("elements2", "a b y", _FUNCTION, "alpha beta"),
    strided_row("elements3", "a b c y", _FUNCTION, "alpha beta"),
    strided_row("strided_reduction", "x y", code("function", ReductionFunction)),
    strided_row("strided_product", "a b y"),
    strided_row("cumulation", "x y", f"{code('function', CumulationFunction)} exclusive:0-1"),
    dataclasses.replace(strided_row("indexed_read", "x k y", _PLACES), picked=("x",)),
    strided_row("indexed_write", "k u y", f"{code('function', UpdateFunction)} {_PLACES}"),
)
