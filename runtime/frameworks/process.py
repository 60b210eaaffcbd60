"""Starts a framework's program in a process of its own, so that its crash, noise, memory and time stay there.

The two speak through files of a private folder:

    request.json    the action (`describe`, `convert` or `run`), the memory limit and the FrameworkRequest
    inputs.npz      to run: an array for each input, `0`, `1`, ... in the request's order
    answer.json     what went wrong in one line, empty if nothing did, and the kind of error
    tensors.json    described: the ModelTensors of the model; the request names no tensors then
    model.onnx      converted: the model
    outputs.npz     run: an array for each output, as for inputs
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from runtime.errors import ConfigError, ModelError, UnsupportedError
from runtime.frameworks.request import FrameworkRequest
from runtime.host import extras

Action = Literal["describe", "convert", "run"]

DEADLINE_S = 900.0  # NASNetMobile, the slowest network tried, takes 90 s on one slow core
BASE_MEMORY_BYTES = 8 * 1024**3  # of address space, of which a framework's libraries take 2 GiB
MEMORY_PER_MODEL_BYTE = 24  # variables, constants, their folded copies, protobuf's and ONNX's
MAX_MODEL_BYTES = 2**31 - 1  # protobuf's limit
MAX_MESSAGE = 400
TREE = Path(__file__).parents[2]

REQUEST, INPUTS, ANSWER, MODEL, OUTPUTS = "request.json", "inputs.npz", "answer.json", "model.onnx", "outputs.npz"
TENSORS = "tensors.json"
DOING: Mapping[Action, str] = {"describe": "read", "convert": "converted", "run": "ran"}


def run_program(action: Action, request: FrameworkRequest, folder: Path, deadline_s: float = DEADLINE_S) -> None:
    """Runs the platform's program on a request; its results lie in the folder afterwards.

    Raises:
        ModelError: the model is refused, or the framework crashed on it, ran out of time or of memory.
    """
    framework = FRAMEWORKS[request.platform]
    limit_bytes = memory_limit_bytes(request.path)
    asked = {"action": action, "memory_bytes": limit_bytes, "request": request.to_json()}
    (folder / REQUEST).write_text(json.dumps(asked))
    status = _status(framework, request, folder, deadline_s)
    answer = _answer(folder)
    if answer is None:
        raise ModelError(_ending(framework, action, status, limit_bytes, _last_line(folder)))
    if answer["error"]:
        raise (UnsupportedError if answer["kind"] == "unsupported" else ModelError)(answer["error"])


def memory_limit_bytes(model: Path) -> int:
    """How much address space may be used on a model; ModelError for one that protobuf cannot hold."""
    size = size_of(model)
    if size > MAX_MODEL_BYTES:
        raise ModelError(f"{model}: {size:,} bytes are more than the 2 GiB that a converted model may have")
    return BASE_MEMORY_BYTES + MEMORY_PER_MODEL_BYTE * size


def size_of(model: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    files = [path for path in model.rglob("*") if path.is_file()] if model.is_dir() else [model]
    return sum(path.stat().st_size for path in files)


def _status(framework: Framework, request: FrameworkRequest, folder: Path, deadline_s: float) -> int:
    """The program's exit status. Its group is killed when the deadline passes or this process is interrupted."""
    command = [sys.executable, "-m", framework.program, str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=TREE,
            env=environment(request),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise ModelError(
                f"{framework.title} did not finish with the model within {deadline_s:.0f} s; it may be damaged"
            ) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def environment(request: FrameworkRequest) -> Mapping[str, str]:
    """No GPU, no telemetry, no log, arithmetic in one order; unpickling of objects only where the user trusts them."""
    fixed = {
        "CUDA_VISIBLE_DEVICES": "-1",
        "KERAS_BACKEND": "tensorflow",
        "ORT_DISABLE_TELEMETRY": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "0" if request.trusted else "1",
    }
    return {**os.environ, **fixed}


def _answer(folder: Path) -> dict[str, str] | None:
    """What the program wrote at its end; None where it did not come to it."""
    try:
        answer = json.loads((folder / ANSWER).read_text())
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _ending(framework: Framework, action: Action, status: int, limit_bytes: int, last_line: str) -> str:
    """Why there is no answer: the framework's native code ended the process."""
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    said = f" ({last_line})" if last_line else ""
    memory = f"{limit_bytes / 1024**3:.0f} GiB"
    why = f"it is damaged or needs more than {memory}"
    return f"{framework.title} ended with {how} while it {DOING[action]} the model{said}; {why}"


def _last_line(folder: Path) -> str:
    lines = (folder / "log").read_text(errors="replace").split("\n")
    printable = [" ".join(line.split()) for line in lines if line.strip()]
    return printable[-1][:MAX_MESSAGE] if printable else ""


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework and what it takes to work with its models.

    Attributes:
        title: its name for people.
        program: module that converts and runs models, started with `python -m`.
        to_convert, to_run: packages that each of the two needs.
    """

    title: str
    program: str
    to_convert: tuple[str, ...]
    to_run: tuple[str, ...]


_PROGRAMS = "runtime.frameworks.programs"
_TENSORFLOW = Framework("TensorFlow", f"{_PROGRAMS}.tensorflow_program", ("tensorflow", "tf2onnx"), ("tensorflow",))
_LITERT = Framework(
    "LiteRT", f"{_PROGRAMS}.litert_program", ("tensorflow", "tf2onnx", "ai-edge-litert"), ("ai-edge-litert",)
)
_PYTORCH = Framework("PyTorch", f"{_PROGRAMS}.pytorch_program", ("torch", "onnxscript"), ("torch",))

FRAMEWORKS: Mapping[str, Framework] = {
    "tensorflow": _TENSORFLOW,
    "keras": dataclasses.replace(_TENSORFLOW, title="Keras"),
    "tflite": _LITERT,
    "pytorch": _PYTORCH,
}


def require(purpose: str, packages: tuple[str, ...]) -> None:
    """Raises ConfigError with the command that installs the first of the packages that is missing."""
    for package in packages:
        if not is_installed(package):
            raise ConfigError(extras.needed(purpose, package))


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported here."""
    return importlib.util.find_spec(package.replace("-", "_")) is not None


def package_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Version of each package and of ONNX."""
    return {package: _version(package) for package in (*packages, "onnx")}


def _version(package: str) -> str:
    distributions = importlib.metadata.packages_distributions().get(package.replace("-", "_"), [package])
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(set(distributions)))
