"""Layouts hold each element where formulas say: images of drawn shapes, packed rows, filters of Winograd."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.layout.arrangement import Shape
from runtime.layout.buffer import pack_rows
from runtime.layout.image import PIXELS, ImageLayout, image_size, to_image
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
from runtime.layout.winograd import INPUT_TRANSFORM, OUTPUT_TRANSFORM, TILES, transform_filter
from runtime.types import Origin, OriginFormat
from tests.runtime.unpacked import unpack_rows

EXTENT = st.integers(1, 9)
ACTIVATION = st.tuples(st.integers(1, 3), EXTENT, EXTENT, EXTENT)
SHAPES = {
    ImageLayout.CHANNEL_MAJOR: ACTIVATION,
    ImageLayout.HEIGHT_MAJOR: ACTIVATION,
    ImageLayout.WIDTH_MAJOR: ACTIVATION,
    ImageLayout.CONV_FILTER: st.tuples(EXTENT, EXTENT, st.integers(1, 4), st.integers(1, 4)),
    ImageLayout.DEPTHWISE_FILTER: st.tuples(EXTENT, st.just(1), st.integers(1, 5), st.integers(1, 5)),
    ImageLayout.ARGUMENT: st.tuples(st.integers(1, 40)),
}
CASES = st.sampled_from(sorted(SHAPES)).flatmap(lambda layout: st.tuples(st.just(layout), SHAPES[layout]))


def blocks(size):
    return (size + 3) // 4


def element(layout, shape, x, y, k):
    """The element's index that lies in component k of pixel (x, y), by the published formulas; may be outside."""
    if layout is ImageLayout.ARGUMENT:
        return (x * 4 + k,)
    height, width = shape[2:]
    match layout:
        case ImageLayout.CHANNEL_MAJOR:
            return (y // height, x // width * 4 + k, y % height, x % width)
        case ImageLayout.HEIGHT_MAJOR:
            return (y // blocks(height), x // width, y % blocks(height) * 4 + k, x % width)
        case ImageLayout.WIDTH_MAJOR:
            return (y // height, x // blocks(width), y % height, x % blocks(width) * 4 + k)
        case ImageLayout.CONV_FILTER:
            t = y % (height * width)
            return (y // (height * width) * 4 + k, x, t // width, t % width)
        case ImageLayout.DEPTHWISE_FILTER:
            return (y * 4 + k, 0, x // width, x % width)


def published_size(layout, shape):
    if layout is ImageLayout.ARGUMENT:
        return (blocks(shape[0]), 1)
    first, second, height, width = shape
    return {
        ImageLayout.CHANNEL_MAJOR: (width * blocks(second), first * height),
        ImageLayout.HEIGHT_MAJOR: (width * second, first * blocks(height)),
        ImageLayout.WIDTH_MAJOR: (blocks(width) * second, first * height),
        ImageLayout.CONV_FILTER: (blocks(second) * 4, height * width * blocks(first)),
        ImageLayout.DEPTHWISE_FILTER: (height * width, blocks(first)),
    }[layout]


def numbered(shape):
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@pytest.mark.slow
@given(CASES)
def test_every_component_of_every_pixel_holds_the_element_that_the_formula_names(case):
    layout, shape = case
    array = numbered(shape)
    pixels = to_image(array, layout)
    for y, x, k in np.ndindex(pixels.shape):
        index = element(layout, shape, x, y, k)
        inside = all(at < size for at, size in zip(index, shape, strict=True))
        assert pixels[y, x, k] == (array[index] if inside else 0), (x, y, k)


@given(CASES)
def test_size_is_the_published_one(case):
    layout, shape = case
    assert image_size(layout, shape) == published_size(layout, shape)
    width, height = image_size(layout, shape)
    assert to_image(numbered(shape), layout).shape == (height, width, 4)


@pytest.mark.slow
@given(CASES, st.integers(0, 3), st.integers(0, 3))
def test_the_tensor_comes_back_also_from_a_larger_image(case, more_width, more_height):
    layout, shape = case
    array = numbered(shape)
    pixels = np.pad(to_image(array, layout), ((0, more_height), (0, more_width), (0, 0)), constant_values=-1)
    width, height = image_size(layout, shape)
    np.testing.assert_array_equal(PIXELS[layout].arrangement.unpack(pixels[:height, :width], shape), array)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_element_type_is_kept(dtype):
    assert to_image(np.ones((1, 3, 2, 2), dtype), ImageLayout.CHANNEL_MAJOR).dtype == dtype


def test_a_depthwise_multiplier_is_refused():
    with pytest.raises(ValueError, match="multiplier"):
        image_size(ImageLayout.DEPTHWISE_FILTER, (8, 2, 3, 3))


def test_a_shape_of_another_rank_is_refused():
    with pytest.raises(ValueError, match="4 axes"):
        image_size(ImageLayout.CHANNEL_MAJOR, (8, 2, 3))


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


@pytest.mark.parametrize("tile", TILES)
def test_a_tile_equals_the_direct_convolution(tile):
    rng = np.random.default_rng(tile)
    alpha = tile + 2
    weights, data = rng.standard_normal((5, 3, 3, 3)), rng.standard_normal((3, alpha, alpha))
    before, after = INPUT_TRANSFORM[tile], OUTPUT_TRANSFORM[tile]
    filters = transform_filter(weights, tile).reshape(alpha, alpha, 5, 3)
    product = np.einsum("uvoi,iuv->ouv", filters, before @ data @ before.T)
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(after @ product @ after.T, np.einsum("oiuv,ihwuv->ohw", weights, windows), atol=1e-12)


@pytest.mark.parametrize("tile", TILES)
def test_transformed_filters_keep_their_element_type(tile):
    assert transform_filter(np.ones((1, 1, 3, 3), np.float32), tile).dtype == np.float32


DOCUMENT = Path(__file__).parents[2] / "docs" / "layouts.md"
LETTERS = {"conv_filter": "oihw", "depthwise_filter": "cmhw", "argument": "c", "packed_rowsB": "grk"}
DOCUMENT_SHAPES: dict[str, list[Shape]] = {
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
DOCUMENT_PIXELS = {
    row["format"].strip("`"): row for row in rows("format | width | height | x | y | component | who uses it")
}


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
        for shape in DOCUMENT_SHAPES[letters]:
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
    described = {form for name in (*OFFSETS, *DOCUMENT_PIXELS) for form, _ in formats_of(name)}
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


@pytest.mark.parametrize("name", DOCUMENT_PIXELS)
def test_elements_of_images_lie_in_the_pixel_of_the_formula(name: str) -> None:
    row, letters = DOCUMENT_PIXELS[name], LETTERS.get(name, "nchw")
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
