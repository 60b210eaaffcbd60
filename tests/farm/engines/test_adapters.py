"""Each adapter that is installed computes what it should, on this machine; refusals need no package."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from farm.engines.base import EngineModel, EngineRun, EngineTask, EngineUnit
from farm.engines.executorch import ExecuTorch
from farm.engines.litert import LiteRt
from farm.engines.mnn import Mnn
from farm.engines.ncnn import Ncnn
from farm.engines.onnxruntime import OnnxRuntime, OnnxRuntimeProgram
from farm.engines.python_engine import PythonEngine
from farm.farmrt.unit_file_store import UnitFileStore
from farm.transport.local import LocalTransport
from runtime.convert import convert
from runtime.errors import DeviceError, UnsupportedError
from runtime.native.toolchains import find_toolchain
from runtime.oracle.evaluate import evaluate
from tests.conftest import require
from tests.farm.conftest import CallFarm
from tests.farm.engines.test_command import row_of, write_program
from tests.farm.model.tiny_model import model_of, tiny_model, write_deployment

INPUT = np.random.default_rng(5).normal(size=(1, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[EngineUnit]:
    """This machine."""
    transport = LocalTransport(tmp_path / "unit")
    with UnitFileStore(transport) as store:
        yield EngineUnit("host", "host", True, transport, store, list, 60.0)
    transport.close()


def engine_model(folder: Path, model: onnx.ModelProto | None = None, **fields: Any) -> EngineModel:
    content = (model or tiny_model(1)).SerializeToString()
    given = {"platform": "onnx", "source": folder / "net.onnx", "inputs": ("x",), "outputs": ("y",), **fields}
    return EngineModel(name="net", onnx=content, folder=folder, **given)


def rounds_of(engine: PythonEngine, unit: EngineUnit, model: EngineModel, value: np.ndarray = INPUT) -> EngineRun:
    require(engine.name, engine.missing())
    with engine.ready(unit) as run:
        return run(EngineTask(model, "cpu", {"x": value}, rounds=3, warmup=1, threads=1))


@pytest.mark.slow
@pytest.mark.parametrize("engine", [OnnxRuntime(), Mnn(), Ncnn(), ExecuTorch()], ids=lambda engine: engine.name)
def test_an_engine_that_takes_onnx_computes_what_numpy_does(
    engine: PythonEngine, unit: EngineUnit, tmp_path: Path
) -> None:
    done = rounds_of(engine, unit, engine_model(tmp_path))
    graph, _ = convert(tiny_model(1))
    np.testing.assert_allclose(done.outputs["y"], evaluate(graph, {"x": INPUT})["y"], rtol=1e-4, atol=1e-5)
    assert len(done.samples_ms) == 3 and done.init_ms and done.first_ms and done.peak_bytes and done.version
    assert engine.name == "mnn" or sum(done.settings["nodes"].values()) > 1
    assert done.size_bytes["engine"] > 1e6 and len(done.hashes["engine"]) == 64


@pytest.mark.slow
def test_winograd_of_mnn_keeps_the_digits_of_float32(unit: EngineUnit, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    weights = {f"w{at}": rng.normal(size=(64, 64, 3, 3)) / 24 for at in range(4)}
    names = ["x", "a", "b", "c", "y"]
    nodes = [
        onnx.helper.make_node("Conv", [names[at], f"w{at}"], [names[at + 1]], pads=[1, 1, 1, 1]) for at in range(4)
    ]
    shape = [1, 64, 56, 56]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
    model = model_of(nodes, ends[:1], ends[1:], weights)
    value = rng.normal(size=shape).astype(np.float32)
    done = rounds_of(Mnn(), unit, engine_model(tmp_path, model), value)
    expected = evaluate(convert(model)[0], {"x": value})["y"].astype(np.float64)
    noise = np.square(done.outputs["y"] - expected).sum()
    assert 10 * np.log10(np.square(expected).sum() / noise) > 90


@pytest.mark.slow
@pytest.mark.parametrize("engine", [Mnn(), Ncnn(), ExecuTorch()], ids=lambda engine: engine.name)
def test_a_converter_says_which_operator_it_lacks(engine: PythonEngine, unit: EngineUnit, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"{engine.name} does not convert the model: .*NoSuchOperator"):
        rounds_of(engine, unit, engine_model(tmp_path, tiny_model(1, op="NoSuchOperator")))
    assert not [path for path in tmp_path.glob("*net.*") if path.suffix != ".onnx"], "nothing half made stays"


@pytest.mark.slow
def test_a_refusal_ends_with_the_log(unit: EngineUnit, tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Gather", ["table", "x"], ["y"], axis=0)]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [6])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [6, 4])
    model = model_of(nodes, [x], [y], {"table": np.ones((8, 4))})
    with pytest.raises(DeviceError, match=r"ncnn refuses the model: .*its log ends: .*Gather not exists"):
        rounds_of(Ncnn(), unit, engine_model(tmp_path, model), np.arange(6))


def write_chain(path: Path, *codes: str) -> None:
    """A .tflite file of four numbers, x, through operators of one input each to y."""
    import flatbuffers  # type: ignore[import-not-found]
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str) -> Any:
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, [1, 4], schema.TensorType.FLOAT32, 0
        return made

    def code(name: str) -> Any:
        made = schema.OperatorCodeT()
        made.builtinCode = made.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
        return made

    def operator(index: int) -> Any:
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = index, [index], [index + 1]
        return made

    graph, model = schema.SubGraphT(), schema.ModelT()
    names = ["x", *(f"t{index}" for index in range(1, len(codes))), "y"]
    graph.tensors, graph.inputs, graph.outputs = list(map(tensor, names)), [0], [len(codes)]
    graph.operators = list(map(operator, range(len(codes))))
    model.version, model.operatorCodes, model.buffers, model.subgraphs = (
        3,
        list(map(code, codes)),
        [schema.BufferT()],
        [graph],
    )
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def litert_rounds(unit: EngineUnit, folder: Path, codes: Sequence[str], **options: str) -> EngineRun:
    require("litert", LiteRt().missing())
    source, value = folder / "chain.tflite", np.array([[-1, 0, 2, -3]], np.float32)
    write_chain(source, *codes)
    model = engine_model(folder, platform="tflite", source=source)
    with LiteRt().ready(unit) as run:
        return run(EngineTask(model, "cpu", {"x": value}, 3, 1, 1, options))


@pytest.mark.slow
@pytest.mark.parametrize(("delegate", "taken"), [("xnnpack", 1), ("none", 0)])
def test_litert_runs_a_tflite_file_as_it_is(unit: EngineUnit, tmp_path: Path, delegate: str, taken: int) -> None:
    done = litert_rounds(unit, tmp_path, ["RELU"], delegate=delegate)
    assert done.outputs["y"].tolist() == [[0.0, 0.0, 2.0, 0.0]] and done.version
    assert done.settings["nodes"] == {"delegate": taken, "cpu": 1 - taken}


@pytest.fixture(scope="session")
def played_delegate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of played_delegate.c."""
    return shared_library("played_delegate.c", tmp_path_factory.mktemp("delegate") / "libplayed.so")


def shared_library(source: str, library: Path, *flags: str) -> Path:
    """The library of a source beside this file."""
    words = ["-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *flags, "-o", str(library)]
    subprocess.run([*find_toolchain("host").compiler, *words, str(Path(__file__).with_name(source))], check=True)
    return library


@pytest.mark.slow
def test_what_a_delegate_did_not_take_is_told(unit: EngineUnit, tmp_path: Path, played_delegate: Path) -> None:
    codes, library = ["NEG", "RELU", "ABS", "RELU", "NEG"], str(played_delegate)
    done = litert_rounds(unit, tmp_path, codes, delegate=library)
    assert done.settings["nodes"] == {"delegate": 2, "cpu": 3} and done.settings["delegate"] == library
    assert done.outputs["y"].tolist() == [[-1.0, 0.0, 0.0, -3.0]] and len(done.hashes["delegate"]) == 64


@pytest.mark.slow
def test_a_delegate_that_cannot_be_used_is_a_refusal(unit: EngineUnit, tmp_path: Path, played_delegate: Path) -> None:
    fails = {"delegate": str(played_delegate), "delegate.fails": "no DSP here"}
    with pytest.raises(DeviceError, match=r"litert refuses the model: .*no DSP here"):
        litert_rounds(unit, tmp_path, ["RELU"], **fails)
    with pytest.raises(DeviceError, match=r"litert refuses the model: .*cannot open shared object"):
        litert_rounds(unit, tmp_path, ["RELU"], delegate="/vendor/lib64/libnone.so")


def test_litert_does_not_turn_images(tmp_path: Path) -> None:
    model = engine_model(tmp_path, platform="tflite", is_turned=True)
    with pytest.raises(UnsupportedError, match="leave out the data formats"):
        LiteRt().files(model)


@pytest.mark.slow
def test_an_engine_refuses_models_of_other_platforms(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    status, out, _ = farm("run", "tiny.yml", "--engine", "litert", "--json", "--device", "host")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"]) == (1, "unsupported")
    assert row["reason"] == "engine litert takes models of platform tflite, not onnx"


def test_forms_are_made_once_and_one_of_another(tmp_path: Path) -> None:
    model, made = engine_model(tmp_path), []

    def make(path: Path) -> None:
        made.append(path)
        path.write_bytes(model.onnx_file.read_bytes() * 2)

    assert model.made("net.twice", make) == model.made("net.twice", make) and len(made) == 1
    assert (tmp_path / "net.twice").stat().st_size == 2 * len(model.onnx)
    assert json.loads(model.names_file.read_text()) == {"inputs": ["x"], "outputs": ["y"]}


@pytest.mark.parametrize(("flags", "overflow"), [("sse2 avx2", True), ("avx2 avx_vnni", False), ("avx512_vnni", False)])
def test_onnx_runtime_adds_bytes_exactly_where_the_cpu_would_not(tmp_path: Path, flags: str, overflow: bool) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text(f"flags\t\t: {flags}\n")
    assert OnnxRuntimeProgram.bytes_overflow(str(facts)) is overflow


# LiteRT's benchmark_model. Times are microseconds.
BENCHMARK_MODEL = """\
INFO: STARTING!
INFO: Log parameter values verbosely: [0]
INFO: Graph: [net.tflite]
INFO: Loaded model net.tflite
INFO: Applied NNAPI delegate, and the model graph will be partially executed by the delegate w/ 2 delegate kernels.
INFO: The input model file size (MB): 13.96
INFO: Initialized session in 9.875ms.
INFO: Running benchmark for at least 1 iterations and at least 0.5 seconds but terminate if exceeding 150 seconds.
INFO: count=31 first=18200 curr=15877 min=15800 max=18200 avg=16100.5 std=420 p5=15810 median=16010 p95=16900
INFO: Running benchmark for at least 50 iterations and at least 1 seconds but terminate if exceeding 150 seconds.
INFO: count=63 first=15902 curr=15950 min=15790 max=16200 avg=15934.2 std=66 p5=15820 median=15930 p95=16050
INFO: Inference timings in us: Init: 9875, First inference: 18200, Warmup (avg): 16100.5, Inference (avg): 15934.2
INFO: Overall peak memory footprint (MB) via periodic monitoring: 38.5
"""
BENCHNCNN = """\
loop_count = 8
num_threads = 4
powersave = 2
gpu_device = -1
cooling_down = 1
          squeezenet  min =    6.12  max =    6.38  avg =    6.21
           mobilenet  min =    9.05  max =    9.40  avg =    9.17
"""
QNN_NET_RUN = """\
Dsp Driver Path: /vendor/lib64/libcdsprpc.so
Graph: net, execution 1 of 3: 2417 us
Graph: net, execution 2 of 3: 2390 us
Graph: net, execution 3 of 3: 2402 us
Finished Executing Graphs
"""
TOOLS = {
    "benchmark_model": (
        BENCHMARK_MODEL,
        "['--graph={source}', '--use_nnapi=true']",
        {
            "first_us": (r"First inference: (\d+)", "us", [18200.0]),
            "median_us": (r"^INFO: count=\d+ .*median=(\d+) .*\nINFO: Inference timings", "us", [15930.0]),
            "peak_mb": (r"peak memory footprint .*: ([0-9.]+)", "MB", [38.5]),
            "delegate_kernels": (r"delegate w/ (\d+) delegate kernels", "kernels", [2.0]),
        },
    ),
    "benchncnn": (
        BENCHNCNN,
        '["{rounds}", "4", "2", "-1"]',
        {"squeezenet": (r"^ *squeezenet .*avg = +([0-9.]+)", "ms", [6.21])},
    ),
    "qnn-net-run": (
        QNN_NET_RUN,
        "[--backend, libQnnHtp.so, --model, libnet.so]",
        {"execution_us": (r"execution \d+ of \d+: (\d+) us", "us", [2417.0, 2390.0, 2402.0])},
    ),
}


@pytest.mark.slow
def test_a_tool_that_farm_knows_takes_part_in_the_turns(farm: CallFarm, own_folder: Path) -> None:
    write_program(f"cat <<'END'\n{BENCHMARK_MODEL}END", "benchmark_model")
    Path("engines.yml").write_text("engines:\n  tflite: {tool: benchmark_model, program: ./benchmark_model}\n")
    status, row = row_of(farm, "tflite")
    assert (status, row["status"], row["figures"]) == (0, "ok", []), row["reason"]
    assert row["latency_ms"]["samples"] == [pytest.approx(15.9342)]
    assert (row["init_ms"], row["first_ms"]) == (pytest.approx(9.875), pytest.approx(18.2))


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_the_figures_of_a_tool_are_found(farm: CallFarm, own_folder: Path, tool: str) -> None:
    printed, arguments, figures = TOOLS[tool]
    write_program(f"cat <<'END'\n{printed}END", tool)
    lines = [f"      {name}: {{pattern: '{pattern}', unit: {unit}}}" for name, (pattern, unit, _) in figures.items()]
    head = ["engines:", f"  {tool}:", f"    program: {{host: ./{tool}}}", f"    arguments: {arguments}", "    figures:"]
    Path("engines.yml").write_text("\n".join([*head, *lines]) + "\n")
    status, row = row_of(farm, tool)
    assert (status, row["status"], row["engine"]) == (0, "ok", tool)
    assert {each["name"]: each["samples"] for each in row["figures"]} == {
        name: samples for name, (_, _, samples) in figures.items()
    }
    assert row["hashes"]["engine"] and row["settings"]["argv"]
