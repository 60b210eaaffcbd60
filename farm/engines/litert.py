"""LiteRT (TensorFlow Lite), on the CPU: XNNPACK where it takes an operator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.engines.base import EngineModel
from farm.engines.python_engine import PythonEngine
from runtime.errors import UnsupportedError


class LiteRtProgram:
    """Runs on the unit."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        import json

        from ai_edge_litert.interpreter import Interpreter

        with open(files["names"]) as file:  # noqa: PTH123
            names = json.load(file)
        self.interpreter = Interpreter(model_path=files["model"], num_threads=threads)
        self.interpreter.allocate_tensors()
        self.inputs = self.tensors("input", names["inputs"])
        self.outputs = self.tensors("output", names["outputs"])

    def tensors(self, side: str, names: list[str]) -> dict[str, int]:
        """The indices of tensors that go in or out, by their names or their keys in the model's only signature."""
        known = {each["name"]: each["index"] for each in getattr(self.interpreter, f"get_{side}_details")()}
        signatures = list(self.interpreter.get_signature_list())
        if len(signatures) == 1:
            runner = self.interpreter.get_signature_runner(signatures[0])
            keyed = getattr(runner, f"get_{side}_details")()
            known |= {key: each["index"] for key, each in keyed.items()}
        for name in names:
            if name not in known:
                raise ValueError(f"the file has no {side} {name}; it has {', '.join(known)}")
        return {name: known[name] for name in names}

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A round."""
        for name, index in self.inputs.items():
            self.interpreter.set_tensor(index, inputs[name])
        self.interpreter.invoke()
        return {name: self.interpreter.get_tensor(index) for name, index in self.outputs.items()}


class LiteRt(PythonEngine):
    """Takes .tflite files as they are."""

    name = "litert"
    package = "ai-edge-litert"
    module = "ai_edge_litert.interpreter"
    needs = ("numpy", "flatbuffers", "backports-strenum", "typing-extensions", "tqdm")
    platforms = ("tflite",)
    program = LiteRtProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        if model.is_turned:
            raise UnsupportedError("litert takes a .tflite file as it is: leave out the data formats of its tensors")
        return {"model": model.source, "names": model.names_file}
