"""MNN, on the CPU, in float32."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm import safe_text
from farm.engines.base import EngineModel
from farm.engines.python_engine import PythonEngine
from runtime.errors import DeviceError, UnsupportedError

CONVERT_S = 900.0
# The converter itself. Its command, MNN.tools.mnnconvert, installs a package and reports to its maker.
_CONVERT = "import sys, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"
_WORDS = 300


class MnnProgram:
    """Runs on the unit."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        import json

        import MNN
        from MNN import expr

        with open(files["names"]) as file:  # noqa: PTH123
            self.names = json.load(file)
        threaded = {} if threads is None else {"numThread": threads}
        settings = {"backend": "CPU", "precision": "high", **threaded}
        runtime = MNN.nn.create_runtime_manager((settings,))
        sides = (self.names["inputs"], self.names["outputs"])
        self.net = MNN.nn.load_module_from_file(files["model"], *sides, runtime_manager=runtime)
        if self.net is None:
            raise ValueError("MNN does not load it")
        self.expr = expr

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A round; MNN computes when outputs are read."""
        expr = self.expr
        given = [self.variable(inputs[name]) for name in self.names["inputs"]]
        outputs = self.net.onForward(given)
        return {
            name: expr.convert(value, expr.NCHW).read()
            for name, value in zip(self.names["outputs"], outputs, strict=True)
        }

    def variable(self, value: Any) -> Any:
        """An array as MNN takes it: integers of 32 bits, else float32."""
        expr, kind = self.expr, "float32" if value.dtype.kind == "f" else "int32"
        return expr.const(
            value.astype(kind), list(value.shape), expr.NCHW, expr.float if kind == "float32" else expr.int
        )


class Mnn(PythonEngine):
    """Takes the ONNX model, by the converter that comes with MNN."""

    name = "mnn"
    package = "MNN"
    module = "MNN"
    program = MnnProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        if text := self.not_installed():  # a unit with wheels of its own does not convert
            raise DeviceError(text)

        def convert(path: Path) -> None:
            words = ["-f", "ONNX", "--modelFile", str(model.onnx_file), "--MNNModel", str(path), "--bizCode", "farm"]
            try:
                done = subprocess.run(
                    [sys.executable, "-c", _CONVERT, *words], capture_output=True, text=True, timeout=CONVERT_S
                )
            except subprocess.TimeoutExpired:
                raise DeviceError(f"mnn: its converter did not end within {CONVERT_S:g} s") from None
            if done.returncode or not path.is_file():
                said = safe_text.word(f"{done.stdout} {done.stderr}".strip()[-_WORDS:], _WORDS)
                raise UnsupportedError(f"mnn does not convert the model: {said}")

        return {"model": model.made(f"{model.name}.mnn", convert), "names": model.names_file}
