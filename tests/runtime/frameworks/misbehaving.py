"""A program in a framework's place that does what its model file says: `python -m` with the folder of a request."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from runtime.errors import ModelError, UnsupportedError
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors
from runtime.frameworks.programs import program
from runtime.frameworks.request import FrameworkRequest


def describe(request: FrameworkRequest, folder: Path) -> ModelTensors:
    return ModelTensors((ModelTensor("x", ("N", 3), "float32"), ModelTensor("y", None, "")), ())


def to_onnx(request: FrameworkRequest, folder: Path) -> onnx.ModelProto:
    behaviour = request.path.read_text()
    if behaviour == "crash":
        print("noise\n\nfatal: stack smashed", file=sys.stderr, flush=True)
        os.abort()
    if behaviour == "hang":
        time.sleep(600)
    if behaviour == "memory":
        np.ones(2**40, np.uint8)
    if behaviour == "unsupported":
        raise UnsupportedError("operators that are missing: Foo")
    if behaviour == "refuse":
        raise ModelError("it is refused")
    if behaviour == "exception":
        raise LookupError("\n\n first line \n second line")
    print("noise" * 100_000)
    return onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))


def run(request: FrameworkRequest, folder: Path, inputs: Sequence[program.Array]) -> Sequence[program.Array]:
    return [value * 2 for value in inputs]


if __name__ == "__main__":
    sys.exit(program.main("Misbehaving", describe, to_onnx, run))
