"""`farm run --engine`: other engines' rows, good and bad, on this machine."""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from farm.config import deployment
from farm.engines import registry
from farm.engines.registry import NamedEngine
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.engines import played_engines
from tests.farm.forks import ForkedProcess
from tests.farm.model.tiny_model import model_of, write_deployment

offered = played_engines.offered


def rows_of(farm: CallFarm, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    status, out, _ = farm("run", "tiny.yml", "--json", *arguments)
    return status, json.loads(out)["rows"]


@pytest.mark.slow
@pytest.mark.opencl
def test_a_model_runs_in_both_engines(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu+gpu", engine="[onnxruntime, farmrt]")
    status, rows = rows_of(
        farm, "--validate", "--device", "host", "--round", "4", "--num_threads", "1", "--output_dir", "o"
    )
    assert status == 0
    assert [(row["engine"], row["runtime"]) for row in rows] == [
        ("onnxruntime", "cpu"),
        ("farmrt", "cpu"),
        ("farmrt", "gpu"),
    ]
    row = rows[0]
    assert row["sqnr_db"] > 100 and len(row["latency_ms"]["samples"]) == 4 and row["init_ms"] > 0 < row["first_ms"]
    assert not {"data_type", "winograd"} & set(row["settings"]) and rows[1]["settings"]["data_type"] == "fp32_fp32"
    assert row["settings"]["num_threads"] == 1 and row["versions"]["onnxruntime"]
    assert (
        set(row["hashes"]) == {"engine", "model"}
        and row["file_bytes"]["engine"] > 1e6 < row["peak_memory"]["resident_bytes"]
    )
    np.testing.assert_allclose(np.load("o/tiny.host.cpu.onnxruntime.y.npy"), np.load("o/tiny.host.cpu.y.npy"), 1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("offered")
def test_what_goes_wrong_is_one_row_each_and_the_others_go_on(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    named = ("crashes", "absent", "refuses", "babbles", "misshapen", "wrong", "onnxruntime")
    status, rows = rows_of(farm, "--validate", *(word for name in named for word in ("--engine", name)))
    found = {row["engine"]: (row["status"], row["reason"]) for row in rows}
    assert status == 1 and list(found) == list(named)
    assert found["onnxruntime"] == ("ok", "")
    assert found["crashes"] == ("failed", "crashes: ended with exit status 134 (SIGABRT): last words")
    needs = "engine absent needs no_such_engine, which is not installed: pip install no_such_engine"
    assert found["absent"] == ("failed", needs)
    assert found["refuses"] == ("unsupported", "refuses refuses the model: NotImplementedError: no kernel for Erf")
    assert found["babbles"] == ("failed", "babbles: printed what is no answer: 42 ms, thank you")
    assert found["misshapen"] == ("failed", "misshapen: output y has the shape (5,), not (1, 5)")
    assert found["wrong"][0] == "wrong_result"


@pytest.mark.slow
@pytest.mark.usefixtures("offered")
def test_an_engine_that_hangs_is_ended_with_all_that_it_started(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    status, (row,) = rows_of(farm, "--engine", "hangs", "--round-limit", "1")
    assert (status, row["status"]) == (1, "timeout")
    assert (
        row["reason"].startswith("hangs: did not run a round within 1 s; a round may go 1 s")
        and "--round-limit" in (row["reason"])
    )
    assert not _is_running(int(Path("build/units/host/child").read_text()))


@pytest.mark.slow
def test_an_engine_never_outlives_its_lease(farm: CallFarm, own_folder: Path) -> None:
    """Farm is killed while a program runs that nothing in the unit's folder is any more; the next lease ends it."""
    write_deployment(own_folder, runtime="cpu")
    figures = "    figures:\n      latency_ms: {pattern: '([0-9]+) ms', unit: ms}\n"
    Path("engines.yml").write_text(f"engines:\n  sleeper:\n    program: ./sleeper\n{figures}")
    Path("sleeper").write_text("#!/bin/sh\necho $$ >number.partial\nmv number.partial number\nexec sleep 600\n")
    Path("sleeper").chmod(0o755)
    words = ("run", "tiny.yml", "--device", "host", "--engine")
    process = ForkedProcess([sys.executable, "-P", "-c", "from farm.cli import main; main()", *words, "sleeper"])
    number, end_s = Path("build/units/host/number"), time.monotonic() + 120
    while not number.exists():
        assert process.poll() is None and time.monotonic() < end_s
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert _is_running(int(number.read_text()))
    status, _, err = farm(*words, "onnxruntime", "--wait", "120")
    assert status == 0, err
    assert not _is_running(int(number.read_text()))


def _is_running(number: int) -> bool:
    """Whether a process runs; where nobody waits for it it stays as a zombie."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.slow
def test_an_engine_refuses_a_runtime_that_it_lacks(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="gpu")
    status, (row,) = rows_of(farm, "--engine", "onnxruntime")
    assert (status, row["status"], row["runtime"]) == (1, "unsupported", "gpu")
    assert row["reason"] == "engine onnxruntime runs models on cpu, not on gpu"


@pytest.mark.parametrize("option", [("--layers",), ("--example",), ("--input_dir", ".")])
def test_what_only_farmrt_can_do_is_refused(farm: CallFarm, own_folder: Path, option: tuple[str, ...]) -> None:
    write_deployment(own_folder)
    np.save("x_1.npy", np.zeros((1, 3, 8, 8), np.float32))
    status, _, err = farm("run", "tiny.yml", "--engine", "onnxruntime", *option)
    assert status == 2
    assert f"{option[0]} is for farmrt alone, and the engine onnxruntime is asked for" in err


def test_an_unknown_engine_is_one_line(farm: CallFarm, own_folder: Path) -> None:
    path = write_deployment(own_folder, engine="onxruntime")
    status, _, err = farm("run", "tiny.yml")
    assert status == 2
    line = 1 + [line.strip() for line in path.read_text().splitlines()].index("engine: onxruntime")
    assert f"tiny.yml:{line}: models.tiny.engine: 'onxruntime' is no engine, did you mean 'onnxruntime'?" in err
    status, _, err = farm("run", "tiny.yml", "--engine", "frmrt")
    assert status == 2 and "'frmrt' is no engine, did you mean 'farmrt'?" in err


def test_engines_are_one_word_or_a_list(own_folder: Path) -> None:
    for text in ("farmrt,onnxruntime", "[farmrt, onnxruntime]"):
        path = write_deployment(own_folder, engine=text)
        assert deployment.load(path).models["tiny"].engine == ("farmrt", "onnxruntime")


def test_installed_packages_offer_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    played_engines.offer(monkeypatch, "WRONG")
    assert registry.engines()["wrong"] is played_engines.WRONG
    played_engines.offer(monkeypatch, "BAD")
    with pytest.raises(ConfigError, match=r"entry point BAD of farm.engines \(.*\) is no Engine"):
        registry.engines()
    played_engines.offer(monkeypatch, "NONE")
    with pytest.raises(ConfigError, match=r"entry point NONE of farm\.engines"):
        registry.engines()
    registry.adapters.cache_clear()


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("ncnn:precision=fp61", "engine 'ncnn:precision=fp61': precision is fp32 or fp16 or bf16, not fp61"),
        ("ncnn:precison=fp16", "has no option precison, did you mean 'precision'?"),
        ("onnxruntime:session.=1", "has no option session."),
        ("executorch:threads=2", "has no option threads"),
        ("ncnn:fp16", "'fp16' is no option; write ncnn:KEY=VALUE"),
        ("ncnn:precision=fp16:precision=fp32", "the option precision is given twice"),
        ("ncn:precision=fp16", "'ncn' is no engine"),
    ],
)
def test_a_mistake_is_one_line(farm: CallFarm, own_folder: Path, word: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NamedEngine.of(word)
    assert problem in str(caught.value)
    write_deployment(own_folder, runtime="cpu")
    status, _, err = farm("run", "tiny.yml", "--engine", word)
    assert status == 2 and problem in err and len(err.strip().splitlines()) == 1


def test_options_come_with_the_engine() -> None:
    named = NamedEngine.of("onnxruntime:provider=QNN:provider.backend_path=/vendor/libQnnHtp.so:session.a=1")
    assert named.engine.name == "onnxruntime"
    assert named.options == {"provider": "QNN", "provider.backend_path": "/vendor/libQnnHtp.so", "session.a": "1"}


@pytest.mark.slow
def test_one_engine_with_two_options_is_two_rows(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu", engine="[onnxruntime, 'onnxruntime:provider=NoSuch']")
    status, (plain, other) = rows_of(farm, "--validate", "--device", "host", "--output_dir", "o")
    assert status == 1 and (plain["status"], plain["engine"]) == ("ok", "onnxruntime")
    assert plain["settings"]["nodes"] == {"CPUExecutionProvider": 5} and plain["versions"]["onnxruntime"]
    assert (other["status"], other["engine"]) == ("unsupported", "onnxruntime:provider=NoSuch")
    assert "this build has no execution provider NoSuch; it has" in other["reason"]


@pytest.mark.slow
def test_an_affinity_holds_or_is_refused(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")
    Path("engines.yml").write_text(
        "engines:\n  cpus:\n    program: sh\n"
        "    arguments: [-c, \"grep Cpus_allowed_list /proc/self/status | tr -d '[:alpha:]:_'\"]\n"
        "    figures:\n      cpu: {pattern: '^\\s*([0-9]+)$'}\n"
    )
    status, (row,) = rows_of(farm, "--engine", "cpus", "--cpu_affinity_policy", "1-1")
    assert status == 0 and row["figures"][0]["value"] == 1.0
    status, (row,) = rows_of(farm, "--engine", "cpus", "--cpu_affinity_policy", "big_only")
    assert (status, row["status"]) == (1, "unsupported")
    assert row["reason"] == "engine cpus: cpu_affinity_policy big_only is for farmrt; name the CPUs: 4-7"


@pytest.mark.slow
def test_bytes_do_not_saturate_in_onnx_runtime(farm: CallFarm, own_folder: Path) -> None:
    """Products of 255 and 127: two of them are more than 16 bits hold, which CPUs without VNNI add them in."""
    import onnx

    kind = onnx.TensorProto
    nodes = [onnx.helper.make_node("MatMulInteger", ["a", "w"], ["y"])]
    weights = onnx.numpy_helper.from_array(np.full((64, 16), 127, np.int8), "w")
    model = model_of(
        nodes,
        [onnx.helper.make_tensor_value_info("a", kind.UINT8, [4, 64])],
        [onnx.helper.make_tensor_value_info("y", kind.INT32, [4, 16])],
    )
    model.graph.initializer.append(weights)
    from farm.engines.onnxruntime import OnnxRuntimeProgram

    onnx.save(model, "bytes.onnx")
    engine = OnnxRuntimeProgram({"model": "bytes.onnx"}, 1)
    value = np.full((4, 64), 255, np.uint8)
    assert (engine.run({"a": value})["y"] == 64 * 255 * 127).all()
