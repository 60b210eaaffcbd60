"""ExecuTorch, on the CPU, in float32: XNNPACK where it takes a node."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.engines import executorch_lowering
from farm.engines.base import EngineModel
from farm.engines.converter import run_converter
from farm.engines.python_engine import PythonEngine
from runtime.errors import DeviceError


class ExecuTorchProgram:
    """Runs on the unit. Only the runtime's extension is imported; the package's own module brings its compiler too."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        import json

        import torch
        from executorch.extension.pybindings import _C

        with open(files["names"]) as file:  # noqa: PTH123
            self.names = json.load(file)
        with open(files["nodes"]) as file:  # noqa: PTH123
            self.nodes = json.load(file)
        if threads:
            _C._unsafe_reset_threadpool(threads)  # the only way there is; nothing runs yet
        self.torch, self.net = torch, _C._load_for_executorch(files["model"])

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A round."""
        given = tuple(self.torch.from_numpy(inputs[name]) for name in self.names["inputs"])
        values = self.net.run_method("forward", given)
        return {name: value.numpy() for name, value in zip(self.names["outputs"], values, strict=True)}


class ExecuTorch(PythonEngine):
    """Takes the ONNX model: onnx2torch makes a PyTorch module of it, which ExecuTorch's own compiler lowers."""

    name = "executorch"
    package = "executorch"
    module = "torch"  # whose libraries the extension needs
    converter = "onnx2torch"
    needs = ("numpy", "torch", "typing-extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec")
    program = ExecuTorchProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        if text := self.missing():  # a unit with wheels of its own does not convert
            raise DeviceError(text)
        program, nodes = executorch_lowering.__file__, model.folder / f"{model.name}.pte.json"

        def convert(path: Path) -> None:
            words = [str(model.onnx_file), str(path), str(nodes)]
            run_converter(self.name, [sys.executable, "-I", program, *words], path)

        return {"model": model.made(f"{model.name}.pte", convert), "names": model.names_file, "nodes": nodes}
