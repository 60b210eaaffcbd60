"""`farm inspect`: what plans and plan files tell of operators, tensors and conversions."""

import dataclasses
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.jobs.inspect import inspect_plan_file
from farm.plans.inspection import inspection, inspection_of_file
from farm.tables.inspect import inspect_tables
from runtime.errors import FormatError
from runtime.graph import Graph
from runtime.lowering.lower import Options, lower
from runtime.plan.artifacts import encode_tuned
from runtime.plan.container import HEADER
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.reading import read_plan_file
from runtime.target import Target
from runtime.types import Algorithm
from tests.farm.conftest import CallFarm
from tests.farm.jobs.fleet.test_unit import probe
from tests.farm.model.tiny_model import write_deployment
from tests.native.test_embedding import quantized_plan
from tests.runtime.graphs import GraphMaker
from tests.runtime.random_graphs import random_graphs

TARGET = Target(soc="x", abi="x", gpu_family="unknown", memory="buffer", allow_cpu=True)


def plan_in(memory: str) -> Plan:
    """Two convolutions and a concatenation of 5 and 8 channels."""
    maker = GraphMaker()
    x = maker.input(1, 3, 8, 8)
    parts = [maker.conv(x, 5), maker.conv(x, 8)]
    graph = maker.finish(maker.add("Sigmoid", maker.add("Concat", *parts, axis=1)))
    return lower(graph, dataclasses.replace(TARGET, memory=memory), Options())


def test_tensors_of_a_plan_on_images() -> None:
    figures = inspection(plan_in("image"))
    tensors = {(tensor.name, tensor.storage_format): tensor for tensor in figures.tensors}
    image = tensors["x0", "channel_major"]
    assert (image.origin_shape, image.storage_shape) == ((1, 3, 8, 8), (8, 8, 4))
    assert (image.size_bytes, image.padding_bytes) == (1024, 256)
    filters = tensors["w", "conv_filter"]
    assert (filters.origin_shape, filters.storage_shape, filters.kind) == ((5, 3, 3, 3), (18, 4, 4), "weights")
    assert filters.padding_bytes == 4 * (18 * 4 * 4 - 5 * 3 * 3 * 3)
    conversions = [(one.source_format, one.target_format) for one in figures.conversions]
    assert conversions == [("row_major", "channel_major"), ("channel_major", "row_major")]
    owned = sum(tensor.padding_bytes for tensor in figures.tensors if not tensor.part_of)
    assert figures.padding_bytes == owned > 0


def test_parts_of_a_wider_tensor_lie_in_it() -> None:
    figures = inspection(plan_in("buffer"))
    wide = next(tensor for tensor in figures.tensors if tensor.name.startswith("concat"))
    parts = [tensor for tensor in figures.tensors if tensor.part_of == wide.name]
    assert [part.origin_shape for part in parts] == [(1, 5, 8, 8), (1, 8, 8, 8)]
    assert wide.written_by == tuple(step for part in parts for step in part.written_by)


def test_what_integers_stand_for_is_shown(tmp_path: Path) -> None:
    plan, expected = quantized_plan()
    (tmp_path / "net.plan").write_bytes(encode_plan(plan))
    in_file = inspect_plan_file(tmp_path / "net.plan")
    for tensors in (inspection(plan).tensors, in_file.tensors):
        shown = {tensor.name: tensor.quantization for tensor in tensors}
        assert {name: shown[name] for name in expected} == {
            "x": "int8, scale 0.25 to 2, zero point -2 to 1, 3 along axis 1",
            "y": "uint8, scale 0.5, zero point 7",
        }
    table = list(inspect_tables(in_file, True))[1]
    assert table.columns[-1] == "Quantization" and "uint8, scale 0.5, zero point 7" in [row[-1] for row in table.rows]
    plain = in_file.model_copy(update={"tensors": inspection(plan_in("buffer")).tensors})
    assert list(inspect_tables(plain, True))[1].columns[-1] == "Lies in"


def test_working_memory_of_winograd_is_shown() -> None:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 32, 16, 16), 32))
    plan = lower(graph, dataclasses.replace(TARGET, memory="image"), Options(algorithms=(Algorithm.WINOGRAD_2,)))
    scratch = [tensor for tensor in inspection(plan).tensors if tensor.kind == "scratch"]
    assert {tensor.storage_format for tensor in scratch} == {"height_major"}


@pytest.mark.slow
@settings(max_examples=15)
@given(made=random_graphs(), memory=st.sampled_from(["buffer", "image", "cpu"]))
def test_every_operator_writes_a_tensor_and_tensors_fit_the_plan(made: tuple[Graph, GraphMaker], memory: str) -> None:
    plan = lower(made[0], dataclasses.replace(TARGET, memory=memory), Options())
    figures = inspection(plan)
    written = {step for tensor in figures.tensors for step in tensor.written_by}
    assert written == set(range(len(plan.steps)))
    own = sum(tensor.size_bytes for tensor in figures.tensors if not tensor.part_of and tensor.kind != "weights")
    assert own == plan.sum_bytes
    names = [(tensor.name, tensor.kind) for tensor in figures.tensors]
    assert {name for name, kind in names if kind == "input"} == {tensor.name for tensor in plan.inputs}


@pytest.mark.parametrize("memory", ["buffer", "image", "cpu"])
def test_a_plan_file_tells_what_the_plan_does(memory: str, tmp_path: Path) -> None:
    plan = plan_in(memory)
    path = tmp_path / "net.plan"
    path.write_bytes(encode_plan(plan))
    known, told = inspection(plan), inspection_of_file(read_plan_file(path))
    assert [(one.name, one.type, one.device, one.macs) for one in told.operators] == [
        (one.name, one.type, one.device, one.macs) for one in known.operators
    ]
    for member in ("weights_bytes", "activations_peak_bytes"):
        assert getattr(told, member) == getattr(known, member)
    packed = [
        {(tensor.origin_shape, tensor.storage_shape) for tensor in figures.tensors if "packed" in tensor.storage_format}
        for figures in (known, told)
    ]
    assert packed[0] == packed[1]
    ends = [tensor for tensor in told.tensors if tensor.kind in ("input", "output")]
    assert [(tensor.name, tensor.storage_format) for tensor in ends] == [
        ("x0", "row_major"),
        (plan.outputs[0].name, "row_major"),
    ]
    assert ends[0].read_by and ends[1].written_by
    row = inspect_plan_file(path)
    assert (row.model, row.runtime, row.status) == ("net", "cpu" if memory == "cpu" else "gpu", "ok")


def with_checksum(content: bytearray) -> bytes:
    """The file with a header that fits what it holds: damage that a checksum does not find."""
    body = bytes(content)
    checksum = zlib.crc32(body[HEADER.itemsize :], zlib.crc32(body[: HEADER.itemsize - 4]))
    return body[: HEADER.itemsize - 4] + checksum.to_bytes(4, "little") + body[HEADER.itemsize :]


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "net.plan"
    path.write_bytes(encode_plan(plan_in("buffer")))
    return path


@pytest.mark.slow
@settings(max_examples=150)
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 4))
def test_a_damaged_plan_file_is_refused_by_name_or_read(plan_file: Path, seed: int, count: int) -> None:
    random, content = np.random.default_rng(seed), bytearray(plan_file.read_bytes())
    for at in random.integers(HEADER.itemsize, len(content), count):
        content[at] ^= int(random.integers(1, 256))
    damaged = plan_file.with_name("damaged.plan")
    damaged.write_bytes(with_checksum(content))
    try:
        read_plan_file(damaged)
    except FormatError as error:
        assert str(error).startswith(f"{damaged}: ")


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder")
def test_the_command_shows_a_model(farm: CallFarm) -> None:
    write_deployment(Path(), runtime="cpu+gpu")
    Path("phone.json").write_text(json.dumps(probe().model_dump()))
    status, out, err = farm("inspect", "tiny.yml", "--tensors", "--target-file", "phone.json")
    assert (status, err) == (0, "")
    assert "tiny on phone (gpu)" in out and "tiny on phone (cpu)" in out
    assert "channel_major [8,8,4]" in out and "NCHW [1,3,8,8]" in out and "conversions" in out
    assert "Padding" in out and "Padding" not in farm("inspect", "tiny.yml", "--target-file", "phone.json")[1]


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder")
def test_a_plan_that_convert_wrote_and_the_explanation_beside_it(farm: CallFarm) -> None:
    write_deployment(Path(), runtime="cpu")
    status, out, _ = farm("convert", "tiny.yml", "--explain", "--device", "host")
    assert status == 0 and "x: NCHW [1,3,8,8] in row_major [1,3,8,8], 768 B" in out
    (plan,) = Path("build").rglob("*.plan")
    status, out, _ = farm("inspect", str(plan), "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["job"], row["model"]) == (0, "inspect", "tiny")
    assert row["settings"]["plan_file"] == str(plan)


@pytest.mark.usefixtures("own_folder")
def test_what_is_no_plan_is_refused_by_name(farm: CallFarm) -> None:
    Path("tuned.bin").write_bytes(encode_tuned([]))
    Path("short.plan").write_bytes(b"FARMPLAN")
    Path("empty.plan").write_bytes(b"")
    Path("damaged.plan").write_bytes(encode_plan(plan_in("cpu"))[:-1] + b"x")
    for name, text in {
        "tuned.bin": "tuned.bin: holds tuned parameters, no plan; `farm artifacts show tuned.bin` shows them",
        "short.plan": "short.plan: truncated",
        "empty.plan": "empty.plan: truncated",
        "damaged.plan": "damaged.plan: damaged or truncated",
        "none.plan": "none.plan: no such file\n",
    }.items():
        status, out, err = farm("inspect", name)
        assert (status, out) == (2, "") and err.startswith(f"error: {text}") and err.count("\n") == 1
    Path("good.plan").write_bytes(encode_plan(plan_in("cpu")))
    status, _, err = farm("inspect", "good.plan", "--device", "host")
    assert status == 2 and "good.plan is a plan already" in err
