"""Storage: shapes follow from origin and format, and every conversion between two storages is exact to the bit."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.graph import Array
from runtime.layout.arrangement import Shape
from runtime.layout.buffer import pack_rows
from runtime.layout.image import ImageLayout, to_image
from runtime.layout.storage import (
    ACTIVATIONS,
    BLOCKS,
    FORMATS,
    PACKINGS,
    ROW_MAJOR,
    StorageFormat,
    TensorStorage,
    blocked,
    from_storage,
    of_graph_axes,
    rows_in_blocks,
    to_storage,
)
from runtime.types import Origin, OriginFormat
from tests.runtime.unpacked import nhwc_view

IMAGES = st.tuples(st.integers(1, 3), st.integers(1, 21), st.integers(1, 6), st.integers(1, 6))
ORIGINS = st.builds(Origin, st.sampled_from(list(OriginFormat)), IMAGES)
DTYPES = st.sampled_from([np.float32, np.float16])
FILTERS = {
    "conv_filter": st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4)),
    "depthwise_filter": st.tuples(st.integers(1, 21), st.just(1), st.integers(1, 4), st.integers(1, 4)),
    "argument": st.tuples(st.integers(1, 40)),
    **{
        f"packed_rows{block}": st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 5)) for block in PACKINGS
    },
}
BITS = {2: np.uint16, 4: np.uint32}


def bits(array: Array) -> Array:
    return array.view(BITS[array.itemsize])


def any_bits(shape: Shape, dtype: type[np.floating], seed: int = 1) -> Array:
    """Every bit pattern may come, those of NaN, infinity and denormal numbers included."""
    kind = BITS[np.dtype(dtype).itemsize]
    return np.random.default_rng(seed).integers(0, np.iinfo(kind).max, shape, kind, endpoint=True).view(dtype)


def names(forms: tuple[StorageFormat, ...]) -> list[str]:
    return [form.name for form in forms]


PAIRS = list(itertools.product(ACTIVATIONS, ACTIVATIONS))


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=["-".join(names(pair)) for pair in PAIRS])
@settings(max_examples=12)
@given(origin=ORIGINS, dtype=DTYPES)
def test_a_tensor_survives_every_conversion_to_the_bit(
    source: StorageFormat, target: StorageFormat, origin: Origin, dtype: type[np.floating]
) -> None:
    before, after = TensorStorage(origin, source), TensorStorage(origin, target)
    tensor = any_bits(origin.shape, dtype)
    memory = to_storage(tensor, before)
    moved = to_storage(from_storage(memory, before), after)
    assert memory.shape == before.shape and moved.shape == after.shape and moved.dtype == dtype
    np.testing.assert_array_equal(bits(moved), bits(to_storage(tensor, after)))
    np.testing.assert_array_equal(bits(from_storage(moved, after)), bits(tensor))
    np.testing.assert_array_equal(bits(to_storage(from_storage(moved, after), before)), bits(memory))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILTERS)
@given(data=st.data(), dtype=DTYPES)
def test_weights_survive_their_layouts_to_the_bit(name: str, data: st.DataObject, dtype: type[np.floating]) -> None:
    origin = Origin(OriginFormat.ND, data.draw(FILTERS[name]))
    storage, plain = TensorStorage(origin, FORMATS[name]), TensorStorage(origin, ROW_MAJOR)
    weights = any_bits(origin.shape, dtype)
    memory = to_storage(from_storage(weights, plain), storage)
    np.testing.assert_array_equal(bits(to_storage(from_storage(memory, storage), plain)), bits(weights))


@pytest.mark.slow
@given(origin=ORIGINS, form=st.sampled_from(ACTIVATIONS), dtype=DTYPES)
def test_padding_is_zero_and_never_read(origin: Origin, form: StorageFormat, dtype: type[np.floating]) -> None:
    storage = TensorStorage(origin, form)
    tensor = np.ones(origin.shape, dtype)
    memory = to_storage(tensor, storage)
    assert (memory == 0).sum() == storage.padding == storage.elements - tensor.size
    assert not np.signbit(memory).any()
    np.testing.assert_array_equal(from_storage(np.where(memory == 0, dtype(np.nan), memory), storage), tensor)


@pytest.mark.slow
@given(shape=IMAGES, block=st.sampled_from(BLOCKS))
def test_blocks_of_channels_lie_where_the_formula_says(shape: Shape, block: int) -> None:
    tensor = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    memory = to_storage(tensor, TensorStorage(Origin(OriginFormat.NCHW, shape), blocked(block))).reshape(-1)
    _, channels, height, width = shape
    blocks = (channels + block - 1) // block
    for n, c, h, w in np.ndindex(shape):
        offset = (((n * blocks + c // block) * height + h) * width + w) * block + c % block
        assert memory[offset] == tensor[n, c, h, w]


@pytest.mark.slow
@given(shape=IMAGES)
def test_the_layouts_of_kernels_are_storages(shape: Shape) -> None:
    tensor = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    origin = Origin(OriginFormat.NCHW, shape)
    nhwc = to_storage(tensor, TensorStorage(origin, FORMATS["nhwc"]))
    np.testing.assert_array_equal(nhwc_view(nhwc.reshape(-1), shape), tensor)
    for layout in (ImageLayout.CHANNEL_MAJOR, ImageLayout.HEIGHT_MAJOR, ImageLayout.WIDTH_MAJOR):
        pixels = to_storage(tensor, TensorStorage(origin, FORMATS[str(layout)]))
        np.testing.assert_array_equal(pixels, to_image(tensor, layout))
    rows = tensor.reshape(shape[0], shape[1], -1)
    packed = to_storage(rows, TensorStorage(Origin(OriginFormat.ND, rows.shape), rows_in_blocks(8)))
    np.testing.assert_array_equal(packed.reshape(-1), pack_rows(rows, 8))


@pytest.mark.slow
@given(shape=IMAGES, form=st.sampled_from([form for form in ACTIVATIONS if form != ROW_MAJOR]))
def test_an_nhwc_tensor_lies_as_its_nchw_twin_does(shape: Shape, form: StorageFormat) -> None:
    tensor = any_bits(shape, np.float32)
    twin = tensor.transpose(0, 2, 3, 1)
    memory = to_storage(tensor, TensorStorage(Origin(OriginFormat.NCHW, shape), form))
    same = to_storage(twin, TensorStorage(Origin(OriginFormat.NHWC, twin.shape), form))
    np.testing.assert_array_equal(bits(memory), bits(same))


@pytest.mark.parametrize("order", [OriginFormat.NCHW, OriginFormat.NHWC])
@pytest.mark.parametrize("form", ACTIVATIONS, ids=names(ACTIVATIONS))
def test_axes_by_position_are_named_by_the_order_that_a_graph_has_them_in(
    form: StorageFormat, order: OriginFormat
) -> None:
    """What a plan does to a tensor whose axes come as n, h, w, c is what it does to one without names."""
    tensor = any_bits((2, 5, 3, 4), np.float32)
    memory = to_storage(tensor, TensorStorage(Origin(OriginFormat.ND, tensor.shape), form))
    for origin in (OriginFormat.NCHW, OriginFormat.NHWC):
        back = tuple(str(order).index(axis) for axis in origin)
        own = TensorStorage(Origin(origin, tensor.transpose(back).shape), of_graph_axes(form, origin, order))
        np.testing.assert_array_equal(bits(to_storage(tensor.transpose(back), own)), bits(memory))


def test_scalars_and_empty_tensors_are_row_major() -> None:
    for shape in ((), (0, 3), (7,), (1, 2, 3, 4, 5)):
        tensor = any_bits(shape, np.float32)
        storage = TensorStorage(Origin(OriginFormat.ND, shape), ROW_MAJOR)
        np.testing.assert_array_equal(bits(from_storage(to_storage(tensor, storage), storage)), bits(tensor))
        assert (storage.shape, storage.padding) == (shape, 0)


def test_memory_is_never_the_tensors_own() -> None:
    tensor = np.zeros((1, 1, 2, 2), np.float32)
    for form in ACTIVATIONS:
        storage = TensorStorage(Origin(OriginFormat.NCHW, tensor.shape), form)
        memory = to_storage(tensor, storage)
        assert not np.shares_memory(memory, tensor) and not np.shares_memory(from_storage(memory, storage), memory)


SHAPE = (1, 3, 2, 2)
IMAGE = TensorStorage(Origin(OriginFormat.NCHW, SHAPE), FORMATS["channel_major"])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: Origin(OriginFormat.NHWC, (1, 2)), r"NHWC has 4 axes, not the shape \(1, 2\)"),
        (lambda: to_storage(np.zeros((1, 3, 2, 1)), IMAGE), r"shape \(1, 3, 2, 1\) is no tensor of shape"),
        (lambda: from_storage(np.zeros(SHAPE), IMAGE), r"none of shape \(2, 2, 4\) \(channel_major\)"),
        (lambda: TensorStorage(Origin(OriginFormat.ND, (3,)), blocked(8)).shape, "nchw8c: holds tensors of 4 axes"),
        (lambda: TensorStorage(IMAGE.origin, FORMATS["conv_filter"]).shape, "conv_filter: a tensor in NCHW is none"),
    ],
)
def test_what_is_no_tensor_of_the_storage_is_refused(wrong: object, text: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=text):
        wrong()
