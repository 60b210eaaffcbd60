"""`farm run --input_dir`: one row over many samples, whatever happens between them."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.config.deployment import Input
from farm.jobs import samples
from farm.model.oracle import Oracle
from farm.model.sample_folder import find_samples, read_sample
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import tiny_model, write_deployment

SHAPE = (1, 3, 8, 8)
COUNT = 5


def tensor(name: str, shape: tuple[int, ...] = (2, 3), data_type: Any = "float32") -> Input:
    return Input(name, shape, data_type, "NONE", (-1.0, 1.0))


def write(folder: Path, files: dict[str, Any]) -> Path:
    """Arrays: as NumPy's where the name ends so, else their bytes alone."""
    folder.mkdir(exist_ok=True)
    for name, value in files.items():
        if name.endswith(".npy"):
            np.save(folder / name, value)
        else:
            (folder / name).write_bytes(value if isinstance(value, bytes) else value.tobytes())
    return folder


def test_a_sample_is_a_file_for_each_input(tmp_path: Path) -> None:
    """Other characters than letters and digits are `_`; the longest name wins; the rest is not looked at."""
    inputs = [tensor("image:0"), tensor("image", data_type="int32")]
    floats, integers = np.arange(6, dtype="<f4").reshape(2, 3), np.arange(6, dtype="<i4").reshape(2, 3)
    files = {"image_0_cat.npy": floats, "image_cat": integers, "image_0-b.bin": floats + 1, "image-b.bin": integers}
    write(tmp_path, {**files, "labels.txt": b"cat", ".hidden": b""})
    (tmp_path / "image_folder").mkdir()
    found = find_samples(tmp_path, inputs)
    assert [sample.name for sample in found] == ["-b.bin", "_cat"]
    for sample, added in zip(found, (1, 0), strict=True):
        arrays = read_sample(sample, inputs)
        np.testing.assert_array_equal(arrays["image:0"], floats + added)
        np.testing.assert_array_equal(arrays["image"], integers)
        assert [arrays[each.name].dtype for each in inputs] == ["float32", "int32"]


def test_the_only_input_needs_no_name(tmp_path: Path) -> None:
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    write(tmp_path, {"cat.npy": values, "dog.npy": values + 1, "labels.txt": b"cat"})
    found = find_samples(tmp_path, [tensor("image")])
    assert [sample.name for sample in found] == ["cat", "dog"]
    np.testing.assert_array_equal(read_sample(found[1], [tensor("image")])["image"], values + 1)
    np.save(tmp_path / "image_fox.npy", values)
    assert [sample.name for sample in find_samples(tmp_path, [tensor("image")])] == ["_fox"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "no sample is there; a sample NAME is a_NAME.npy and b_NAME.npy"),
        ({"a_1": bytes(24)}, "b_1 is missing, the input 'b' beside a_1"),
        ({"a_1": bytes(24), "b_1": bytes(20)}, "b_1 holds 20 bytes; the input 'b' is float32 [2, 3], 24 bytes"),
        ({"a_1": bytes(24), "b_1.npy": np.zeros((3, 2), "f4")}, "b_1.npy holds float32 [3, 2]; the input 'b' is"),
        ({"a_1": bytes(24), "b_1.npy": np.zeros((2, 3))}, "b_1.npy holds float64 [2, 3]; the input 'b' is"),
        ({"a_1": bytes(24), "a_1.npy": np.zeros((2, 3), "f4")}, "are the same input of one sample"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_runs(tmp_path: Path, files: dict[str, Any], told: str) -> None:
    write(tmp_path, files)
    with pytest.raises(ConfigError, match=re.escape(told)):
        find_samples(tmp_path, [tensor("a"), tensor("b")])


def test_values_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a_1": np.full((2, 3), np.nan, "f4")})
    (sample,) = find_samples(tmp_path, [tensor("a")])
    with pytest.raises(ConfigError, match="a_1 holds NaN"):
        read_sample(sample, [tensor("a")])


@pytest.fixture
def inputs(own_folder: Path) -> list[Any]:
    """Of tiny.yml, in a folder `samples`: x_0.npy, x_1 and so on."""
    write_deployment(own_folder, runtime="cpu")
    random = np.random.default_rng(5)
    arrays = [random.uniform(-1, 1, SHAPE).astype("<f4") for _ in range(COUNT)]
    write(own_folder / "samples", {f"x_{i}{'' if i % 2 else '.npy'}": array for i, array in enumerate(arrays)})
    return arrays


def run(farm: CallFarm, *more: str) -> dict[str, Any]:
    status, out, err = farm("run", "tiny.yml", "--input_dir", "samples", "--json", *more)
    assert out, err
    (row,) = json.loads(out)["rows"]
    assert status == (row["status"] != "ok"), err
    return row  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_row_tells_the_worst_and_the_mean(farm: CallFarm, inputs: list[Any]) -> None:
    row = run(farm, "--validate", "--output_dir", "out")
    report, means = row["samples"], row["samples"]["mean"]
    assert (row["status"], report["count"], report["wrong"], report["folder"]) == ("ok", COUNT, 0, "samples")
    assert report["worst"] in [f"_{i}" for i in range(COUNT)]
    assert 0.9999 < row["cosine"] <= means["cosine"] and 60 < row["sqnr_db"] < means["sqnr_db"]
    assert row["max_abs_error"] > means["max_abs_error"] and row["outputs"][0]["sqnr_db"] == row["sqnr_db"]
    assert len(row["latency_ms"]["samples"]) == COUNT and row["settings"]["input_dir"] == "samples"
    oracle = Oracle(tiny_model(batch=1))
    for i, array in enumerate(inputs):
        kept = np.load(f"out/tiny.host.cpu/y_{i}.npy")
        np.testing.assert_allclose(kept, oracle.outputs({"x": array})["y"], rtol=1e-4, atol=1e-5)
    assert not list(Path("build/tinylib/samples").iterdir()), "what is whole is not gone on with"


@pytest.mark.slow
def test_a_wrong_sample_is_named(farm: CallFarm, inputs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = samples.Samples.expected

    def other(own: samples.Samples, given: Any) -> dict[str, Any]:
        factor = -1 if np.array_equal(given["x"], inputs[3]) else 1
        return {name: factor * value for name, value in expected(own, given).items()}

    monkeypatch.setattr(samples.Samples, "expected", other)
    row = run(farm, "--validate")
    assert (row["status"], row["samples"]["wrong"], row["samples"]["worst"]) == ("wrong_result", 1, "_3")
    assert row["reason"].startswith("1 of 5 samples are wrong; the worst, '_3': y: cosine -1.0")
    assert row["cosine"] < -0.99 and row["samples"]["mean"]["cosine"] == pytest.approx(0.6, abs=1e-3)


@pytest.mark.slow
def test_samples_run_without_a_comparison(farm: CallFarm, inputs: list[Any]) -> None:
    row = run(farm)
    assert row["samples"] == {"folder": "samples", "count": COUNT, "wrong": 0, "worst": "", "mean": None}
    assert row["cosine"] is None and len(row["latency_ms"]["samples"]) == COUNT


@pytest.mark.parametrize("other", [("--layers",), ("--input", "tiny.onnx")])
def test_what_is_for_one_sample_is_refused(farm: CallFarm, inputs: list[Any], other: tuple[str, ...]) -> None:
    status, _, err = farm("run", "tiny.yml", "--input_dir", "samples", *other)
    assert status == 2 and f"--input_dir runs over many samples, {other[0]} is for one" in err


INTERRUPTIBLE = """
import sys
from farm import cli
from farm.jobs import samples
run_sample = samples._run_sample
def slow(*given):
    outcome = run_sample(*given)
    print("ran", flush=True)
    sys.stdin.readline()
    return outcome
samples._run_sample = slow
sys.exit(cli.call(sys.argv[1:]))
"""


@pytest.mark.slow
def test_an_interrupted_run_goes_on_where_it_was(
    farm: CallFarm, inputs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", "tiny.yml", "--input_dir", "samples", "--validate", "--json"]
    argv = [sys.executable, "-c", INTERRUPTIBLE, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=os.environ) as process:
        assert process.stdin and process.stdout and process.stderr
        for answer in ("\n", "\n", ""):
            assert process.stdout.readline() == "ran\n"
            process.stdin.write(answer)
            process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert "what was measured is kept below build/, the next call goes on from it" in process.stderr.readline()
        process.stdin.close()
        assert process.wait(60) == 130
    (journal,) = Path("build/tinylib/samples").iterdir()
    known = [json.loads(line)["name"] for line in journal.read_text().splitlines()]
    assert known in (["_0", "_1"], ["_0", "_1", "_2"])
    with journal.open("a") as file:
        file.write('{"key": "of a process that was killed here')

    ran = []
    run_sample = samples._run_sample
    monkeypatch.setattr(samples, "_run_sample", lambda *given: (ran.append(given[2].name), run_sample(*given))[1])
    row = run(farm, "--validate")
    assert known + ran == [f"_{i}" for i in range(COUNT)]
    assert (row["status"], row["samples"]["count"]) == ("ok", COUNT)
    ran.clear()
    run(farm, "--validate")
    assert len(ran) == COUNT, "a run that had its row is measured again"


@pytest.mark.slow
def test_a_sample_that_changed_is_run_again(farm: CallFarm, inputs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples.SampleJournal, "remove", lambda _: None)
    run(farm)
    ran = []
    run_sample = samples._run_sample
    monkeypatch.setattr(samples, "_run_sample", lambda *given: (ran.append(given[2].name), run_sample(*given))[1])
    np.save("samples/x_2.npy", inputs[2] + 1)
    assert run(farm)["samples"]["count"] == COUNT and ran == ["_2"]
