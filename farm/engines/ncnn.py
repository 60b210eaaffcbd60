"""ncnn, on the CPU, in float32 unless its option says otherwise."""

import importlib.metadata
import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from farm.engines.base import Choices, EngineModel
from farm.engines.converter import run_converter
from farm.engines.python_engine import PythonEngine
from runtime.errors import DeviceError

# ncnn keeps no axis of images: which one it leaves out of a tensor, or 233 for none, stands in the program that its
# converter writes beside the model.
_BATCH_AXIS = re.compile(r"(?:Mat\((in\d+)\.numpy\(\), |(out\d+)\.numpy\()batch_index=(\d+)\)")


class NcnnProgram:
    """Runs on the unit."""

    def __init__(self, files: Mapping[str, str], threads: int | None, precision: str = "fp32") -> None:
        import json

        import ncnn

        self.ncnn, self.net = ncnn, ncnn.Net()
        options = self.net.opt
        options.num_threads = threads or options.num_threads
        half = precision == "fp16"
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = half
        options.use_bf16_storage = precision == "bf16"
        if self.net.load_param(files["model"]) or self.net.load_model(files["weights"]):
            raise ValueError("ncnn does not load it")
        with open(files["model"]) as file:  # noqa: PTH123
            _, counts = file.readline(), file.readline()
        self.nodes = {"cpu": int(counts.split()[0])}  # its layers, of which the wheel sends none elsewhere
        with open(files["names"]) as file:  # noqa: PTH123
            names = json.load(file)
        with open(files["axes"]) as file:  # noqa: PTH123
            axes = json.load(file)
        self.inputs = [(name, f"in{index}", axes[f"in{index}"]) for index, name in enumerate(names["inputs"])]
        self.outputs = [(name, f"out{index}", axes[f"out{index}"]) for index, name in enumerate(names["outputs"])]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A round."""
        extractor, outputs = self.net.create_extractor(), {}
        for name, blob, axis in self.inputs:
            value = inputs[name].astype("float32" if inputs[name].dtype.kind == "f" else "int32")
            extractor.input(blob, self.ncnn.Mat(value, batch_index=axis))
        for name, blob, axis in self.outputs:
            status, mat = extractor.extract(blob)
            if status:
                raise ValueError(f"ncnn gives no output {name}: status {status}")
            outputs[name] = mat.numpy(batch_index=axis).copy()
        return outputs


class Ncnn(PythonEngine):
    """Takes the ONNX model, by pnnx, ncnn's own converter."""

    name = "ncnn"
    package = "ncnn"
    module = "ncnn"
    converter = "pnnx"
    options: ClassVar[Choices] = {"precision": ("fp32", "fp16", "bf16")}
    program = NcnnProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        param = model.made(f"{model.name}.ncnn.param", lambda path: self._convert(model, path))
        made = {"weights": param.with_suffix(".bin"), "axes": param.with_suffix(".json")}
        return {"model": param, "names": model.names_file, **made}

    def _convert(self, model: EngineModel, path: Path) -> None:
        final = model.folder / f"{model.name}.ncnn.param"
        with TemporaryDirectory(dir=model.folder) as scratch:
            parts = {part: Path(scratch, f"net.{part}") for part in ("ncnnparam", "ncnnbin", "ncnnpy")}
            unused = {part: Path(scratch, part) for part in ("pnnxparam", "pnnxbin", "pnnxpy", "pnnxonnx")}
            words = [f"{part}={file}" for part, file in {**parts, **unused}.items()]
            onnx = Path(scratch, "net.onnx")  # beside which it writes more
            onnx.symlink_to(model.onnx_file.resolve())
            run_converter(self.name, [str(self._program()), str(onnx), *words, "fp16=0"], parts["ncnnparam"])
            found = _BATCH_AXIS.findall(parts["ncnnpy"].read_text())
            axes = {into or out: int(axis) for into, out, axis in found}
            final.with_suffix(".json").write_text(json.dumps(axes))
            parts["ncnnbin"].rename(final.with_suffix(".bin"))
            parts["ncnnparam"].rename(path)

    def _program(self) -> Path:
        """The converter in its package, which cannot be imported without PyTorch."""
        if text := self.missing_converter():
            raise DeviceError(text)
        return Path(str(importlib.metadata.distribution(self.converter).locate_file("pnnx/pnnx")))
