"""LiteRT (TensorFlow Lite), on the CPU, by XNNPACK or another delegate where that takes an operator."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from farm.engines.base import Choices, EngineModel
from farm.engines.python_engine import RUNNERS, PythonEngine
from runtime.errors import UnsupportedError


class LiteRtProgram:
    """Runs on the unit."""

    def __init__(self, files: Mapping[str, str], threads: int | None, delegate: str = "xnnpack", **more: str) -> None:
        import json
        import os

        from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate

        with open(files["names"]) as file:  # noqa: PTH123
            names = json.load(file)
        kernels, external = OpResolverType.AUTO, []
        if delegate != "xnnpack":
            kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        if delegate not in ("xnnpack", "none"):
            given = {key.removeprefix("delegate."): value for key, value in more.items()}
            external = [load_delegate(os.path.abspath(delegate), given)]  # noqa: PTH100
        self.interpreter = Interpreter(
            model_path=files["model"],
            num_threads=threads,
            experimental_delegates=external,
            experimental_op_resolver_type=kernels,
        )
        self.interpreter.allocate_tensors()
        self.nodes = self.places()
        self.inputs = self.tensors("input", names["inputs"])
        self.outputs = self.tensors("output", names["outputs"])

    def places(self) -> dict[str, int]:
        """How many nodes delegates took, and how many they left. A tensor that a delegate writes is not computed else.

        The list has the nodes of the file and then those of delegates, each of which stands for several.
        """
        operators = self.interpreter._get_ops_details()
        own = [each for each in operators if each["op_name"] != "DELEGATE"]
        writers = {index: each for each in own for index in each["outputs"]}
        writers |= {index: each for each in operators if each not in own for index in each["outputs"]}
        wanted = [each["index"] for each in self.interpreter.get_output_details()]
        run: dict[int, str] = {}
        while wanted:
            writer = writers.get(wanted.pop())
            if writer is not None and writer["index"] not in run:
                run[writer["index"]] = writer["op_name"]
                wanted += [int(index) for index in writer["inputs"]]
        left = sum(name != "DELEGATE" for name in run.values())
        return {"delegate": len(own) - left, "cpu": left}

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
    library = ("libLiteRt.so", "libtensorflowlite_jni.so", "libtensorflowlite_c.so")
    options: ClassVar[Choices] = {"delegate": (), "delegate.": (), **RUNNERS}
    file_options = ("delegate",)
    program = LiteRtProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        if model.is_turned:
            raise UnsupportedError("litert takes a .tflite file as it is: leave out the data formats of its tensors")
        return {"model": model.source, "names": model.names_file}
