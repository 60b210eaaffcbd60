"""`farm quantize`: a model in eight bits from samples, and what is said of bad ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from farm import cli
from farm.config import deployment
from farm.jobs.models.prepare import Prepared, Tell, prepare
from farm.jobs.tune import layer_times
from farm.model.fetch import Fetcher
from farm.quantization import calibration, qdq, quantizer, range_file
from farm.quantization.cheapest import LayerTimes
from runtime.host.onnx_runtime import onnxruntime
from tests.farm.model.tiny_model import tiny_model, write_deployment
from tests.farm.quantization.test_equalization import uneven_model

COUNT = 4
SHAPE = (1, 3, 8, 8)


@pytest.fixture(autouse=True)
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """A tiny model in a folder of its own, with a few samples in `data`."""
    monkeypatch.chdir(tmp_path)
    write_deployment(Path(), runtime="cpu")
    Path("data").mkdir()
    random = np.random.default_rng(0)
    arrays = [random.normal(0, 1, SHAPE).astype(np.float32) for _ in range(COUNT)]
    for number, array in enumerate(arrays):
        np.save(f"data/x_{number}.npy", array)
    return arrays


@pytest.fixture
def quantize(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `farm quantize tiny.yml`; returns exit status, the row (none: the error) and stderr."""

    def run(*words: str, data: str = "data") -> tuple[int, Any, str]:
        given = ["--data", data] if data else []
        status = cli.call(["quantize", "tiny.yml", "--json", *given, *words])
        said = capsys.readouterr()
        document = json.loads(said.out)
        return status, document["rows"][0] if document["rows"] else document["error"]["message"], said.err

    return run


def outputs(file: str, arrays: list[np.ndarray]) -> np.ndarray:
    """What ONNX Runtime makes of samples, each operator as the model has it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])
    return np.concatenate([session.run(["y"], {"x": array})[0] for array in arrays])


def sqnr_db(expected: np.ndarray, actual: np.ndarray) -> float:
    return float(10 * np.log10((expected**2).sum() / ((expected - actual) ** 2).sum()))


def test_the_file_is_what_the_row_says(quantize: Any, samples: list[np.ndarray]) -> None:
    status, row, _ = quantize("-o", "q.onnx")
    assert (status, row["status"], row["samples"]) == (0, "ok", COUNT)
    operators = [node.op_type for node in onnx.load("q.onnx").graph.node]
    assert {"QuantizeLinear", "DequantizeLinear", "Conv", "Gemm"} <= set(operators) and "Relu" not in operators
    Path("float.onnx").write_bytes(tiny_model(batch=1).SerializeToString())
    found = sqnr_db(outputs("float.onnx", samples), outputs("q.onnx", samples))
    assert row["after_db"] == pytest.approx(found, abs=0.1) and 35 < found < 60
    assert row["quantized_bytes"] == Path("q.onnx").stat().st_size
    assert [layer["name"] for layer in row["layers"]] == ["conv", "mean", "gemm"]
    assert all(layer["alone_db"] > row["after_db"] - 1 for layer in row["layers"])
    assert sum(row["layers"][0]["histogram"]) == COUNT * 4 * 8 * 8


@pytest.mark.slow
def test_ranges_are_those_of_the_values(quantize: Any, samples: list[np.ndarray]) -> None:
    _, row, _ = quantize("-o", "q.onnx")
    ranges = range_file.read(Path(row["ranges_file"]))
    low, high = ranges["x"]
    assert low == min(array.min() for array in samples) and high == max(array.max() for array in samples)
    assert ranges["act"][0] == 0.0


@pytest.mark.slow
def test_layers_alone_are_tried_as_a_file_without_the_others_is(quantize: Any, samples: list[np.ndarray]) -> None:
    _, whole, _ = quantize("-o", "q.onnx")
    _, row, _ = quantize("-o", "alone.onnx", "--keep", "act,y")
    assert [layer["in_float"] for layer in row["layers"]] == ["kept by --keep", "", "kept by --keep"]
    assert row["after_db"] == pytest.approx(whole["layers"][1]["alone_db"], abs=0.05)
    Path("float.onnx").write_bytes(tiny_model(batch=1).SerializeToString())
    found = sqnr_db(outputs("float.onnx", samples), outputs("alone.onnx", samples))
    assert row["after_db"] == pytest.approx(found, abs=0.1)


@pytest.mark.slow
def test_the_worst_layers_stay_in_float_until_the_budget_holds(quantize: Any) -> None:
    _, whole, _ = quantize("-o", "q.onnx")
    worst = min(whole["layers"], key=lambda layer: layer["alone_db"])
    status, row, _ = quantize("-o", "q.onnx", "--budget-sqnr", str(whole["after_db"] + 3))
    assert status == 0 and row["after_db"] >= whole["after_db"] + 3
    assert row["before_db"] == pytest.approx(whole["after_db"])
    kept = [layer["name"] for layer in row["layers"] if layer["in_float"]]
    assert worst["name"] in kept and len(kept) < 3


@pytest.mark.slow
def test_a_budget_that_no_layer_keeps_writes_nothing(quantize: Any) -> None:
    status, row, _ = quantize("-o", "q.onnx", "--budget-sqnr", "150")
    assert (status, row["status"]) == (1, "failed") and "within the budget" in row["reason"]
    assert not Path("q.onnx").exists() and not Path("q.ranges").exists()


@pytest.mark.slow
@pytest.mark.parametrize("bits", ["int8", "int4"])
def test_weights_alone_need_no_samples(quantize: Any, samples: list[np.ndarray], bits: str) -> None:
    status, row, _ = quantize("-o", "q.onnx", "--weights-only", bits, data="")
    assert status == 0 and row["after_db"] is None
    operators = [node.op_type for node in onnx.load("q.onnx").graph.node]
    assert operators.count("DequantizeLinear") == 2 and "QuantizeLinear" not in operators
    Path("float.onnx").write_bytes(tiny_model(batch=1).SerializeToString())
    found = sqnr_db(outputs("float.onnx", samples), outputs("q.onnx", samples))
    assert found > {"int8": 40, "int4": 20}[bits]


@pytest.mark.slow
def test_weights_in_seven_bits(quantize: Any) -> None:
    largest = []
    for words in ("", "--reduce-range"):
        status, row, _ = quantize("-o", "q.onnx", *words.split())
        assert (status, row["status"]) == (0, "ok") and row["after_db"] > 30
        initializers = map(onnx.numpy_helper.to_array, onnx.load("q.onnx").graph.initializer)
        largest.append(max(int(np.abs(each).max()) for each in initializers if each.dtype == np.int8))
    assert largest == [127, 64]


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--weights-only int4", "--weights-only int8", "--per-channel"])
def test_corrected_biases_leave_no_mean_error(quantize: Any, samples: list[np.ndarray], words: str) -> None:
    """Of the first layer, which reads what it reads in float: its other errors are those of the activation alone."""
    assert quantize("-o", "plain.onnx", *words.split())[0] == 0
    assert quantize("-o", "corrected.onnx", "--correct-bias", *words.split())[0] == 0
    errors = []
    for file in ("plain.onnx", "corrected.onnx"):
        weight, bias = first_layer(file)
        exact, own = first_layer_of_float()
        products = [convolved(array, weight - exact) for array in samples]
        errors.append(np.abs(np.mean(products, (0, 1, 3, 4)) + bias - own).max())
    step = 0.001 if "only" not in words else 1e-6
    assert errors[1] < step and errors[0] > 3 * errors[1]


def test_adaptive_rounding_moves_weights_and_says_what_it_gains(quantize: Any, samples: list[np.ndarray]) -> None:
    found = []
    for rounding in ("nearest", "adaptive"):
        status, row, _ = quantize("-o", f"{rounding}.onnx", "--weights-only", "int4", "--rounding", rounding)
        assert status == 0
        found.append([(layer["after_db"], layer["rounding_db"]) for layer in row["layers"]])
    assert [gain for _, gain in found[0]] == [None, None] and all(gain > 0 for _, gain in found[1])
    assert found[1][0][0] > found[0][0][0]  # the first one reads what it reads in float
    Path("float.onnx").write_bytes(tiny_model(batch=1).SerializeToString())
    real = sqnr_db(outputs("float.onnx", samples), outputs("adaptive.onnx", samples))
    assert row["after_db"] == pytest.approx(real, abs=0.1)


def first_layer(file: str) -> tuple[np.ndarray, np.ndarray]:
    """Filters and bias of the convolution in a quantised file, as floats."""
    model = onnx.load(file)
    values = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    values |= qdq.dequantized_weights(model)
    (node,) = (each for each in model.graph.node if each.op_type == "Conv")
    return tuple(values[qdq.dequantized_name(name)] for name in node.input[1:3])  # type: ignore[return-value]


def first_layer_of_float() -> tuple[np.ndarray, np.ndarray]:
    weight, bias = (onnx.numpy_helper.to_array(each) for each in tiny_model().graph.initializer[:2])
    return weight, bias


def convolved(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, filters)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "--correct-bias"])
def test_equalised_layers_lose_less(quantize: Any, more: str) -> None:
    write_deployment(Path(), uneven_model(SHAPE[0]), runtime="cpu")
    _, plain, _ = quantize("-o", "q.onnx", *more.split())
    status, row, _ = quantize("-o", "equalised.onnx", "--equalize", *more.split())
    assert status == 0 and row["after_db"] > plain["after_db"] + 6
    assert row["ranges_file"] == "" and not Path("equalised.ranges").exists()  # they are not those of the float model
    assert cli.call(["run", "equalised.onnx", "--validate", "--device", "host"]) == 0


@pytest.mark.slow
def test_both_models_are_timed_on_a_unit(quantize: Any) -> None:
    _, row, _ = quantize("--device", "host")
    (speed,) = row["speeds"]
    assert (speed["unit"], speed["runtime"], speed["reason"]) == ("host", "cpu", "")
    assert min(speed["float_ms"], speed["ms"], speed["over_float"]) > 0
    assert "Medians of rounds in milliseconds" in Path("reports/quantize.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", "--per-channel --method mse", "--weights-only int8", "--weights-only int4"])
def test_what_is_written_runs_and_is_right(quantize: Any, words: str) -> None:
    _, row, _ = quantize("-o", "q.onnx", *words.split())
    assert row["status"] == "ok"
    assert cli.call(["run", "q.onnx", "--validate", "--device", "host"]) == 0


@pytest.mark.slow
def test_an_interrupted_call_goes_on_with_the_samples_that_are_missing(
    quantize: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole, _ = quantize("-o", "whole.onnx")
    Path("build/tinylib/quantized/tiny.npz").unlink()
    count, counted = calibration.Calibration._count, []

    def interrupted(own: calibration.Calibration, inputs: Any) -> None:
        if len(counted) == 2:
            raise KeyboardInterrupt
        counted.append(inputs)
        count(own, inputs)

    monkeypatch.setattr(calibration.Calibration, "_count", interrupted)
    assert cli.call(["quantize", "tiny.yml", "--data", "data", "-o", "q.onnx"]) == 130
    assert not Path("q.onnx").exists()
    monkeypatch.setattr(calibration.Calibration, "_count", lambda own, each: (counted.append(each), count(own, each)))
    _, row, _ = quantize("-o", "q.onnx")
    assert len(counted) == COUNT and row["layers"] == whole["layers"]
    assert Path("q.onnx").read_bytes() == Path("whole.onnx").read_bytes()


@pytest.mark.slow
def test_ranges_of_a_file_take_the_place_of_samples(quantize: Any) -> None:
    quantize("-o", "q.onnx")
    status, row, _ = quantize("-o", "again.onnx", "--ranges", "q.ranges", data="")
    assert status == 0 and row["samples"] == 0 and row["layers"][0]["high"] > 0
    assert Path("again.onnx").read_bytes() == Path("q.onnx").read_bytes()


@pytest.mark.slow
def test_saturated_layers_are_told_by_name(quantize: Any) -> None:
    Path("narrow").write_text("x@@-4,4\nact@@0,1\nconv@@0,1\nmean@@0,1\nflat@@0,1\ny@@-3,3\n")
    status, row, said = quantize("-o", "q.onnx", "--ranges", "narrow")
    assert status == 0 and row["layers"][0]["clipped_percent"] > 1 and Path("q.onnx").is_file()
    (note,) = row["notes"]
    assert re.fullmatch(
        r"layer 'conv' is saturated: [\d.]+ % of the values of 'act' lie outside of 0 to 1; widen it in narrow", note
    )
    assert said == f"note: tiny: {note}\n"


@pytest.mark.slow
def test_an_input_beyond_its_range_saturates_the_layer_that_reads_it(quantize: Any) -> None:
    Path("narrow").write_text("x@@-1,1\nact@@0,9\nconv@@0,0.1\nmean@@0,9\nflat@@0,9\ny@@-9,9\n")
    _, row, said = quantize("-o", "q.onnx", "--ranges", "narrow")
    assert said.count("\n") == len(row["notes"]) == 1
    assert re.match(
        r"note: tiny: layer 'conv' is saturated: 3\d\.\d % of the values of 'x' lie outside of -1 to 1", said
    )


@pytest.mark.slow
def test_an_output_that_is_mostly_noise_says_what_may_help(quantize: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.quantization.quantizer.FAITHFUL_DB", 90.0)
    _, row, said = quantize("-o", "q.onnx")
    assert f"note: tiny: an output of {row['after_db']:.1f} dB is little like the float one: --per-channel" in said
    assert "note" not in quantize("-o", "q.onnx", "--budget-sqnr", "5")[2]


BAD = {
    "no samples": ("rm", "no sample is there; a sample NAME is x_NAME.npy"),
    "another shape": ("shape", "holds float32 [1, 3, 8, 7]; the input 'x' is float32 [1, 3, 8, 8]"),
    "NaN": ("nan", "holds NaN"),
    "a constant image": ("constant", "'x' is 0.5 everywhere in 4 samples: such ranges mean nothing"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_samples_are_one_line(quantize: Any, name: str) -> None:
    kind, told = BAD[name]
    for path in sorted(Path("data").iterdir()):
        array = np.load(path)
        if kind == "rm":
            path.unlink()
        else:
            changed = {"shape": array[..., :7], "nan": array * np.nan, "constant": np.full_like(array, 0.5)}
            np.save(path, changed[kind])
    status, error, said = quantize("-o", "q.onnx")
    assert status == 2 and told in error and said.count("\n") == 1
    assert not Path("q.onnx").exists()


WRONG = {
    "no data": ([], "", "--data DIR is needed"),
    "a budget without data": (["--weights-only", "int8", "--budget-sqnr", "30"], "", "a budget needs --data DIR"),
    "rounding without data": (
        ["--weights-only", "int8", "--rounding", "adaptive"],
        "",
        "--rounding adaptive needs --data DIR",
    ),
    "biases without data": (["--weights-only", "int8", "--correct-bias"], "", "--correct-bias needs --data DIR"),
    "equalised layers with ranges": (
        ["--equalize", "--ranges", "down"],
        "data",
        "down: --equalize changes what layers",
    ),
    "nothing to equalise": (["--equalize"], "data", "tiny.yml: tiny: --equalize: no two layers"),
    "a name of nothing": (["--keep", "comv"], "data", "--keep comv: no layer that is quantised has this name"),
    "a line that is no range": (["--ranges", "broken"], "data", "broken:2: NAME@@LOWEST,HIGHEST is expected"),
    "a missing range": (["--ranges", "short"], "data", "short: no range of 'act'"),
    "a range of no number": (["--ranges", "nan"], "data", "nan:1: NAME@@LOWEST,HIGHEST is expected"),
    "no number": (["--budget-sqnr", "nan"], "data", "--budget-sqnr: a number from -300 to 300 is expected, not 'nan'"),
    "a range upside down": (["--ranges", "down"], "data", "down:1: the range of 'x' ends below its beginning"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_one_line(quantize: Any, name: str) -> None:
    Path("broken").write_text("x@@-1,1\nact@@nothing\n")
    Path("short").write_text("x@@-1,1\nconv@@0,1\ny@@-1,1\nmean@@0,1\nflat@@0,1\n")
    Path("down").write_text("x@@1,-1\n")
    Path("nan").write_text("x@@nan,1\n")
    words, data, told = WRONG[name]
    status, error, said = quantize("-o", "q.onnx", *words, data=data)
    assert status == 2 and told in error and said.count("\n") == 1
    assert not Path("q.onnx").exists()


@pytest.mark.slow
def test_a_model_that_is_quantised_already_is_refused(quantize: Any) -> None:
    quantize("-o", "tiny.onnx")
    status, error, _ = quantize("-o", "q.onnx")
    assert status == 2 and "quantised already" in error


@pytest.mark.slow
def test_a_deployment_file_with_ranges_runs_in_eight_bits(quantize: Any, capsys: pytest.CaptureFixture[str]) -> None:
    quantize("-o", "q.onnx")
    keys = {"quantize_range_file": "q.ranges", "quantize": "1"}
    write_deployment(Path(), runtime="cpu", **keys)
    assert cli.call(["run", "tiny.yml", "--validate", "--device", "host"]) == 0
    capsys.readouterr()
    prepared = prepare(deployment.load(Path("tiny.yml")), "tiny", Fetcher(deployment.load(Path("tiny.yml"))))
    assert prepared.source.SerializeToString() == onnx.load("q.onnx").SerializeToString()
    status, row, _ = quantize("-o", "again.onnx", data="")
    assert (status, row["settings"]["ranges"]) == (0, "q.ranges")
    assert Path("again.onnx").read_bytes() == Path("q.onnx").read_bytes()
    Path("q.ranges").write_text("x@@0,1\n")
    assert cli.call(["run", "tiny.yml", "--device", "host"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["cpu", "gpu"])
def test_a_deployment_file_may_ask_for_weights_in_eight_bits(runtime: str) -> None:
    write_deployment(Path(), runtime=runtime, data_type="fp32_fp32", quantize_large_weights="1")
    assert cli.call(["run", "tiny.yml", "--validate", "--device", "host"]) == 0
    loaded = deployment.load(Path("tiny.yml"))
    weights = [each for each in prepare(loaded, "tiny", Fetcher(loaded)).source.graph.initializer if each.dims]
    assert any(each.data_type == onnx.TensorProto.INT8 for each in weights)


def within(tell: Tell = lambda text: None, **keys: str) -> Prepared:
    """The tiny model with at most so much noise, its samples in `data`."""
    write_deployment(Path(), runtime="cpu", quantize_samples="data", **keys)
    loaded = deployment.load(Path("tiny.yml"))
    return prepare(loaded, "tiny", Fetcher(loaded), tell=tell)


def test_a_key_says_how_much_noise_is_allowed(quantize: Any, samples: list[np.ndarray]) -> None:
    """The reference: what `farm quantize` with the same budget makes."""
    _, row, _ = quantize("-o", "q.onnx", "--per-channel", "--budget-sqnr", "46")
    kept = [layer["name"] for layer in row["layers"] if layer["in_float"]]
    assert 0 < len(kept) < len(row["layers"])
    prepared = within(quantize_within=str(10 ** (-46 / 20)))
    assert prepared.quantized.startswith(f"{3 - len(kept)} of 3 layers in eight bits; the worst output's noise is ")
    Path("within.onnx").write_bytes(prepared.source.SerializeToString())
    np.testing.assert_array_equal(outputs("within.onnx", samples), outputs("q.onnx", samples))
    (made,) = Path("build").glob("*/quantized/tiny.within.onnx")
    kept_ns = made.stat().st_mtime_ns
    within(quantize_within=str(10 ** (-46 / 20)))
    assert made.stat().st_mtime_ns == kept_ns, "nothing has changed"
    assert within(quantize_within="0.2").quantized.startswith("3 of 3 layers")


def test_no_layer_is_in_eight_bits_where_none_keeps_the_limit() -> None:
    prepared = within(quantize_within="0.000001")
    assert prepared.quantized.startswith("no layer is in eight bits: no layer can be quantised within the budget")
    assert not prepared.is_quantized


def test_what_is_chosen_beyond_the_limit_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice is by sums of noise; the model that is written has the last word."""
    within(quantize_within="0.05")
    (file,) = Path("build").glob("*/quantized/tiny.within.onnx")
    LayerTimes(in_bytes={}, in_float={}).keep(file.with_name("tiny.times.json"))
    monkeypatch.setattr(quantizer, "cheapest_in_float", lambda *given: frozenset())
    told: list[str] = []
    said = within(told.append, quantize_within=str(10 ** (-46 / 20))).quantized
    found = re.match(r"(\d) of 3 layers in eight bits; the worst output's noise is ([\d.]+) % of its norm", said)
    assert found and int(found[1]) < 3 and float(found[2]) <= 100 * 10 ** (-46 / 20)
    checks = [text for text in told if "check: " in text]
    assert checks[:2] == [f"tiny: check: {left} of 3 layers in eight bits" for left in (3, 2)]


@pytest.mark.slow
def test_tuning_chooses_by_time_within_the_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversion costs nothing only where there is none: with VNNI the convolution rounds what it reads."""
    converts: list[bool] = []
    of_rows = layer_times.layer_times

    def layer_times_of(*given: Any) -> LayerTimes:
        converts.append(any("Quantize" in op.type for row in given[-1] for op in row.ops))
        return of_rows(*given)

    monkeypatch.setattr(layer_times, "layer_times", layer_times_of)
    within(quantize_within="0.05")
    assert cli.call(["tune", "tiny.yml", "--device", "host", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    (file,) = Path("build").glob("*/quantized/tiny.times.json")
    times = json.loads(file.read_bytes())
    assert set(times["in_bytes"]) == set(times["in_float"]) == {"conv", "mean", "gemm"}
    assert sum(times["in_float"].values()) > 0.5 and [times["into"] > 0] == converts
    gains = {name: times["in_float"][name] - times["in_bytes"][name] for name in times["in_bytes"]}
    assert ("no layer" in row["eight_bits"]) or max(gains.values()) > 0
    times["in_bytes"], times["into"], times["out_of"] = dict.fromkeys(times["in_bytes"], 9.0), 0, 0
    times["in_bytes"]["gemm"] = 0.0
    file.write_text(json.dumps(times))
    assert within(quantize_within="0.05").quantized.startswith("1 of 3 layers in eight bits")
    assert cli.call(["run", "tiny.yml", "--validate", "--device", "host"]) == 0


WRONG_KEYS = {
    "samples alone": ({"quantize_samples": "data"}, "quantize_samples: quantize_within says how much noise"),
    "no share": ({"quantize_within": "1.5"}, "quantize_within: "),
    "twice": ({"quantize_within": "0.01", "quantize_large_weights": "1"}, "quantize_within: quantize and quantize_l"),
    "no folder": ({"quantize_within": "0.01"}, "quantize_within: quantize_samples samples: no such folder"),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
@pytest.mark.parametrize("command", ["convert", "run"])
def test_wrong_keys_are_one_line(name: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    keys, text = WRONG_KEYS[name]
    write_deployment(Path(), runtime="cpu", **keys)
    assert cli.call([command, "tiny.yml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(r"error: tiny.yml:\d+: models.tiny.", line) and text in line
    assert not Path("build").exists()


def test_maces_option_says_which_command_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["run", "tiny.yml", "--quantize_stat", "--input_dir", "data"]) == 2
    assert "`farm quantize MODEL.yml --data DIR` finds the ranges" in capsys.readouterr().err
    assert cli.call(["quantize", "tiny.yml", "--quantize_stat", "--input_dir", "data", "-o", "q.onnx"]) == 0
    assert Path("q.ranges").is_file()


@pytest.mark.slow
def test_layers_may_share_a_bias(quantize: Any) -> None:
    """As exporters write zeros: once. Each layer's bias then has a scale of its own."""
    model = uneven_model(batch=1)
    (gemm,) = (node for node in model.graph.node if node.name == "g")
    gemm.input[2] = "b3"
    write_deployment(Path(), model, runtime="cpu")
    status, row, said = quantize("-o", "q.onnx")
    assert status == 0, said
    assert {"c", "g"} <= {layer["name"] for layer in row["layers"]} and row["after_db"] > 5
