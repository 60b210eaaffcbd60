"""A framework's program in a process of its own: whatever it does there, the caller gets a result or one line."""

import dataclasses
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from runtime.errors import ModelError, UnsupportedError
from runtime.frameworks import process
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors
from runtime.frameworks.process import FRAMEWORKS
from runtime.frameworks.request import FrameworkRequest

PLATFORM = "misbehaving"


@pytest.fixture(autouse=True)
def framework(monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"{__package__}.misbehaving"
    framework = dataclasses.replace(FRAMEWORKS["keras"], title="Misbehaving", program=program)
    monkeypatch.setattr(process, "FRAMEWORKS", {PLATFORM: framework})


def request(folder: Path, behaviour: str) -> FrameworkRequest:
    model = folder / "model"
    model.write_text(behaviour)
    return FrameworkRequest(PLATFORM, str(model), (("x", (2, 3)), ("y", (1,))), ("z", "w"))


def test_a_request_survives_its_journey_as_text(tmp_path: Path) -> None:
    asked = request(tmp_path, "fine")
    assert FrameworkRequest.of_json(asked.to_json()) == asked
    assert asked.input_names == ("x", "y")


@pytest.mark.slow
def test_noise_stays_in_the_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    process.run_program("convert", request(tmp_path, "fine"), tmp_path)
    assert onnx.load(tmp_path / process.MODEL).graph.name == "empty"
    assert capfd.readouterr() == ("", "")


def test_a_description_comes_back_as_it_was(tmp_path: Path) -> None:
    process.run_program("describe", request(tmp_path, "fine"), tmp_path)
    found = ModelTensors.of_json((tmp_path / process.TENSORS).read_text())
    assert found == ModelTensors((ModelTensor("x", ("N", 3), "float32"), ModelTensor("y", None, "")), ())


def test_arrays_go_there_and_back_in_order(tmp_path: Path) -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.array([5])
    np.savez(tmp_path / process.INPUTS, **{"0": x, "1": y})
    process.run_program("run", request(tmp_path, "fine"), tmp_path)
    with np.load(tmp_path / process.OUTPUTS) as outputs:
        np.testing.assert_array_equal(outputs["0"], x * 2)
        np.testing.assert_array_equal(outputs["1"], y * 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "kind", "text"),
    [
        ("refuse", ModelError, "it is refused"),
        ("unsupported", UnsupportedError, "operators that are missing: Foo"),
        ("exception", ModelError, "Misbehaving refuses the model: first line"),
        (
            "crash",
            ModelError,
            "Misbehaving ended with SIGABRT while it converted the model (fatal: stack smashed); "
            "it is damaged or needs more than 8 GiB",
        ),
        ("memory", ModelError, "Misbehaving needs more than 8 GiB for the model; it may be damaged"),
    ],
)
def test_every_bad_ending_is_one_line(tmp_path: Path, behaviour: str, kind: type[ModelError], text: str) -> None:
    with pytest.raises(ModelError) as caught:
        process.run_program("convert", request(tmp_path, behaviour), tmp_path)
    assert (type(caught.value), str(caught.value)) == (kind, text)


@pytest.mark.slow
def test_a_program_that_hangs_is_killed(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"^Misbehaving did not finish with the model within 1 s; it may be damaged$"):
        process.run_program("convert", request(tmp_path, "hang"), tmp_path, deadline_s=1.0)
    assert time.monotonic() - began < 60


def test_a_model_that_protobuf_cannot_hold_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(process.MAX_MODEL_BYTES + 1)
    with pytest.raises(ModelError, match="more than the 2 GiB"):
        process.memory_limit_bytes(tmp_path / "huge")
    with pytest.raises(ModelError, match="more than the 2 GiB"):
        process.memory_limit_bytes(tmp_path)
