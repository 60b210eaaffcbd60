"""Small graphs of generic operators, one case each, for every test that runs them."""

import dataclasses
from collections.abc import Callable

import numpy as np

from runtime.semantics.functions import (
    CumulationFunction,
    ElementFunction,
    ReductionFunction,
    RegionFunction,
    UpdateFunction,
    function_names,
)
from tests.runtime.graphs import GraphMaker

Build = Callable[[GraphMaker], str]
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REAL = ("float32", "float16", "float64", "bfloat16")
_REAL_ONLY = function_names(ElementFunction)[ElementFunction.CEIL : ElementFunction.IS_INF + 1]
_TRUTHS = ("is_nan", "is_inf", "not", "and", "or", "xor", *function_names(ElementFunction)[ElementFunction.EQUAL : -1])
_WHOLE_ONLY = ("bit_not", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")


@dataclasses.dataclass(frozen=True)
class GenericCase:
    """A graph with one output, built anew for each test."""

    name: str
    ops: tuple[str, ...]
    build: Build

    def __str__(self) -> str:
        return self.name

    def graph(self) -> GraphMaker:
        """The maker whose graph is finished."""
        make = GraphMaker()
        make.finish(self.build(make))
        return make


def _element(function: str, operands: int, dtype: str) -> GenericCase:
    def build(make: GraphMaker) -> str:
        shapes = [(2, 3, 4), (3, 1), (4,)][:operands]
        types = ["bool" if function == "where" else dtype, dtype, dtype]
        inputs = [make.input(*shape, dtype=kind) for shape, kind in zip(shapes, types, strict=False)]
        out = "bool" if function in _TRUTHS else dtype
        form = {"function": function, "dtype": out, "alpha": 1.0, "beta": 1.0}
        return make.add("Elementwise", *inputs, **form)

    return GenericCase(f"{function}-{dtype}", ("Elementwise",), build)


def _operands(function: str) -> int:
    return 3 if function == "where" else 2 if ElementFunction[function.upper()] >= ElementFunction.ADD else 1


def _elements() -> list[GenericCase]:
    cases = []
    for function in function_names(ElementFunction):
        types = ["float32", "int64", "int8", "uint64"]
        if function in _REAL_ONLY:
            types = ["float32", "float16", "float64", "bfloat16"]
        elif function in _WHOLE_ONLY:
            types = ["uint8", "int32", "uint64"]
        cases += [_element(function, _operands(function), dtype) for dtype in types]
    return cases


def _cast(source: str, target: str) -> GenericCase:
    def build(make: GraphMaker) -> str:
        x = make.input(3, 70, dtype=source)
        return make.add("Elementwise", x, function="cast", dtype=target, alpha=0.0, beta=0.0)

    return GenericCase(f"cast-{source}-{target}", ("Elementwise",), build)


def _reduction(function: str, dtype: str) -> GenericCase:
    def build(make: GraphMaker) -> str:
        x = make.input(2, 5, 6, dtype=dtype)
        out = "int64" if function.startswith("arg") else dtype
        windows = {"shape": (2, 2, 2), "window": (2, 3), "strides": (30, 12, 2, 6, 1), "offset": 1}
        return make.add("StridedReduction", x, function=function, dtype=out, **windows)

    return GenericCase(f"{function}-{dtype}", ("StridedReduction",), build)


def _product(dtype: str) -> GenericCase:
    def build(make: GraphMaker) -> str:
        a, b = make.input(2, 3, 300, dtype=dtype), make.input(300, 5, dtype=dtype)
        loops = {"shape": (2, 3, 5), "summed": (300,)}
        return make.add("StridedProduct", a, b, a_strides=(900, 300, 0, 1), b_strides=(0, 0, 1, 5), **loops)

    return GenericCase(f"product-{dtype}", ("StridedProduct",), build)


def _movement(dtype: str) -> GenericCase:
    def build(make: GraphMaker) -> str:
        x, other = make.input(4, 5, dtype=dtype), make.input(2, 4, dtype=dtype)
        mirrored = make.add("Strided", x, shape=(5, 2), strides=(-1, 5), offset=9)
        wide = make.add("Embedding", mirrored, shape=(10, 4), starts=(1, 1), steps=(2, 1), value=1.0)
        part = make.add("Strided", wide, shape=(3, 4), strides=(4, 1), offset=4)
        return make.add("Join", part, other, part, axis=0)

    return GenericCase(f"movement-{dtype}", ("Strided", "Embedding", "Join"), build)


def _cumulation(function: str, dtype: str, exclusive: bool, reverse: bool) -> GenericCase:
    def build(make: GraphMaker) -> str:
        x = make.input(3, 4, 2, dtype=dtype)
        return make.add("Cumulation", x, function=function, axis=1, exclusive=exclusive, reverse=reverse)

    return GenericCase(f"cumulated-{function}-{dtype}-{exclusive}-{reverse}", ("Cumulation",), build)


def _sorting(dtype: str, largest: bool, positions: bool) -> GenericCase:
    def build(make: GraphMaker) -> str:
        x = make.input(3, 17, 2, dtype=dtype)
        return make.add("Sorting", x, axis=1, count=5, largest=largest, positions=positions)

    return GenericCase(f"sorted-{dtype}-{largest}-{positions}", ("Sorting",), build)


def _few_of_many(dtype: str, largest: bool, count: int) -> GenericCase:
    """The first of long rows, of few values: which of equal ones come first is told by their places."""

    def build(make: GraphMaker) -> str:
        x = make.input(2, 1700, dtype=dtype)
        if dtype == "float32":
            x = make.add("Round", make.add("Mul", x, make.graph.add_constant("factor", np.asarray(9, np.float32))))
        return make.add("Sorting", x, axis=1, count=count, largest=largest, positions=True)

    return GenericCase(f"first-{count}-{dtype}-{largest}", ("Sorting",), build)


def _indexed(dtype: str, function: str) -> GenericCase:
    """Reads rows of a table by indices, some of them negative, and writes them back to others."""

    def build(make: GraphMaker) -> str:
        table = make.input(6, 4, dtype=dtype)
        rows = make.graph.add_constant("rows", np.asarray([[0, -1, 2], [5, 2, -6]]))
        places = {"shape": (2, 3, 4), "strides": (0, 0, 1), "index_strides": (3, 1, 0), "component_stride": 0}
        limits = {"limits": (6,), "limit_strides": (4,)}
        read = make.add("IndexedRead", table, rows, **places, **limits)
        return make.add("IndexedWrite", table, rows, read, function=function, **places, **limits)

    return GenericCase(f"indexed-{function}-{dtype}", ("IndexedRead", "IndexedWrite"), build)


def _suppression(dtype: str, centred: bool, limit: float) -> GenericCase:
    def build(make: GraphMaker) -> str:
        boxes, scores = make.input(2, 17, 4, dtype=dtype), make.input(2, 3, 17, dtype=dtype)
        limits = [make.graph.add_constant("limit", np.asarray([value], np.float32)) for value in (limit, -0.3)]
        return make.add("Suppression", boxes, scores, *limits, count=7, centred=centred, dtype="int64")

    return GenericCase(f"suppressed-{dtype}-{centred}-{limit}", ("Suppression",), build)


def _many_boxes(spread: float) -> GenericCase:
    """Small boxes of many places along either axis, as those of classes that are moved apart."""

    def build(make: GraphMaker) -> str:
        places = np.random.default_rng(3).integers(0, 40, (1, 700, 2)) * np.asarray((spread, 1 / spread))
        moved = make.graph.add_constant("places", np.concatenate([places, places], 2).astype(np.float32))
        boxes = make.add("Add", make.input(1, 700, 4), moved)
        limits = [make.graph.add_constant("limit", np.asarray([value], np.float32)) for value in (0.1, -0.9)]
        return make.add("Suppression", boxes, make.input(1, 1, 700), *limits, count=700, centred=False, dtype="int64")

    return GenericCase(f"suppressed-apart-{spread}", ("Suppression",), build)


REGIONS = (
    (1, 2, 9, 7), (0, 0, 12, 8), (-3, -2, 4, 5), (5.5, 3.5, 6.5, 3.75), (9, 6, 30, 21), (7, 5, 2, 1),
    (3, 3, 3, 3), (40, 40, 50, 50), (0, np.nan, 5, 5), (1, 1, np.inf, 4), (-90, 1, 90, 3), (2.5, 1.5, 7.5, 5.5),
)  # fmt: skip


def _region_pooling(function: str, samples: int, scale: float, grouped: bool) -> GenericCase:
    def build(make: GraphMaker) -> str:
        x = make.input(2, 12, 7, 11)
        regions = make.graph.add_constant("regions", np.asarray(REGIONS, np.float32))
        images = make.graph.add_constant("images", np.arange(len(REGIONS)) % 2)
        form = {"function": function, "samples": samples, "scale": scale, "shift": 0.5 * grouped, "smallest": 1.0}
        return make.add("RegionPooling", x, regions, images, bins=(2, 3), grouped=grouped, **form)

    name = f"regions-{function}-{samples}-{scale}-{grouped}"
    return GenericCase(name, ("RegionPooling",), build)


GENERIC_CASES = (
    *_elements(),
    *(_cast(source, target) for source in ("float32", "int32", "uint8") for target in (*WHOLE, *REAL, "bool")),
    *(
        _reduction(function, dtype)
        for function in function_names(ReductionFunction)
        for dtype in ("float32", "int32", "uint8")
    ),
    *(_product(dtype) for dtype in ("float32", "int32", "int64", "float64")),
    *(_movement(dtype) for dtype in (*WHOLE, *REAL, "bool")),
    *(
        _cumulation(function, dtype, exclusive, reverse)
        for function in function_names(CumulationFunction)
        for dtype in ("float64", "int32")
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    *(
        _sorting(dtype, largest, positions)
        for dtype in ("float32", "int8", "uint64")
        for largest in (False, True)
        for positions in (False, True)
    ),
    *(
        _few_of_many(dtype, largest, count)
        for dtype in ("float32", "uint8", "bool", "int32")
        for largest in (False, True)
        for count in (1, 300, 1699)
    ),
    *(_many_boxes(spread) for spread in (0.2, 5.0)),
    *(
        _indexed(dtype, function)
        for function in function_names(UpdateFunction)
        for dtype in ("float32", "int64", "uint8")
    ),
    *(
        _suppression(dtype, centred, limit)
        for dtype in ("float32", "float64", "float16")
        for centred in (False, True)
        for limit in (0.0, 0.25)
    ),
    *(
        _region_pooling(function, samples, scale, grouped)
        for function in function_names(RegionFunction)
        for samples in ((0, 2, 3) if "samples" in function else (0,))
        for scale in (1.0, 0.375)
        for grouped in (False, True)
    ),
)
