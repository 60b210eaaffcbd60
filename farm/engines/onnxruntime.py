"""ONNX Runtime, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.engines.base import EngineModel
from farm.engines.python_engine import PythonEngine


class OnnxRuntimeProgram:
    """Runs on the unit."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads or 0
        self.session = onnxruntime.InferenceSession(files["model"], options, ["CPUExecutionProvider"])
        self.names = [output.name for output in self.session.get_outputs()]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A round."""
        return dict(zip(self.names, self.session.run(None, dict(inputs)), strict=True))


class OnnxRuntime(PythonEngine):
    """Takes every model, as the ONNX model that farm reads or makes of it."""

    name = "onnxruntime"
    package = "onnxruntime"
    module = "onnxruntime"
    program = OnnxRuntimeProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        return {"model": model.onnx_file}
