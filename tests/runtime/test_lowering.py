"""Lowered plans, run by the reference executor, compute what the graph says; their loop nests and memory."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import UnsupportedError
from runtime.graph import Graph
from runtime.kernels import table
from runtime.kernels.spec import MemoryType
from runtime.lowering.iteration import broadcast_strides, loop_nest, merge_axes, padded
from runtime.lowering.lower import Options, lower
from runtime.lowering.memory import BufferLifetime, ImageLifetime, plan_arenas, plan_images
from runtime.lowering.value import row_major
from runtime.oracle.evaluate import evaluate
from runtime.plan.container import align
from runtime.plan.encode import encode_plan
from runtime.plan.plan import PIXEL_BYTES
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from runtime.types import Algorithm, ImageFormat, Precision, asked_algorithms
from tests.opencl import default_device
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import (
    NETWORKS,
    attended_alone,
    cache_joined,
    concat_in_place,
    dense_chain,
    nhwc_boundary,
    residual_block,
)

BUFFER = target_of_device(default_device(), memory="buffer")
IMAGE = dataclasses.replace(BUFFER, memory="image")
PRECISIONS = [Precision.FP32, pytest.param(Precision.FP16_STORAGE, marks=pytest.mark.slow)]
TOLERANCE = {Precision.FP32: 2e-5, Precision.FP16_STORAGE: 2e-2}


def check(maker: GraphMaker, graph: Graph, target: Target = BUFFER, options: Options | None = None) -> None:
    inputs = maker.noise()
    expected = evaluate(graph, inputs)
    plan = lower(graph, target, options)
    outputs = Executor(encode_plan(plan), plan.data, default_device()).run(inputs)
    assert set(outputs) >= set(graph.outputs)
    for name, actual in outputs.items():
        scale = max(1.0, float(np.abs(expected[name]).max()))
        np.testing.assert_allclose(actual, expected[name], rtol=0, atol=TOLERANCE[target.precision] * scale)


@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda p: p.label)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_plan_computes_the_graph(network: Callable[[GraphMaker], Graph], precision: Precision) -> None:
    maker = GraphMaker()
    check(maker, network(maker), dataclasses.replace(BUFFER, precision=precision))


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda p: p.label)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_images_compute_the_graph(network: Callable[[GraphMaker], Graph], precision: Precision) -> None:
    maker = GraphMaker()
    check(maker, network(maker), dataclasses.replace(IMAGE, precision=precision))


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_every_layer_can_be_kept(network: Callable[[GraphMaker], Graph]) -> None:
    maker = GraphMaker()
    graph = network(maker)
    check(maker, graph, options=Options(keep=graph.layers))


@pytest.mark.slow
@pytest.mark.parametrize("target", [BUFFER, IMAGE], ids=lambda target: target.memory)
@pytest.mark.parametrize("tile", [2, 4])
def test_winograd_agrees_with_direct(tile: int, target: Target) -> None:
    maker = GraphMaker()
    x = maker.input(2, 17, 9, 11)
    a = maker.conv(x, 33, activation="relu")
    graph = maker.finish(maker.conv(a, 16, residual=maker.conv(x, 16)))
    plan = lower(graph, target, Options(algorithms=asked_algorithms(tile)))
    assert sum(step.kernel.name == "winograd_gemm" for step in plan.steps) == 3
    check(maker, graph, target, Options(algorithms=asked_algorithms(tile)))


ON_A_CPU = dataclasses.replace(BUFFER, gpu_family="pocl-3.1-avx512", compute_units=2)


@pytest.mark.parametrize(
    ("target", "size", "kept"),
    [
        (ON_A_CPU, 28, Algorithm.WINOGRAD_4),
        (ON_A_CPU, 14, Algorithm.WINOGRAD_2),  # four tiles a row for 14 pixels, and four times the weights to read
        (dataclasses.replace(ON_A_CPU, gpu_family="cpu"), 28, Algorithm.WINOGRAD_4),
        (dataclasses.replace(ON_A_CPU, precision=Precision.FP16_STORAGE), 28, Algorithm.DIRECT),
        (dataclasses.replace(ON_A_CPU, gpu_family="adreno-6xx"), 28, Algorithm.DIRECT),
    ],
)
def test_winograd_is_the_default_where_its_times_are_known(target: Target, size: int, kept: Algorithm) -> None:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 256, size, size), 256))
    plan = lower(graph, target, Options(algorithms=asked_algorithms("default")))
    assert [step.defines.get("WINO", 0) for step in plan.steps if step.macs] == [kept.tile]


def test_a_winograd_convolution_that_the_device_refuses_is_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = table.find_kernel("winograd_output", MemoryType.BUFFER)
    refusing = dataclasses.replace(kernel, fits=lambda dims, chosen, target: "the device refuses it")
    find_kernel = table.find_kernel
    monkeypatch.setattr(
        table, "find_kernel", lambda name, memory: refusing if name == kernel.name else find_kernel(name, memory)
    )
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 17, 9, 11), 33))
    plan = lower(graph, BUFFER, Options(algorithms=(Algorithm.WINOGRAD_4,)))
    assert [step.kernel.name for step in plan.steps if step.macs] == ["conv2d"]


@pytest.mark.parametrize(("channels", "group"), [(1, 1), (3, 1), (4, 1), (5, 1), (4, 2)])
def test_an_input_of_few_channels_is_read_as_it_lies(channels: int, group: int) -> None:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(2, channels, 9, 11), 20, group=group, strides=(2, 2)))
    kernels = [step.kernel.name for step in lower(graph, BUFFER).steps if step.op != "Transpose"]
    as_it_lies = channels <= 4 and group == 1
    assert kernels == ["conv2d_planes" if as_it_lies else "conv2d"]
    assert len(lower(graph, BUFFER).steps) == 2 + (not as_it_lies)  # the output goes back to NCHW
    check(maker, graph, BUFFER)


@pytest.mark.parametrize("target", [BUFFER, IMAGE], ids=lambda target: target.memory)
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_pixels_are_one_copy_between_convolutions(mode: str, target: Target) -> None:
    maker = GraphMaker()
    wide = maker.add("DepthToSpace", maker.conv(maker.input(1, 3, 5, 4), 20), blocksize=2, mode=mode)
    deep = maker.add("SpaceToDepth", maker.conv(wide, 5), blocksize=2, mode=mode)
    graph = maker.finish(maker.conv(deep, 8))
    steps = [step.op for step in lower(graph, target).steps]
    assert steps[-6:-1] == ["Conv2D", "DepthToSpace", "Conv2D", "SpaceToDepth", "Conv2D"]
    check(maker, graph, target)


def test_few_channels_that_an_operator_wrote_as_nhwc_stay_so() -> None:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.conv(maker.input(1, 3, 9, 11), 4), 20))
    assert [step.kernel.name for step in lower(graph, BUFFER).steps if step.macs] == ["conv2d_planes", "conv2d"]
    check(maker, graph, BUFFER)


def test_concatenation_in_place_copies_only_what_it_must() -> None:
    maker = GraphMaker()
    plan = lower(concat_in_place(maker), BUFFER)
    copies = [step.name for step in plan.steps if step.op == "Concat"]
    assert copies == ["n_concat4:2"]  # the model's input; the rest is written in place


@pytest.mark.parametrize("target", [BUFFER, dataclasses.replace(BUFFER, memory="cpu")], ids=["buffer", "cpu"])
def test_an_input_and_what_is_joined_with_it_are_not_copied(target: Target) -> None:
    plan = lower(cache_joined(GraphMaker()), target)
    assert not [step.name for step in plan.steps if step.op == "Concat"]
    cache, new = plan.inputs[0], plan.outputs[1]
    assert (new.place, new.offset) == (cache.place, cache.offset + 5 * 8)
    assert len({(output.place, output.offset) for output in plan.outputs}) == len(plan.outputs)


def test_the_only_key_gives_its_value_where_it_lies() -> None:
    plan = lower(attended_alone(GraphMaker()), BUFFER)
    assert [step.shown.output_shape for step in plan.steps if step.op == "Attention"] == [(2, 1, 24)]


def test_a_dense_chain_copies_nothing() -> None:
    plan = lower(dense_chain(GraphMaker()), BUFFER)
    assert not [step.name for step in plan.steps if step.op == "Concat"]


def test_a_transposition_that_only_renames_the_storage_costs_nothing() -> None:
    maker = GraphMaker()
    graph = nhwc_boundary(maker)
    plan = lower(maker.finish(graph.outputs[0]), BUFFER)
    assert [step.op for step in plan.steps] == ["Conv2D"]


def test_tensors_that_do_not_live_together_share_memory() -> None:
    maker = GraphMaker()
    x = maker.input(1, 8, 16, 16)
    for _ in range(6):
        x = maker.conv(x, 8)
    plan = lower(maker.finish(x), BUFFER)
    assert plan.peak_bytes < 0.6 * plan.sum_bytes


def test_weights_above_the_allocation_limit_are_refused() -> None:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 64, 4, 4), 64))
    with pytest.raises(UnsupportedError, match="the device allocates"):
        lower(graph, dataclasses.replace(BUFFER, max_allocation_bytes=4096))
    assert lower(graph, dataclasses.replace(BUFFER, memory="cpu", max_allocation_bytes=4096)).pools


@pytest.mark.slow
def test_pools_obey_the_allocation_limit() -> None:
    maker = GraphMaker()
    x = maker.input(1, 16, 8, 8)
    a, b = maker.conv(x, 16), maker.conv(x, 16, k=1, pads=(0,) * 4)
    graph = maker.finish(maker.add("Add", a, b))
    target = dataclasses.replace(BUFFER, max_allocation_bytes=20000)
    plan = lower(graph, target)
    assert len(plan.pools) > 2 and all(pool.size <= 20000 for pool in plan.pools)
    check(maker, graph, target)


def test_obfuscation_hides_the_names_of_layers() -> None:
    plan = lower(residual_block(GraphMaker()), BUFFER, Options(obfuscate=True))
    assert not any("conv" in step.name for step in plan.steps)


def test_macs_are_counted() -> None:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 3, 8, 8), 10))
    assert lower(graph, BUFFER).macs == 8 * 8 * 10 * 3 * 9


def visited(extents: list[int], strides: list[list[int]]) -> set[tuple[int, ...]]:
    """The offsets of all operands at every point of a nest."""
    points = itertools.product(*(range(size) for size in extents))
    return {tuple(int(np.dot(point, own)) for own in strides) for point in points}


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@pytest.mark.slow
@given(shapes, st.randoms())
def test_a_transposed_copy_visits_the_same_pairs(shape: list[int], random: object) -> None:
    perm = list(range(len(shape)))
    random.shuffle(perm)  # type: ignore[attr-defined]
    out = tuple(shape[axis] for axis in perm)
    source = tuple(row_major(tuple(shape))[axis] for axis in perm)
    target = row_major(out)
    extents, strides = loop_nest(out, [source, target])
    assert visited(extents, strides) == visited(list(out), [list(source), list(target)])


def test_dense_axes_merge_into_one() -> None:
    strides = row_major((2, 3, 4))
    assert merge_axes((2, 3, 4), [strides, strides]) == ([24], [[1], [1]])


def test_nhwc_and_row_major_keep_two_loops() -> None:
    # Four channels of 6 pixels: NCHW (6, 1) against NHWC (1, 4).
    extents, strides = loop_nest((4, 6), [(6, 1), (1, 4)])
    assert extents == [6, 4]
    assert strides == [[1, 6], [4, 1]]


def test_broadcast_repeats_by_stride_zero() -> None:
    assert broadcast_strides((3, 1), (1, 1), 3, (2, 3, 5)) == (0, 1, 0)


def test_padding_goes_in_front() -> None:
    assert padded([5, 6], 4, 1) == [1, 1, 5, 6]


spans = st.tuples(st.integers(0, 30), st.integers(0, 8))
needs = st.lists(
    st.builds(lambda size, span: BufferLifetime(size, span[0], span[0] + span[1]), st.integers(1, 5000), spans)
)


@given(needs, st.integers(5056, 20000))
def test_living_values_do_not_overlap(wanted: list[BufferLifetime], limit: int) -> None:
    places, sizes = plan_arenas(wanted, limit)
    assert all(size <= limit for size in sizes)
    for i, (a, place_a) in enumerate(zip(wanted, places, strict=True)):
        assert place_a.offset % 64 == 0
        assert place_a.offset + a.size <= sizes[place_a.arena]
        for b, place_b in list(zip(wanted, places, strict=True))[:i]:
            if a.overlaps(b) and place_a.arena == place_b.arena:
                apart = place_a.offset + a.size <= place_b.offset or place_b.offset + b.size <= place_a.offset
                assert apart


@pytest.mark.slow
@given(needs)
def test_without_reuse_everything_is_apart(wanted: list[BufferLifetime]) -> None:
    _, sizes = plan_arenas(wanted, 1 << 40, reuse=False)
    assert sum(sizes) == sum(align(need.size) for need in wanted)


def test_a_chain_needs_two_buffers() -> None:
    chain = [BufferLifetime(1024, step, step + 1) for step in range(10)]
    _, sizes = plan_arenas(chain, 1 << 20)
    assert sizes == [2048]


def test_arenas_split_at_the_allocation_limit() -> None:
    together = [BufferLifetime(1024, 0, 1) for _ in range(4)]
    places, sizes = plan_arenas(together, 2048)
    assert sizes == [2048, 2048]
    assert sorted((place.arena, place.offset) for place in places) == [(0, 0), (0, 1024), (1, 0), (1, 1024)]


image_needs = st.lists(
    st.builds(
        lambda w, h, f, span: ImageLifetime(w, h, f, span[0], span[0] + span[1]),
        st.integers(1, 300),
        st.integers(1, 300),
        st.integers(0, 1),
        spans,
    )
)


@pytest.mark.slow
@given(image_needs, st.integers(0, 1 << 20))
def test_images_are_shared_only_in_turn(wanted: list[ImageLifetime], limit: int) -> None:
    """And become no larger by that than a device allocates."""
    chosen, slots = plan_images(wanted, limit)
    own = [
        max((each.width * each.height for each, slot in zip(wanted, chosen, strict=True) if slot == i), default=0)
        for i in range(len(slots))
    ]
    for (width, height, form), least in zip(slots, own, strict=True):
        assert width * height <= max(least, limit // PIXEL_BYTES[ImageFormat(form)])
    for i, (need, slot) in enumerate(zip(wanted, chosen, strict=True)):
        width, height, form = slots[slot]
        assert need.width <= width and need.height <= height and need.format == form
        for other, other_slot in list(zip(wanted, chosen, strict=True))[:i]:
            if slot == other_slot:
                assert need.last < other.first or other.last < need.first
