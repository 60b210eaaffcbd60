"""A data file made when it is read is what it would be in memory; plans share one; every byte is checked."""

import dataclasses
import errno
import mmap
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.jobs.fleet.plan_files import write_changed
from runtime.errors import ConfigError, FormatError, NoRoomError
from runtime.graph import Array, Graph, contiguous_parts
from runtime.lowering import assembly
from runtime.lowering.lower import Options, lower
from runtime.native.build import build_farmrt
from runtime.oracle.evaluate import evaluate
from runtime.plan import plan_data
from runtime.plan.container import StringTable, align, decode_container, encode_container, read_file, string_reader
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.plan_data import ConstantSpool, LaidOutData, PackedConstant, crc32_of, pieces, release_memory
from runtime.plan.records import PLAN_MAGIC, POOL, TUNED_MAGIC, SectionId
from runtime.plan.shared_data import with_shared_data
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import run_on
from tests.opencl import default_device
from tests.runtime.graphs import GraphMaker

BLOBS = [np.random.default_rng(5).bytes(size) for size in (5000, 1, 70_000)]


def laid_out() -> tuple[LaidOutData, bytes]:
    """The blobs, one of them made when it is read, and the bytes that they are."""
    data, packed = LaidOutData(), np.frombuffer(BLOBS[0][:4800], np.float32).reshape(40, 30).T
    constants = [PackedConstant(packed, np.float32, 4), *(np.frombuffer(blob, np.uint8) for blob in BLOBS)]
    starts = [data.append(constant) for constant in constants]
    contents = [packed.tobytes() + bytes(16), *BLOBS]
    assert starts == [0, 4864, 9920, 9984]
    return data, b"".join(content.ljust(align(len(content)), b"\0") for content in contents)


def test_constants_lie_one_behind_the_other() -> None:
    data, expected = laid_out()
    assert (bytes(data), len(data), crc32_of(data)) == (expected, len(expected), zlib.crc32(expected))
    assert len(list(pieces(data))) > 4
    for start, stop in (
        (0, 1),
        (0, len(expected)),
        (4864, 9920),
        (70, 9930),
        (len(expected) - 3, len(expected)),
        (5, 5),
    ):
        assert data[start:stop] == expected[start:stop]


def test_constants_are_added_behind_what_is_there_already() -> None:
    before, expected = laid_out()
    for data in (before, expected):
        longer = LaidOutData.beginning_with(data)
        assert longer.append(np.frombuffer(BLOBS[1], np.uint8)) == len(expected)
        assert bytes(longer) == expected + BLOBS[1].ljust(align(1), b"\0")
    assert bytes(before) == expected, "which stays as it is"


def test_a_file_is_written_where_it_holds_something_else(tmp_path: Path) -> None:
    (content, expected), path = laid_out(), tmp_path / "net.data"
    write_changed(path, content)
    first = path.stat().st_ino
    write_changed(path, content)
    assert path.read_bytes() == expected
    assert path.stat().st_ino == first
    path.write_bytes(expected[:-1] + bytes([expected[-1] ^ 1]))
    write_changed(path, content)
    assert path.read_bytes() == expected


def test_packed_constants_are_compared() -> None:
    values = np.random.default_rng(5).standard_normal((40, 30)).astype(np.float32)
    changed = values.copy()
    changed[7, 7] += 1
    first, same, other = (PackedConstant(each, np.float32, 4) for each in (values, values.copy(), changed))
    assert first.sample() == same.sample() == other.sample()
    assert first.is_same(same) and not first.is_same(other)
    assert PackedConstant(values, np.float16, 4).sample() != first.sample()


def test_constants_beyond_the_first_lie_in_files_and_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    monkeypatch.setattr(plan_data, "LEAST_KEPT", 1024)
    monkeypatch.setattr(plan_data, "SEGMENT", 4 * mmap.PAGESIZE)
    spool, drawn = ConstantSpool(), np.random.default_rng(5)
    given = [
        drawn.standard_normal(shape).astype(np.float32) for shape in ((32, 32), (3, 700), (200,), (5000,), (2000,))
    ]
    kept = []
    for array in given:
        with spool.made(array.shape, array.dtype) as made:
            assert not made.any()
            made[...] = array
        kept.append(made)
    assert [made.flags.owndata for made in kept] == [True, False, True, False, False]
    for _ in range(2):  # after the memory was let go, too
        for array, other in zip(given, kept, strict=True):
            np.testing.assert_array_equal(array, other)
            release_memory(other)


def test_a_full_folder_of_constants_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    monkeypatch.setattr(plan_data.os, "posix_fallocate", full)
    said = pytest.raises(NoRoomError, match="no room for a plan's weights: No space left on device")
    with said, ConstantSpool().made((plan_data.LEAST_KEPT,), np.uint8):
        pass


def test_a_plan_whose_weights_are_packed_later_is_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    maker, target = GraphMaker(seed=5), Target(soc="x", abi="x", memory="cpu")
    graph = maker.finish(maker.conv(maker.conv(maker.input(1, 3, 8, 8), 16), 24))
    in_memory = lower(graph, target)
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 64)
    monkeypatch.setattr(assembly, "MOST_IN_MEMORY", 64)
    monkeypatch.setattr(plan_data, "LEAST_KEPT", 256)
    plan = lower(graph, target)
    assert isinstance(plan.data, LaidOutData)
    assert bytes(plan.data) == in_memory.data
    assert encode_plan(plan) == encode_plan(in_memory)


def test_packing_takes_the_memory_of_one_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    maker, width, layers = GraphMaker(seed=5), 512, 6
    x = maker.input(1, width)
    for _ in range(layers):
        x = maker.add("FullyConnected", x, maker.weights(width, width))
    graph = maker.finish(x)
    for name in [name for name in graph.constants if len(graph.shape(name)) == 2]:  # as the transposed ones of MatMul
        graph.constants[name] = np.asfortranarray(graph.constants[name])
    monkeypatch.setattr(plan_data, "MOST_IN_MEMORY", 4096)
    monkeypatch.setattr(assembly, "MOST_IN_MEMORY", 4096)
    tracemalloc.start()
    try:
        plan = lower(graph, Target(soc="x", abi="x", memory="cpu"))
        assert sum(map(len, pieces(plan.data))) > layers * width * width * 4
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * width * width * 4


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[None], lambda x: x.reshape(700, 2, 1000).swapaxes(0, 1)])
def test_what_has_to_be_copied_comes_in_parts(view: Callable[[Array], Array]) -> None:
    """So a large constant is written in a little memory."""
    values = (np.arange(2000 * 700, dtype=np.float32) % 999).reshape(2000, 700)
    turned = view(values.T)
    parts = list(contiguous_parts(turned, np.float16))
    assert np.array_equal(np.concatenate([part.reshape(-1) for part in parts]), turned.astype(np.float16).reshape(-1))
    assert len(parts) > 1 and sum(part.nbytes for part in parts) == turned.size * 2
    (whole,) = contiguous_parts(values, np.float32)
    assert np.shares_memory(whole, values)


BUFFER = target_of_device(default_device(), memory="buffer")
TARGETS = {
    "buffer": BUFFER,
    "image": dataclasses.replace(BUFFER, memory="image"),
    "cpu": Target(soc="x", abi="x", memory="cpu"),
}


def headed(channels: int, seed: int = 0) -> tuple[Graph, dict[str, Array]]:
    """The backbone of a seed, 16 and 24 channels, with a head of its own; and inputs."""
    maker = GraphMaker(seed=seed)
    x = maker.conv(maker.conv(maker.input(1, 3, 8, 8), 16), 24)
    return maker.finish(maker.conv(x, channels, 1)), maker.noise()


def lowered(graph: Graph, target: Target) -> Plan:
    return lower(graph, target, Options(separate_weights=True))


def outputs(plan: Plan, inputs: dict[str, Array], folder: Path) -> dict[str, Array]:
    if plan.target.memory == "cpu":
        with Farmrt(build_farmrt(), folder) as farmrt:
            return run_on(farmrt, plan, inputs)
    return Executor(encode_plan(plan), plan.data, default_device()).run(inputs)


@pytest.mark.slow
@pytest.mark.parametrize("memory", TARGETS)
def test_two_heads_of_a_backbone_have_its_weights_once(memory: str, tmp_path: Path) -> None:
    heads = [headed(5), headed(7)]
    apart = [lowered(graph, TARGETS[memory]) for graph, _ in heads]
    shared = with_shared_data(apart)
    first, second = (set(contents(plan)) for plan in apart)
    assert shared[0].data == shared[1].data
    assert len(shared[0].data) == sum(map(len, first | second)) < sum(len(plan.data) for plan in apart) - 4 * 24 * 16
    for plan, own, (graph, inputs) in zip(shared, apart, heads, strict=True):
        assert contents(plan) == contents(own)
        assert plan.weights_bytes == own.weights_bytes == len(own.data)
        expected, actual = evaluate(graph, inputs), outputs(plan, inputs, tmp_path)
        for name in graph.outputs:
            np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=1e-4)


def test_plans_with_little_in_common_keep_their_own_files() -> None:
    plans = [lowered(headed(5, seed)[0], TARGETS["cpu"]) for seed in (1, 2)]
    assert with_shared_data(plans) == plans


def test_constants_share_a_place_where_all_elements_are_equal() -> None:
    """Whichever element differs: most are not among those by which constants are told apart at first."""
    weights = np.random.default_rng(3).standard_normal((16, 16, 1, 1)).astype(np.float32)
    alike = len(lowered(pointwise(weights, weights.copy()), TARGETS["cpu"]).data)
    for index in range(0, weights.size, 17):
        other = weights.copy()
        other.reshape(-1)[index] += 1
        assert len(lowered(pointwise(weights, other), TARGETS["cpu"]).data) == alike + align(weights.nbytes + 4 * 64)


def test_a_plan_joins_two_that_have_nothing_in_common() -> None:
    """The middle one has half of each of the others."""
    weights = [np.full((16, 16, 1, 1), value, np.float32) for value in (1, 2)]
    plans = [lowered(pointwise(*own), TARGETS["cpu"]) for own in (weights[:1], weights[1:], weights)]
    shared = with_shared_data(plans)
    assert {plan.data for plan in shared} == {shared[2].data}
    assert [contents(plan) for plan in shared] == [contents(plan) for plan in plans]


def test_separate_weights_are_the_same_data_in_a_pool_for_each_constant() -> None:
    graph, _ = headed(5)
    together, separate = lower(graph, TARGETS["cpu"]), lowered(graph, TARGETS["cpu"])
    assert together.data == separate.data
    assert len(together.constants) == 1 < len(separate.constants) == 6


def contents(plan: Plan) -> list[bytes]:
    """The weights of a plan, one after the other."""
    return [plan.data[start : start + size] for start, size in plan.constants]


def pointwise(*weights: Array) -> Graph:
    """Convolutions of 1 x 1, one after the other."""
    maker = GraphMaker()
    x = maker.input(1, 16, 4, 4)
    for values in weights:
        x = maker.add(
            "Conv", x, maker.graph.add_constant("w", values), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=1
        )
    return maker.finish(x)


def sample() -> bytes:
    strings = StringTable()
    strings.add("input")
    pools = np.zeros(2, POOL)
    pools["size"] = (640, 64)
    return encode_container(PLAN_MAGIC, {SectionId.POOL: pools, SectionId.STRINGS: strings.section()})


def test_sections_are_read_back_as_written() -> None:
    sections = decode_container(sample(), PLAN_MAGIC, "sample")
    assert sections[SectionId.POOL]["size"].tolist() == [640, 64]
    assert string_reader(sections)(1) == "input"


@pytest.mark.slow
@given(st.integers(0, len(sample()) - 1), st.integers(1, 255))
def test_any_changed_byte_is_refused(position: int, flip: int) -> None:
    damaged = bytearray(sample())
    damaged[position] ^= flip
    with pytest.raises(FormatError, match=r"^sample: "):
        decode_container(bytes(damaged), PLAN_MAGIC, "sample")


@given(st.integers(0, len(sample()) - 1))
def test_any_truncation_is_refused(size: int) -> None:
    with pytest.raises(FormatError, match=r"^sample: "):
        decode_container(sample()[:size], PLAN_MAGIC, "sample")


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(FormatError, match="not a FARMTUNE file"):
        decode_container(sample(), TUNED_MAGIC, "sample")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.plan: cannot be read"):
        read_file(tmp_path / "absent.plan", PLAN_MAGIC)
