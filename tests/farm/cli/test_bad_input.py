"""Bad input gives one clear line and exit status 2 (1 for a failed job), and leaves nothing half-written."""

import hashlib
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from farm import api, cli
from farm.cli.commands.options import TO_START
from runtime.errors import ConfigError
from runtime.native.build import build_farmrt
from tests.farm.model.tiny_model import deployment_text, tiny_model, write_deployment
from tests.time_limit import within

NAN_WEIGHTS = np.full((4, 3, 3, 3), np.nan)
GOOD = tiny_model().SerializeToString()


pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(scope="module", autouse=True)
def compiled_before() -> None:
    """A build that takes ten seconds would be a line of its own."""
    build_farmrt()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a command line; returns its exit status and the one line that it says on stderr."""

    def run(*arguments: str) -> tuple[int, str]:
        status = cli.call(arguments)
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1, lines
        return status, lines[0]

    return run


HOSTILE = {
    "a tab": ("library_name:\tx\n\tmodels:", "not valid YAML"),
    "a bomb": ("a: &a [x, x]\nb: &b [*a, *a]\n", "anchors and aliases"),
    "a constructor": ("library_name: !!python/object/apply:os.system [id]\n", "the tag"),
    "no text": ("\x00\x01", "not valid YAML"),
    "a list": ("- a\n- b\n", "a mapping"),
    "a key twice": (deployment_text() + "library_name: again\n", "given twice"),
    "an unknown key": (deployment_text(winogard="2"), "did you mean 'winograd'"),
    "a key that does not work yet": (deployment_text(change_concat_ranges="1"), "not supported yet"),
    "a word for a number": (deployment_text(winograd="fast"), "winograd"),
    "deep nesting": ("a: " + "[" * 200, "nested deeper"),
}


@pytest.mark.parametrize(("content", "text"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("command", ["convert", "run"])
def test_deployment_files(say: Any, command: str, content: str, text: str) -> None:
    Path("tiny.yml").write_text(content)
    status, line = say(command, "tiny.yml")
    assert status == 2 and re.match(r"error: tiny\.yml(:\d+)?: ", line) and text in line
    assert not Path("build").exists()


def test_a_missing_deployment_file(say: Any) -> None:
    status, line = say("run", "none.yml")
    assert (status, line) == (2, f"error: none.yml: no such file{TO_START}")


def test_a_working_folder_that_is_gone(say: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert say("devices") == (2, "error: the working folder was deleted or cannot be looked into; cd to another")


def test_an_address_where_a_file_is_named(say: Any) -> None:
    status, line = say("run", "https://127.0.0.1/net.onnx")
    assert status == 2 and line.endswith("; download it, or name it as model_file_path of a deployment file")


def test_a_name_that_no_file_may_have(say: Any) -> None:
    assert say("run", "x" * 300) == (2, f"error: {'x' * 300}: File name too long")


@pytest.mark.slow
def test_a_missing_model_file(say: Any, tmp_path: Path) -> None:
    write_deployment(tmp_path, b"")
    status, line = say("run", "tiny.yml")
    assert status == 2 and "tiny.yml:6: models.tiny.model_file_path: " in line and "does not exist" in line


def test_a_wrong_checksum(say: Any, tmp_path: Path) -> None:
    write_deployment(tmp_path, model_sha256_checksum="0" * 64)
    status, line = say("run", "tiny.yml")
    assert status == 2 and hashlib.sha256(Path("tiny.onnx").read_bytes()).hexdigest() in line


MODELS = {
    "truncated": (GOOD[: len(GOOD) // 2], {}, "not an ONNX model, or truncated"),
    "no model": (b"\x89PNG", {}, "not an ONNX model, or truncated"),
    "NaN in weights": (tiny_model(weights=NAN_WEIGHTS), {}, "NaN"),
    "an unsupported operator": (tiny_model(op="Det"), {}, "'act'"),
    "another shape": (tiny_model(), {"shape": "1,3,9,9,1"}, "but the model reads ?,3,8,8"),
    "another channel count": (tiny_model(), {"shape": "1,4,8,8"}, "but the model reads ?,3,8,8"),
    "an output that is not there": (tiny_model(), {"outputs": "[z]"}, "output tensor 'z' is not in the model"),
    "another output shape": (tiny_model(), {"output_shapes": '["1,6"]'}, "but the model computes 1,5"),
}


@pytest.mark.parametrize(("model", "keys", "text"), MODELS.values(), ids=MODELS.keys())
def test_models(say: Any, tmp_path: Path, model: Any, keys: dict[str, str], text: str) -> None:
    write_deployment(tmp_path, model, **keys)
    status, line = say("convert", "tiny.yml")
    assert status == 2 and line.startswith("error: tiny.yml:4: models.tiny: ") and text in line
    assert not Path("build/tinylib").exists()
    status, line = say("run", "tiny.yml")
    is_row = "unsupported" in line  # of a model that makes sense, where others of the file may run
    assert status == (1 if is_row else 2) and line.startswith(
        "tiny on host (gpu): " if is_row else "error: tiny.yml:4: "
    )
    assert text in line
    assert not Path("build/units").exists()


def test_an_unsupported_operator_is_a_row_of_its_own_status(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_deployment(tmp_path, tiny_model(op="Det"))
    assert cli.call(["run", "tiny.yml", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["status"] == "unsupported" and "Det" in row["reason"]


FIFOS = {
    "a deployment file": ("tiny.yml", "tiny.yml: cannot be read: it is no regular file, but a FIFO"),
    "a model": ("tiny.onnx", "tiny.yml:6: models.tiny.model_file_path: tiny.onnx is not a file"),
    "weights": ("w.bin", "tiny.yml:4: models.tiny: tiny.onnx: tensor 'w': its file 'w.bin' cannot be read: it is"),
    "an input": ("x.npy", "x.npy is not a file"),
    "a target": ("t.json", "t.json: cannot be read: it is no regular file, but a FIFO"),
}
COMMANDS = {
    "x.npy": ("run", "tiny.yml", "--input", "x=x.npy"),
    "t.json": ("forecast", "tiny.yml", "--target-file", "t.json"),
}


@pytest.mark.parametrize(("name", "text"), FIFOS.values(), ids=FIFOS.keys())
def test_a_fifo_where_a_file_is_named(say: Any, tmp_path: Path, name: str, text: str) -> None:
    write_deployment(tmp_path, with_external_weights(tiny_model(), "w.bin"))
    Path(name).unlink(missing_ok=True)
    os.mkfifo(name)
    with within(20):
        status, line = say(*COMMANDS.get(name, ("convert", "tiny.yml")))
    assert status == 2 and line.startswith(f"error: {text}")


def with_external_weights(model: onnx.ModelProto, file: str) -> onnx.ModelProto:
    """The model with the data of its tensor 'w' in a file."""
    (tensor,) = (each for each in model.graph.initializer if each.name == "w")
    Path(file).write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=file)
    return model


INPUTS = {
    "missing": (None, "does not exist"),
    "no array": (b"hello", "not a NumPy .npy file"),
    "another shape": (np.zeros((1, 3, 8, 9), np.float32), "[1, 3, 8, 9]"),
    "another type": (np.zeros((1, 3, 8, 8)), "float64"),
    "NaN": (np.full((1, 3, 8, 8), np.nan, np.float32), "holds NaN"),
    "a pickle": (np.array([{"a": 1}], object), "not a NumPy .npy file"),
}


@pytest.mark.parametrize(("content", "text"), INPUTS.values(), ids=INPUTS.keys())
def test_inputs(say: Any, tmp_path: Path, content: Any, text: str) -> None:
    write_deployment(tmp_path)
    if isinstance(content, bytes):
        Path("x.npy").write_bytes(content)
    elif content is not None:
        np.save("x.npy", content, allow_pickle=True)
    status, line = say("run", "tiny.yml", "--input", "x=x.npy")
    assert status == 2 and text in line
    assert not Path("build/tinylib").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "tiny.yml", "--round", "0"),
        ("run", "tiny.yml", "--memory", "texture"),
        ("run", "tiny.yml", "--no-such-option"),
        ("benchmark", "tiny.yml", "--warmup", "-1"),
        ("forecast", "tiny.yml", "--target-file", "gone.json"),
        ("opbench", "--filter", "(", "--list"),
        ("opbench", "--min-time", "0"),
    ],
)
def test_options(say: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_deployment(tmp_path)
    status, line = say(*arguments)
    assert status == 2 and line.startswith("error: ")


PATHS = {
    ("run", "tiny.yml", "--tuned", "gone.bin"): "--tuned gone.bin: no such file; `--tuned none` runs without",
    ("run", "tiny.yml", "--kernels", "gone.bin"): "--kernels gone.bin: no such file",
    ("benchmark", "tiny.yml", "--selection", "gone.bin"): "--selection gone.bin: no such file",
    ("run", "tiny.yml", "--input", "x=gone.npy"): "--input: gone.npy does not exist",
    ("run", "tiny.yml", "--input_dir", "gone"): "'gone' does not exist",
    ("run", "tiny.yml", "--output-dir", "a file/x"): "a file/x cannot be written: a file is no folder",
    ("benchmark", "tiny.yml", "--trace", "a file/t.json"): "a file/t.json cannot be written: a file is no folder",
    ("benchmark", "tiny.yml", "--trace", "."): ". is a folder",
    ("tune", "tiny.yml", "--journals", "a file"): "a file cannot be written: a file is no folder",
    ("build", "--output", "a file"): "a file cannot be written: a file is no folder",
    ("demo", "--output", "a file"): "a file cannot be written: a file is no folder",
    ("nightly", "nightly.yml", "--output", "a file"): "a file cannot be written: a file is no folder",
    ("report", "--output", "a file"): "a file cannot be written: a file is no folder",
    ("jobs", "fetch", "j", "--output-dir", "a file"): "a file cannot be written: a file is no folder",
    ("zoo", "write", "mobilenet_v1", "-o", "a file/x.onnx"): "a file/x.onnx cannot be written: a file is no folder",
    ("artifacts", "verify", "gone.bin"): "'gone.bin' does not exist",
    ("artifacts", "merge", "a file", "-o", "."): ". is a folder",
}


@pytest.mark.parametrize(("arguments", "text"), PATHS.items(), ids=map(" ".join, PATHS))
def test_paths_are_looked_at_before_any_work(say: Any, tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    write_deployment(tmp_path)
    Path("a file").touch()
    before = set(tmp_path.iterdir())
    status, line = say(*arguments)
    assert status == 2 and line.startswith("error: ") and text in line
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["run", "benchmark"])
def test_scripts_are_told_of_a_missing_artifact_before_any_work(tmp_path: Path, name: str) -> None:
    write_deployment(tmp_path)
    before = set(tmp_path.iterdir())
    with pytest.raises(ConfigError, match=r"--tuned gone\.bin: no such file"):
        getattr(api, name)("tiny.yml", tuned="gone.bin")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("arguments", [("--soc", "sdm845"), ("--device", "pixel")])
def test_no_unit_matches(say: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_deployment(tmp_path)
    status, line = say("run", "tiny.yml", *arguments)
    assert status == 3 and "host" in line and line.endswith("into devices.yml")
    Path("devices.yml").write_text("devices: {rock: {transport: ssh, address: 127.0.0.1, port: 9}}\n")
    status, line = say("run", "tiny.yml", *arguments)
    assert status == 3 and line.endswith("into devices.yml (this machine: `host: {transport: local}`)")


@pytest.mark.slow
def test_no_opencl_driver(say: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deployment(tmp_path)
    monkeypatch.setenv("FARM_OPENCL", "/nowhere/libOpenCL.so")
    status, line = say("run", "tiny.yml")
    assert status == 1 and "unsupported: unit 'host' has no OpenCL driver (" in line
    assert "/nowhere/libOpenCL.so" in line and "farm doctor" in line


@pytest.mark.parametrize("option", ["--tuned", "--kernels"])
def test_a_damaged_artifact(say: Any, tmp_path: Path, option: str) -> None:
    write_deployment(tmp_path)
    Path("damaged.bin").write_bytes(b"FARMTUNE" + bytes(100))
    status, line = say("run", "tiny.yml", option, "damaged.bin")
    assert status == 1 and "tiny on host (gpu): failed: load: " in line


def limited(size_bytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))


@pytest.mark.slow
def test_a_full_disk_while_converting(tmp_path: Path) -> None:
    big = np.random.default_rng(0).normal(size=(4, 3, 3, 3))
    write_deployment(tmp_path, tiny_model(weights=big))
    program = "import sys; from farm import cli; sys.exit(cli.call(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "convert", "tiny.yml"],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # Python would leave compiled modules cut short for others
        preexec_fn=limited(600),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "error: build/tinylib/model/tiny.onnx: cannot be written: File too large\n"
    assert list(Path("build/tinylib/model").iterdir()) == []
