"""The formulas and examples of docs/layouts.md, evaluated against the code that lays tensors out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.layout.arrangement import Shape
from runtime.layout.storage import (
    BLOCKS,
    FORMATS,
    PACKINGS,
    ROW_MAJOR,
    StorageFormat,
    TensorStorage,
    blocked,
    rows_in_blocks,
    to_storage,
)
from runtime.types import Origin, OriginFormat

DOCUMENT = Path(__file__).parents[2] / "docs" / "layouts.md"
LETTERS = {"conv_filter": "oihw", "depthwise_filter": "cmhw", "argument": "c", "packed_rowsB": "grk"}
SHAPES: dict[str, list[Shape]] = {
    "nchw": [(2, 6, 3, 5), (1, 1, 1, 1), (3, 17, 2, 2), (1, 8, 4, 3)],
    "oihw": [(5, 3, 2, 3), (8, 4, 1, 1), (1, 9, 3, 3)],
    "cmhw": [(6, 1, 3, 2), (4, 1, 1, 1)],
    "c": [(1,), (4,), (11,)],
    "grk": [(2, 5, 3), (1, 64, 2), (3, 17, 1)],
}


def rows(columns: str) -> Iterator[dict[str, str]]:
    """The rows of all tables with these columns, by column."""
    names = columns.split(" | ")
    lines = iter(DOCUMENT.read_text().splitlines())
    for line in lines:
        if line == f"| {columns} |":
            next(lines)
            while (row := next(lines, "")).startswith("|"):
                yield dict(zip(names, (cell.strip() for cell in row.strip("|").split("|")), strict=True))


OFFSETS = {row["format"].strip("`"): row for row in rows("format | shape in memory | offset in elements | who uses it")}
PIXELS = {row["format"].strip("`"): row for row in rows("format | width | height | x | y | component | who uses it")}


def formats_of(name: str) -> list[tuple[StorageFormat, int]]:
    """The storage formats that a row of the document speaks of, and B of each."""
    if name == "nchwBc":
        return [(blocked(block), block) for block in BLOCKS]
    if name == "packed_rowsB":
        return [(rows_in_blocks(block), block) for block in PACKINGS]
    return [(FORMATS[name], 0)]


def value(formula: str, names: dict[str, int]) -> int:
    """A formula of the document in whole numbers."""
    code = formula.strip("`")
    assert re.fullmatch(r"[\w\s+*/%(),-]+", code)
    found = eval(code, {"__builtins__": {}, "ceil": math.ceil}, dict(names))
    assert found == int(found)
    return int(found)


def cases(name: str) -> Iterator[tuple[StorageFormat, Shape, dict[str, int]]]:
    letters = LETTERS.get(name, "nchw")
    for form, block in formats_of(name):
        for shape in SHAPES[letters]:
            yield (
                form,
                shape,
                {letter.upper(): size for letter, size in zip(letters, shape, strict=True)} | {"B": block},
            )


def memory_of(form: StorageFormat, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """A tensor whose elements are all different and none zero, and its memory."""
    tensor = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    return tensor, to_storage(tensor, TensorStorage(Origin(OriginFormat.ND, shape), form))


def test_every_format_is_in_the_document() -> None:
    described = {form for name in (*OFFSETS, *PIXELS) for form, _ in formats_of(name)}
    assert described | {ROW_MAJOR} == set(FORMATS.values())
    assert "`row_major`" in DOCUMENT.read_text()


@pytest.mark.parametrize("name", OFFSETS)
def test_elements_of_buffers_lie_at_the_offset_of_the_formula(name: str) -> None:
    row, letters = OFFSETS[name], LETTERS.get(name, "nchw")
    for form, shape, extents in cases(name):
        tensor, memory = memory_of(form, shape)
        assert memory.shape == tuple(value(part, extents) for part in row["shape in memory"].strip("`").split(", "))
        for index in np.ndindex(shape):
            offset = value(row["offset in elements"], extents | dict(zip(letters, index, strict=True)))
            assert memory.reshape(-1)[offset] == tensor[index]
        assert np.count_nonzero(memory) == tensor.size


@pytest.mark.parametrize("name", PIXELS)
def test_elements_of_images_lie_in_the_pixel_of_the_formula(name: str) -> None:
    row, letters = PIXELS[name], LETTERS.get(name, "nchw")
    for form, shape, extents in cases(name):
        tensor, pixels = memory_of(form, shape)
        assert pixels.shape == (value(row["height"], extents), value(row["width"], extents), 4)
        for index in np.ndindex(shape):
            at = extents | dict(zip(letters, index, strict=True))
            x, y, component = (value(row[column], at) for column in ("x", "y", "component"))
            assert pixels[y, x, component] == tensor[index]
        assert np.count_nonzero(pixels) == tensor.size


EXAMPLES = list(rows("format | tensor | element | lies at"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["format"].strip("`") for example in EXAMPLES])
def test_the_worked_examples_are_right(example: dict[str, str]) -> None:
    shape, index = (tuple(map(int, re.findall(r"\d+", example[column]))) for column in ("tensor", "element"))
    tensor, memory = memory_of(FORMATS[example["format"].strip("`")], shape)
    numbers = list(map(int, re.findall(r"\d+", example["lies at"])))
    if memory.ndim == 3 and example["lies at"].startswith("pixel"):
        x, y, component, width, height = numbers
        assert (memory.shape, memory[y, x, component]) == ((height, width, 4), tensor[index])
    else:
        offset, size = numbers
        assert (memory.size, memory.reshape(-1)[offset]) == (size, tensor[index])


def test_buffers_and_images_have_examples() -> None:
    assert {example["lies at"].split()[0] for example in EXAMPLES} == {"offset", "pixel"}
