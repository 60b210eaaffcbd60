"""What the frameworks' programs share: the request is read, the limits are set, and every ending becomes an answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from runtime.errors import ModelError, UnsupportedError
from runtime.frameworks import process
from runtime.frameworks.model_tensors import ModelTensors
from runtime.frameworks.request import FrameworkRequest
from runtime.host.process_limits import bound_memory

Array = npt.NDArray[Any]
Describe = Callable[[FrameworkRequest, Path], ModelTensors]
Convert = Callable[[FrameworkRequest, Path], onnx.ModelProto]
Run = Callable[[FrameworkRequest, Path, Sequence[Array]], Sequence[Array]]

MAX_MESSAGE = 400


def main(title: str, describe: Describe, to_onnx: Convert, run: Run) -> int:
    """Does what the folder of the command line asks: `to_onnx` gives the model, `run` the outputs' arrays."""
    return serve(Path(sys.argv[1]), title, describe, to_onnx, run)


def serve(folder: Path, title: str, describe: Describe, to_onnx: Convert, run: Run) -> int:
    """Answers one request; the exit status is 0 whenever there is an answer."""
    asked = json.loads((folder / process.REQUEST).read_text())
    bound_memory(asked["memory_bytes"])
    request = FrameworkRequest.of_json(asked["request"])
    kind, error = "model", ""
    try:
        if asked["action"] == "describe":
            (folder / process.TENSORS).write_text(describe(request, folder).to_json())
        elif asked["action"] == "convert":
            (folder / process.MODEL).write_bytes(to_onnx(request, folder).SerializeToString(deterministic=True))
        else:
            _run(request, folder, run)
    except UnsupportedError as refusal:
        kind, error = "unsupported", str(refusal)
    except ModelError as refusal:
        error = str(refusal)
    except MemoryError:
        error = f"{title} needs more than {asked['memory_bytes'] / 1024**3:.0f} GiB for the model; it may be damaged"
    except Exception as refusal:  # the frameworks' own have no common base
        error = f"{title} refuses the model: {first_line(refusal)}"
    (folder / process.ANSWER).write_text(json.dumps({"kind": kind, "error": error}))
    return 0


def first_line(error: Exception) -> str:
    """What an exception says, in one line of bounded length."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:MAX_MESSAGE]


def _run(request: FrameworkRequest, folder: Path, run: Run) -> None:
    with np.load(folder / process.INPUTS, allow_pickle=False) as given:
        inputs = [given[str(index)] for index in range(len(request.inputs))]
    outputs = [np.asarray(value) for value in run(request, folder, inputs)]
    arrays: dict[str, Any] = {str(index): value for index, value in enumerate(outputs)}
    np.savez(folder / process.OUTPUTS, **arrays)
