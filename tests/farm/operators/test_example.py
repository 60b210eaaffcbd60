"""The example of docs/custom-operators.md, as a user would run it."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from farm.config import deployment
from farm.jobs.models.operators import cpu_operators
from farm.jobs.models.prepare import TestData, prepare
from farm.model.fetch import Fetcher
from runtime.convert import convert
from runtime.errors import UnsupportedError
from runtime.lowering.lower import lower
from runtime.native import build
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Precision
from tests.farm.conftest import CallFarm
from tests.farm.emulated_units import EmulatedUnits
from tests.farm.operators.conftest import EXAMPLE, replace
from tests.farm.played_tuning import PlayedTuning

DOCUMENT = Path(__file__).parents[3] / "docs" / "custom-operators.md"
EMBEDDED = Path(build.__file__).parent / "example" / "embedded.c"


def rows(output: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output)["rows"]
    return found


def prepared(file: Path) -> Any:
    source = deployment.load(file)
    return prepare(source, "gated", Fetcher(source))


def test_the_document_shows_the_declaration_of_the_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert (EXAMPLE / "acme_operators.py").read_text() in blocks


@pytest.mark.slow
def test_every_command_of_the_document_is_one_that_runs_here(farm: CallFarm, example: Path) -> None:
    """All but `tune`, which has a test of its own."""
    (block,) = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    commands = re.findall(r"^(farm [^\n#]*)", block, re.MULTILINE)
    ended = {command: farm(*command.split()[1:])[0] for command in commands if " tune " not in command}
    assert len(ended) == 4 and set(ended.values()) == {0}, ended


@pytest.mark.slow
def test_the_example_is_right_on_cpu_and_gpu(farm: CallFarm, example: Path) -> None:
    replace(example / "gated.yml", "runtime: gpu", "runtime: cpu+gpu")
    status, output, _ = farm("run", "gated.yml", "--validate", "--layers", "--json")
    assert status == 0
    assert [(row["runtime"], row["status"]) for row in rows(output)] == [("cpu", "ok"), ("gpu", "ok")]
    assert all(row["cosine"] > 0.99999 for row in rows(output))
    assert "operators" in rows(output)[0]["hashes"]
    status, output, _ = farm("operators", "gated.yml", "--check", "--json")
    checks = json.loads(output)["checks"]
    assert status == 0 and {check["status"] for check in checks} == {"ok"}
    assert {"cpu", "gpu/buffer/fp32", "gpu/buffer/fp16_storage"} <= {check["where"] for check in checks}


@pytest.mark.slow
def test_tuning_finds_the_kernel_and_an_edit_makes_its_entry_void(
    farm: CallFarm, example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PlayedTuning(monkeypatch)
    status, output, _ = farm("tune", "gated.yml", "--level", "quick", "--budget", "8", "--json")
    assert status == 0 and {row["status"] for row in rows(output)} == {"ok"}
    (before,) = rows(farm("run", "gated.yml", "--json")[1])
    replace(example / "gated.cl", "// Gated activation", "// Another gated activation")
    (after,) = rows(farm("run", "gated.yml", "--json")[1])
    assert after["tuned"]["match"] == before["tuned"]["match"]
    assert after["tuned"]["used"] == before["tuned"]["used"] - 1
    assert (before["kernels"]["built"], after["kernels"]["built"]) == (0, 1)


@pytest.mark.slow
def test_forecast_names_the_kernel_and_where_it_runs(farm: CallFarm, example: Path) -> None:
    status, output, _ = farm("forecast", "gated.yml", "--json")
    (row,) = rows(output)
    assert status == 0
    (gated,) = [each for each in row["operators"] if each["type"] == "GatedActivation"]
    assert (gated["device"], gated["kernel"], gated["variant"]) == ("gpu", "gated", "VECTOR4_ITEMS1")


def test_the_converted_graph_keeps_the_users_domain(farm: CallFarm, example: Path) -> None:
    assert farm("convert", "gated.yml")[0] == 0
    written = onnx.load(str(example / "build/acme/model/gated.onnx"))
    onnx.checker.check_model(written)
    assert ("com.acme", "GatedActivation") in {(node.domain, node.op_type) for node in written.graph.node}
    model = prepared(example / "gated.yml")
    again, _ = convert(written, custom=model.custom)
    assert again.nodes == model.graph.nodes


@pytest.mark.slow
def test_the_explanation_of_a_conversion_names_the_module(farm: CallFarm, example: Path) -> None:
    _, output, _ = farm("convert", "gated.yml", "--explain")
    assert "custom operators: 1" in output
    assert "gated: com.acme::GatedActivation of acme_operators.py" in output


def test_the_oracle_is_onnx_runtime_around_the_reference(example: Path) -> None:
    data = TestData(prepared(example / "gated.yml"), {})
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load("gated.onnx").graph.initializer}
    padded = np.pad(data.inputs["image"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    value, gate = (np.einsum("nchwij,ocij->nohw", windows, weights[name]) for name in ("value_weights", "gate_weights"))
    expected = (value * 1.5 / (1 + np.exp(-gate))).mean((2, 3), keepdims=True)
    np.testing.assert_allclose(data.expected["features"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_plan_as_code_holds_the_c_function(farm: CallFarm, example: Path) -> None:
    """A program that links the model needs no library beside it."""
    forms = "model_graph_format: code\nmodel_data_format: code\nmodels:"
    replace(example / "gated.yml", "models:", forms)
    replace(example / "gated.yml", "runtime: gpu", "runtime: cpu")
    assert farm("convert", "gated.yml")[0] == 0
    code = example / "build/acme/code/host"
    names = ['-DMODEL_HEADER="gated.host.cpu.h"', "-DMODEL=gated_host_cpu_options"]
    libraries = [str(code / "libgated.host.cpu.a"), str(code / "libfarmrt.a"), "-lpthread", "-ldl", "-lm"]
    subprocess.run(["cc", f"-I{code}", *names, str(EMBEDDED), *libraries, "-o", "embedded"], check=True)
    data = TestData(prepared(example / "gated.yml"), {})
    done = subprocess.run(["./embedded"], input=data.inputs["image"].tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32), data.expected["features"].reshape(-1), rtol=1e-4)


def test_only_operators_of_farmrt_are_kept_in_a_build(example: Path) -> None:
    replace(example / "gated.yml", "runtime: gpu", "runtime: cpu")
    assert cpu_operators(prepared(example / "gated.yml")) == {"blocked_conv2d", "reduce", "reorder"}


@pytest.mark.slow
def test_without_a_kernel_a_half_plan_calls_the_c_function_in_float(farm: CallFarm, example: Path) -> None:
    text = (example / "acme_operators.py").read_text()
    start, end = text.index("        kernels=["), text.index("        c=CFunction")
    (example / "acme_operators.py").write_text(text[:start] + text[end:])
    replace(example / "gated.yml", "runtime: gpu", "runtime: cpu+gpu")
    replace(example / "gated.yml", "data_type: fp32_fp32", "data_type: fp16_fp32")
    status, output, _ = farm("run", "gated.yml", "--validate", "--json")
    assert status == 0 and [row["status"] for row in rows(output)] == ["ok", "ok"]
    model = prepared(example / "gated.yml")
    target = Target("host", "host", precision=Precision.FP16_STORAGE, allow_cpu=True)
    steps = [step for step in lower(model.graph, target).steps if step.op == "GatedActivation"]
    assert [(step.kind, step.note) for step in steps] == [(StepKind.CPU, "CPU: no OpenCL kernel")]


def lowered_step(example: Path, target: Target) -> Any:
    steps = lower(prepared(example / "gated.yml").graph, target).steps
    return next(step for step in steps if step.op == "GatedActivation")


def test_a_family_has_its_own_default_and_a_variant_that_does_not_fit_is_not_taken(example: Path) -> None:
    rules = """defaults={"adreno": variant(VECTOR=8, ITEMS=4)},
                fits=lambda dims, chosen, target: "too wide" if chosen["VECTOR"] > target.compute_units else "",
                variants="""
    replace(example / "acme_operators.py", "variants=", rules)
    few, many = (Target("any", "host", gpu_family="adreno-6xx", compute_units=units) for units in (4, 8))
    assert lowered_step(example, many).variant.name == "VECTOR8_ITEMS4"
    assert lowered_step(example, few).variant.name == "VECTOR4_ITEMS1"
    assert lowered_step(example, Target("any", "host", gpu_family="mali", compute_units=8)).variant.get("VECTOR") == 4


def test_where_no_variant_fits_the_c_function_takes_over_if_it_may(example: Path) -> None:
    never = 'fits=lambda dims, chosen, target: "this GPU is too small",\n                variants='
    replace(example / "acme_operators.py", "variants=", never)
    step = lowered_step(example, Target("any", "host", allow_cpu=True))
    assert (step.kind, step.note) == (StepKind.CPU, "CPU: this GPU is too small")
    with pytest.raises(UnsupportedError, match=r"\(com.acme::GatedActivation\): this GPU is too small; its C source"):
        lowered_step(example, Target("any", "host"))


@pytest.mark.slow
def test_a_phone_gets_the_library_and_runs_the_c_function(emulated: EmulatedUnits) -> None:
    emulated.phone()
    folder = emulated.folder / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    runpy.run_path(str(folder / "make_model.py"), run_name="__main__")
    replace(folder / "gated.yml", "runtime: gpu", "runtime: cpu")
    result = emulated.farm("run", str(folder / "gated.yml"), "--device", "mi8", "--validate", "--round", "2")
    assert (result.status, result.row["status"], result.row["unit"]) == (0, "ok", "mi8"), result
    assert result.row["cosine"] > 0.99999 and "operators" in result.row["hashes"]
    result = emulated.farm("run", str(folder / "gated.yml"), "--device", "mi8", "--example", "--round", "2")
    assert (result.status, result.row["status"]) == (0, "ok"), result


@pytest.mark.slow
def test_two_versions_of_an_operator_are_compared(farm: CallFarm, example: Path) -> None:
    """Each bundle has its own kernel and its own library; the slower one loses."""
    other = example.parent / "other"
    shutil.copytree(example, other)
    repeated = "for (int again = 0; again < 2000; again++) for (int64_t i"
    replace(other / "gated.c", "for (int64_t i", repeated)
    replace(other / "gated.c", "y[i] = x[i]", "((volatile float *)y)[i] = x[i]")
    for folder in (example, other):
        replace(folder / "gated.yml", "runtime: gpu", "runtime: cpu")
    words = ["compare", str(example / "gated.yml"), str(other / "gated.yml"), "--runtime", "cpu", "--turns", "8"]
    words += ["--num-threads", "1"]  # no thread waits for another one on a busy machine
    status, output, errors = farm(*words, "--json")
    (row,) = json.loads(output)["rows"]
    assert (row["status"], row["outcome"]) == ("ok", "slower"), errors
    assert status == 1
