"""Commands take a model file where they take a deployment file, and `farm init` writes the file to keep."""

import json
from pathlib import Path
from typing import Any

import pytest

from farm import api, cli
from farm.config import deployment
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import tiny_model


@pytest.fixture(autouse=True)
def in_a_folder_with_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.onnx").write_bytes(tiny_model(batch="frames").SerializeToString())


ASKED = "error: tiny.onnx: input 'x' is (frames, 3, 8, 8): say its shape with --shape x=1,3,8,8\n"
COMMANDS = ("run", "benchmark", "tune", "forecast", "inspect", "convert", "init", "build")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_asks_for_an_open_shape(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert cli.call([command, "tiny.onnx"]) == 2
    assert capsys.readouterr() == ("", ASKED)
    assert not Path("build").exists()


def test_a_comparison_asks_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["compare", "tiny.onnx", "tiny.onnx"]) == 2
    assert capsys.readouterr().err == ASKED


def test_a_night_names_what_writes_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("nightly.yml").write_text("models: [tiny.onnx]\n")
    assert cli.call(["nightly", "nightly.yml"]) == 2
    said = "with `farm init ... --shape x=1,3,8,8`, and list the deployment file that it writes"
    assert said in capsys.readouterr().err


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status = cli.call([*arguments, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert status == 0, rows
    return rows


@pytest.mark.slow
def test_a_model_file_and_a_sweep_are_converted(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, "convert", "tiny.onnx", "--shape", "1,3,8,8", "--device", "host")
    assert {(row["library"], row["model"], row["runtime"]) for row in rows} == {
        ("tiny", "tiny", "cpu"),
        ("tiny", "tiny", "gpu"),
    }
    rows = rows_of(capsys, "convert", "tiny.onnx", "--shape", "x=1,3,8,8", "--shape", "x=2,3,8,8", "--device", "host")
    assert {row["model"] for row in rows} == {"tiny_1x3x8x8", "tiny_2x3x8x8"}


@pytest.mark.slow
def test_a_model_file_is_run_and_validated(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, "run", "tiny.onnx", "--shape", "1,3,8,8", "--validate", "--round", "1")
    assert [(row["model"], row["runtime"], row["status"]) for row in rows] == [
        ("tiny", "cpu", "ok"),
        ("tiny", "gpu", "ok"),
    ]


@pytest.mark.slow
def test_one_runtime_is_asked_for_whatever_the_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ("--shape", "1,3,8,8")
    assert cli.call(["init", "tiny.onnx", *shape]) == 0
    text = Path("tiny.yml").read_text()
    Path("tiny.yml").write_text(text.replace("runtime: cpu+gpu", "runtime: gpu"))
    capsys.readouterr()
    for words in (["tiny.onnx", *shape], ["tiny.yml"]):
        rows = rows_of(capsys, "run", *words, "--runtime", "cpu", "--round", "1")
        assert [(row["runtime"], row["status"]) for row in rows] == [("cpu", "ok")]
    assert cli.call(["run", "tiny.yml", "--runtime", "cpu", "--round", "1"]) == 0
    assert "next: farm run tiny.yml --runtime cpu --validate" in capsys.readouterr().out
    Path("tiny.yml").rename("-tiny.yml")
    assert cli.call(["run", "--runtime", "cpu", "--round", "1", "--", "-tiny.yml"]) == 0
    assert "next: farm run ./-tiny.yml --runtime cpu --validate" in capsys.readouterr().out
    Path("-tiny.yml").rename("tiny.yml")
    with pytest.raises(ConfigError, match=r"'npu': a runtime is cpu or gpu"):
        list(api.run("tiny.yml", runtimes=["npu"]))


def test_what_is_written_runs_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["init", "tiny.onnx", "--shape", "2,3,8,8"]) == 0
    assert capsys.readouterr().out == "tiny.yml: next, `farm run tiny.yml`\n"
    assert "# (frames, 3, 8, 8)" in Path("tiny.yml").read_text()
    assert deployment.load(Path("tiny.yml")).models["tiny"].subgraph.inputs[0].shape == (2, 3, 8, 8)
    assert {row["status"] for row in rows_of(capsys, "convert", "tiny.yml", "--device", "host")} == {"ok"}


def test_nothing_is_written_over_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tiny.yml").write_text("mine")
    assert cli.call(["init", "tiny.onnx", "--shape", "2,3,8,8"]) == 2
    assert "tiny.yml: is there already; -o FILE writes another, or replaces it" in capsys.readouterr().err
    assert Path("tiny.yml").read_text() == "mine"
    assert cli.call(["init", "tiny.yml"]) == 2
    assert "no model file; a deployment file is run as it is" in capsys.readouterr().err
    assert cli.call(["init", "tiny.onnx", "--shape", "2,3,8,8", "-o", "tiny.yml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["content"] == Path("tiny.yml").read_text()


WRONG = {
    ("run", "tiny.onnx", "--shape", "x=1,a"): "'x=1,a': write INPUT=SIZES with sizes of at least 1",
    ("run", "tiny.onnx", "--shape", "y=1,3,8,8"): "tiny.onnx: --shape y=1,3,8,8: no input 'y'; known are x",
    ("tune", "tiny.onnx", "tiny.onnx", "--shape", "1,3,8,8"): "--shape and --weights are of one model file",
    ("run", "zoo://mobilenet_v1", "--shape", "input=1,3,9,9"): "--shape is for model files",
    ("run", "tiny.onnx", "--weights", "w"): "--weights: the file of platform onnx holds its weights",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_what_is_wrong_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert cli.call(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and WRONG[arguments] in error


@pytest.mark.slow
def test_scripts_give_shapes_as_a_dictionary() -> None:
    rows = list(api.convert("tiny.onnx", ["host"], shapes={"x": [(1, 3, 8, 8), (2, 3, 8, 8)]}))
    assert [row.model for row in rows if row.runtime == "cpu"] == ["tiny_1x3x8x8", "tiny_2x3x8x8"]
    with pytest.raises(ConfigError, match="say its shape"):
        api.run("tiny.onnx")
