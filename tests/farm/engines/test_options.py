"""Options of engines: checked, handed to the program on the unit, and told in the row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm.engines.registry import NamedEngine
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.engines.test_engines import rows_of
from tests.farm.model.tiny_model import model_of, write_deployment


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
