"""convert, forecast, run, benchmark and opbench on this machine, through the command line."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from farm.model.oracle import expected_outputs
from farm.store import Store
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import tiny_model, write_deployment

pytestmark = [pytest.mark.usefixtures("own_folder"), pytest.mark.opencl]

ROUNDS = {"round", "first_ms", "curr_ms", "min_ms", "max_ms", "avg_ms", "std_ms"}


def rows_of(out: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(out)["rows"]
    return rows


def test_run_validates_against_onnx_runtime(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path)
    status, out, err = farm("run", "tiny.yml", "--validate", "--json", "--round", "3", "--warmup", "2")
    (row,) = rows_of(out)
    assert (status, err, row["status"], row["reason"]) == (0, "", "ok", "")
    assert row["cosine"] > 0.9999 and row["sqnr_db"] > 80 and row["pixel_accuracy"] == 1.0
    assert row["max_abs_error"] < 1e-4 and row["nan_count"] == 0
    assert len(row["latency_ms"]["samples"]) == 3 and row["first_ms"] > 0 and row["init_ms"] > 0
    assert row["latency_ms"]["min"] <= row["latency_ms"]["median"] <= row["latency_ms"]["p90"]
    assert row["fingerprint"]["driver"] and row["settings"]["memory"] == "buffer"
    assert row["state_before"]["load_average"] is not None
    with Store.open() as store:
        assert list(store.rows()) == [row]
        (run,) = store.runs()
    assert (run.name, run.state) == ("run", "finished")
    assert run.command == "farm run tiny.yml --validate --json --round 3 --warmup 2"


@pytest.mark.slow
def test_run_ends_with_a_sentence_and_shows_tables_with_v(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path)
    status, out, _ = farm("run", "tiny.yml", "--round", "2", "--validate", "--device", "host")
    sentence = (
        r"tiny is right on host \(gpu, SQNR \d+ dB\) and takes [\d.]+ ms \(p90 [^)]+\): (\d+) of \1 operators on "
        r"the GPU; next: farm tune tiny.yml --device host\n"
    )
    busy = r"tiny on host \(gpu\): the unit was busy with other work: .*\n"
    assert status == 0 and re.fullmatch(f"(?:{busy})?{sentence}", out)
    out = farm("run", "tiny.yml", "--round", "2", "-v")[1]
    assert out.startswith("Model ") and "Init(ms)" in out and "Peak(MB)" in out
    assert out.endswith("; next: farm run tiny.yml --validate\n")


@pytest.mark.slow
def test_layers_compare_every_operator(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path)
    status, out, _ = farm("run", "tiny.yml", "--layers", "--json")
    (row,) = rows_of(out)
    assert status == 0
    assert row["layers"] == {"compared": 4, "first_departure": None}
    assert row["cosine"] > 0.9999


@pytest.mark.slow
def test_a_threshold_that_no_run_reaches_fails_the_row_and_the_command(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path, data_type="fp16_fp32", validation_threshold="{GPU: 1.0}")
    status, out, err = farm("run", "tiny.yml", "--validate", "--json")
    (row,) = rows_of(out)
    assert (status, row["status"]) == (1, "wrong_result")
    assert "SQNR" in row["reason"]
    assert err == f"tiny on host (gpu): wrong_result: {row['reason']}\n"


@pytest.mark.slow
@pytest.mark.parametrize("layers", [(), ("--layers",)], ids=["outputs", "layers"])
def test_the_operator_that_leaves_halfs_range_is_named(farm: CallFarm, tmp_path: Path, layers: tuple[str, ...]) -> None:
    write_deployment(tmp_path, tiny_model(weights=np.full((4, 3, 3, 3), 6e4)), data_type="fp16_fp32")
    status, out, _ = farm("run", "tiny.yml", "--validate", *layers, "--json")
    (row,) = rows_of(out)
    assert (status, row["status"]) == (1, "wrong_result")
    assert re.search(
        r"NaN and \d+ unexpected infinities in the output; "
        r"the output of operator 'conv' \(Conv\) is the first to leave half's range "
        r"\(reaches \d{3},\d{3} where half holds 65,504\); set data_type: fp32_fp32$",
        row["reason"],
    )


@pytest.mark.slow
def test_nhwc_data_and_given_inputs_reach_the_outputs_in_the_applications_order(farm: CallFarm, tmp_path: Path) -> None:
    keys = {"input_data_formats": "[NHWC]", "output_data_formats": "[NHWC]", "output_shapes": '["1,8,8,4"]'}
    write_deployment(tmp_path, shape="1,8,8,3", outputs="[act]", **keys)
    x = np.random.default_rng(5).normal(size=(1, 8, 8, 3)).astype(np.float32)
    np.save("x.npy", x)
    status, out, _ = farm("run", "tiny.yml", "--validate", "--input", "x=x.npy", "--output-dir", "kept", "--json")
    assert (status, rows_of(out)[0]["status"]) == (0, "ok")
    model = tiny_model()
    model.graph.output.append(onnx.helper.make_tensor_value_info("act", onnx.TensorProto.FLOAT, None))
    expected = expected_outputs(model, {"x": x.transpose(0, 3, 1, 2)})["act"].transpose(0, 2, 3, 1)
    np.testing.assert_allclose(np.load("kept/tiny.host.gpu.act.npy"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_validation_inputs_and_check_tensors_are_used(farm: CallFarm, tmp_path: Path) -> None:
    np.save("given.npy", np.zeros((1, 3, 8, 8), np.float32))
    write_deployment(tmp_path, validation_inputs_data="[given.npy]", check_tensors="[conv]")
    status, out, _ = farm("run", "tiny.yml", "--validate", "--json", "--output-dir", "kept")
    (row,) = rows_of(out)
    assert status == 0
    assert [output["name"] for output in row["outputs"]] == ["y", "conv"]
    kept = np.load("kept/tiny.host.gpu.conv.npy")
    assert np.ptp(kept, axis=(2, 3)).max() < 1e-6  # an empty image leaves the bias everywhere


@pytest.mark.slow
def test_images_and_half_precision_agree_too(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path, data_type="fp16_fp32", winograd="2")
    status, out, err = farm("run", "tiny.yml", "--layers", "--memory", "image", "--json")
    (row,) = rows_of(out)
    assert (status, err, row["settings"]["memory"]) == (0, "", "image")
    assert 30 < row["sqnr_db"] < 100


def _pushed(folder: Path) -> dict[Path, int]:
    """Inodes of the files on the unit, but for the lease's marker, which every run renews."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".lease" not in path.parts)
    return {path: path.stat().st_ino for path in files}


@pytest.mark.slow
def test_a_second_run_pushes_nothing(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path)
    farm("run", "tiny.yml", "--round", "1")
    folder = tmp_path / "build/units/host"
    before = _pushed(folder)
    status, _, _ = farm("run", "tiny.yml", "--round", "1")
    after = _pushed(folder)
    assert status == 0 and len({path for path in before if "objects" in path.parts}) >= 3
    assert after == before


@pytest.mark.slow
def test_benchmark_has_eight_sections_a_trace_and_a_page(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path)
    status, out, _ = farm("benchmark", "tiny.yml", "--round", "4", "--trace", "trace.json", "--html", "page.html")
    assert status == 0
    titles = ("Warm Up", "Run without statistics", "Run with statistics", "Sort by Run Order")
    titles += ("Sort by Computation Time", "Stat by Op Type", "Stat by MACs", "Summary of Ops' Stat")
    positions = [out.index(f"\n{title}") for title in titles]
    assert positions == sorted(positions)
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"][-1] in out
    page = Path("page.html").read_text()
    assert "Roofline" in page and "<circle" in page and "<path d=" in page, "edges and dots come from the plan"


def test_benchmark_rows_have_all_members(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path)
    status, out, _ = farm("benchmark", "tiny.yml", "--round", "4", "--warmup", "2", "--json")
    (row,) = rows_of(out)
    assert status == 0
    for section, rounds in (("warm_up", 2), ("without_statistics", 4), ("with_statistics", 4), ("ops_summary", 4)):
        assert set(row[section]) == ROUNDS and row[section]["round"] == rounds
    for name in ("name", "type", "start_ms", "first_ms", "avg_ms", "macs", "percent", "cdf_percent", "gmacps"):
        assert all(name in op for op in row["ops"])
    assert row["macs"]["total"] == sum(op["macs"] for op in row["ops"]) == 8 * 8 * 4 * 27 + 20
    assert sum(op["percent"] for op in row["ops"]) == pytest.approx(100)
    starts = [op["start_ms"] for op in row["ops"]]
    assert starts == sorted(starts) and starts[0] == 0
    assert row["sum_to_wall"] > 0
    assert {kind["type"] for kind in row["op_types"]} == {op["type"] for op in row["ops"]}


def test_convert_writes_graph_plan_and_weights(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path)
    status, out, _ = farm("convert", "tiny.yml", "--explain")
    assert status == 0
    assert "activation fusion: 1" in out and "act into conv" in out
    assert "    conv: NCHW [" in out
    model = onnx.load("build/tinylib/model/tiny.onnx")
    onnx.checker.check_model(model)
    assert {entry.domain for entry in model.opset_import} >= {"farm"}
    folder = Path("build/tinylib/model/host")
    assert {path.name for path in folder.iterdir()} == {"tiny.host.gpu.plan", "tiny.host.gpu.data"}
    assert (folder / "tiny.host.gpu.plan").read_bytes()[:8] == b"FARMPLAN"


def embed(path: Path, data_format: str) -> None:
    """Asks for code in a deployment file."""
    formats = f"model_graph_format: code\nmodel_data_format: {data_format}\n"
    path.write_text(path.read_text().replace("models:", f"{formats}models:"))


@pytest.mark.slow
@pytest.mark.parametrize("data_format", ["code", "file"])
def test_convert_writes_code(data_format: str, farm: CallFarm, tmp_path: Path) -> None:
    embed(write_deployment(tmp_path), data_format)
    status, out, _ = farm("convert", "tiny.yml", "--json")
    (row,) = rows_of(out)
    folder = Path("build/tinylib/code/host")
    names = ["tiny.host.gpu.h", "tiny.host.gpu.c", "libtiny.host.gpu.a"]
    assert (status, row["code_files"]) == (0, [str(folder / name) for name in names])
    assert {path.name for path in folder.iterdir()} >= {*names, "farmrt.h", "libfarmrt.a"}
    assert ("data_path must name tiny.host.gpu.data" in (folder / names[0]).read_text()) == (data_format == "file")
    assert Path(row["plan_file"]).is_file() and Path(row["data_file"]).is_file()


def test_convert_without_anything_to_lower_for_makes_the_graph_only(farm: CallFarm, tmp_path: Path) -> None:
    path = write_deployment(tmp_path)
    path.write_text(path.read_text().replace("[host]", "[arm64-v8a]"))
    status, out, _ = farm("convert", "tiny.yml", "--skip-missing", "--json")
    (row,) = rows_of(out)
    assert (status, row["graph_file"], row["plan_file"]) == (0, "build/tinylib/model/tiny.onnx", "")
    assert farm("run", "tiny.yml")[0] == 3


@pytest.mark.slow
def test_forecast_tells_what_will_run_where(farm: CallFarm, tmp_path: Path) -> None:
    write_deployment(tmp_path, runtime="cpu+gpu")
    status, out, _ = farm("forecast", "tiny.yml", "--json")
    cpu, gpu = rows_of(out)
    assert status == 0
    assert {op["device"] for op in cpu["operators"]} == {"cpu"} and cpu["cpu_fallbacks"] == 0
    assert {op["device"] for op in gpu["operators"]} == {"gpu"}
    assert gpu["macs"] == 8 * 8 * 4 * 27 + 20
    aligned = 128 * len(gpu["operators"])  # memory that is shared begins at multiples of 128 bytes
    assert 0 < gpu["activations_peak_bytes"] <= gpu["activations_sum_bytes"] + aligned
    assert not Path("reports").exists()
    status, out, _ = farm("forecast", "tiny.yml")
    assert "activations, memory shared (peak)" in out and "Conv2D" in out


@pytest.mark.slow
def test_opbench_times_what_the_filter_names(farm: CallFarm) -> None:
    arguments = ("--filter", "^unary/buffer/fp32/Relu", "--memory", "buffer", "--precision", "fp32")
    status, names, _ = farm("opbench", *arguments, "--list")
    assert status == 0 and len(names.splitlines()) == 1
    status, out, _ = farm("opbench", *arguments, "--min-time", "0.01", "--json")
    (row,) = rows_of(out)
    assert (status, row["model"], row["status"]) == (0, names.strip(), "ok")
    assert row["iterations"] > 1 and row["min_ns"] <= row["time_ns"]
    assert set(row["hashes"]) == {"farmrt", "plan", "weights"}
    assert row["input_mb_s"] == pytest.approx(4 * 64 * 56 * 56 / row["time_ns"] * 1e3)
    status, out, _ = farm("opbench", *arguments, "--min-time", "0.01")
    assert out.splitlines()[0].split(" | ")[1:] == ["Time(ns)", "Iterations", "Input(MB/s)", "GMACPS", "Spread(%)"]
