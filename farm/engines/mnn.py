"""MNN, on the CPU, in float32 unless its option says otherwise.

Of itself MNN takes Winograd's largest units for 3x3 convolutions. In float32 they cost half of the digits: outputs of
ResNet-50 and Inception v3 are 47 to 55 dB from the reference, and 84 dB or more with the smallest ones, which are the
default here.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from farm.engines.base import Choices, EngineModel
from farm.engines.converter import run_converter
from farm.engines.python_engine import PythonEngine
from runtime.errors import DeviceError

# The converter itself. Its command, MNN.tools.mnnconvert, installs a package and reports to its maker.
_CONVERT = "import sys, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"


class MnnProgram:
    """Runs on the unit."""

    def __init__(
        self, files: Mapping[str, str], threads: int | None, precision: str = "high", winograd: str = "small"
    ) -> None:
        import json

        import MNN
        from MNN import expr

        with open(files["names"]) as file:  # noqa: PTH123
            self.names = json.load(file)
        threaded = {} if threads is None else {"numThread": threads}
        settings = {"backend": "CPU", "precision": precision, **threaded}
        runtime = MNN.nn.create_runtime_manager((settings,))
        if winograd == "small" and hasattr(runtime, "set_hint"):
            runtime.set_hint(3, 1)  # WINOGRAD_MEMORY_LEVEL: 3, its default, takes the largest units
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
    options: ClassVar[Choices] = {"precision": ("high", "normal", "low"), "winograd": ("small", "large")}
    program = MnnProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        if text := self.not_installed():  # a unit with wheels of its own does not convert
            raise DeviceError(text)

        def convert(path: Path) -> None:
            words = ["-f", "ONNX", "--modelFile", str(model.onnx_file), "--MNNModel", str(path), "--bizCode", "farm"]
            run_converter(self.name, [sys.executable, "-c", _CONVERT, *words], path)

        return {"model": model.made(f"{model.name}.mnn", convert), "names": model.names_file}
