"""Models of other frameworks: converted to ONNX once, kept in the cache, and run by their framework as the oracle.

frameworks/<key>.onnx    key: the model's content, its boundary, the packages' versions and the converter's source
frameworks/<key>.json    the inputs and outputs that the model has of its own; its key is of no boundary
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from farm import atomic_file
from farm.config.deployment import Input, Output
from farm.config.platforms import DataFormat
from farm.model import fetch
from farm.model.boundary import TO_NCHW, TO_NHWC, is_turned, own_shape
from runtime import frameworks
from runtime.frameworks import file_kinds, process
from runtime.frameworks.model_tensors import ModelTensors
from runtime.frameworks.process import FRAMEWORKS, package_versions, require
from runtime.frameworks.request import FrameworkRequest
from runtime.graph import Array
from runtime.importers.onnx_file import load_onnx
from runtime.importers.onnx_tensors import onnx_tensors


@dataclasses.dataclass(frozen=True)
class FrameworkModel:
    """A model of another framework between the tensors of a deployment file; `own` is its order of an image's axes."""

    platform: str
    path: Path
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    own: DataFormat
    trusted: bool

    def onnx_file(self, cache_folder: Path = fetch.CACHE_FOLDER) -> Path:
        """The model as an ONNX file, converted unless the cache has it.

        Raises:
            ConfigError: a package is missing; the text has the command that installs it.
            ModelError: the model is damaged, of another kind, carries code, or the framework cannot convert it.
        """
        return self._made("convert", process.MODEL, cache_folder)

    def own_tensors(self, cache_folder: Path = fetch.CACHE_FOLDER) -> ModelTensors:
        """The inputs and outputs that the model has of its own, whatever the deployment file names; same errors."""
        whole = dataclasses.replace(self, inputs=(), outputs=())
        return ModelTensors.of_json(whole._made("describe", process.TENSORS, cache_folder).read_text())

    def _made(self, action: process.Action, result: str, cache_folder: Path) -> Path:
        """The file that the framework's program makes, kept in the cache."""
        file_kinds.check(self.platform, self.path)
        packages = FRAMEWORKS[self.platform].to_convert
        require(f"platform: {self.platform}", packages)
        key = self._key(package_versions(packages))
        file = cache_folder / "frameworks" / f"{key}{Path(result).suffix}"
        if not file.exists():
            with TemporaryDirectory() as folder:
                process.run_program(action, self._request, Path(folder))
                atomic_file.write(file, (Path(folder) / result).read_bytes())
        return file

    def reference_outputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the framework computes from inputs in the application's order; errors as those of `onnx_file`."""
        framework = FRAMEWORKS[self.platform]
        require(f"validation against {framework.title}", framework.to_run)
        with TemporaryDirectory() as folder:
            arrays = [_entering(inputs[tensor.name], tensor, self.own) for tensor in self.inputs]
            _save(Path(folder) / process.INPUTS, arrays)
            process.run_program("run", self._request, Path(folder))
            with np.load(Path(folder) / process.OUTPUTS, allow_pickle=False) as values:
                return {
                    tensor.name: _leaving(values[str(index)], tensor, self.own)
                    for index, tensor in enumerate(self.outputs)
                }

    @property
    def _request(self) -> FrameworkRequest:
        inputs = tuple((tensor.name, own_shape(tensor, self.own)) for tensor in self.inputs)
        outputs = tuple(tensor.name for tensor in self.outputs)
        return FrameworkRequest(self.platform, str(self.path.absolute()), inputs, outputs, self.trusted)

    def _key(self, packages: Mapping[str, str]) -> str:
        """Where the model lies does not matter, what it holds does."""
        asked = dataclasses.replace(self._request, model="").to_json()
        source = "".join(path.read_text() for path in sorted(Path(frameworks.__path__[0]).rglob("*.py")))
        parts = (fetch.content_key(self.path), asked, repr(sorted(packages.items())), source)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _entering(value: Array, tensor: Input, own: DataFormat) -> Array:
    return value.transpose(TO_NCHW if own == "NCHW" else TO_NHWC) if is_turned(tensor, own) else value


def _leaving(value: Array, tensor: Output, own: DataFormat) -> Array:
    turned = is_turned(tensor, own) and value.ndim == 4
    return value.transpose(TO_NHWC if own == "NCHW" else TO_NCHW) if turned else value


def _save(file: Path, arrays: Sequence[Array]) -> None:
    named: dict[str, Any] = {str(index): value for index, value in enumerate(arrays)}
    np.savez(file, **named)


# Reads the model of a deployment file as an ONNX model, and what it declares: for each platform that farm reads by
# itself.
@dataclasses.dataclass(frozen=True)
class SourceModel:
    """A model as its reader brings it, and what `farm convert --explain` says of the reading, a line each."""

    model: onnx.ModelProto
    notes: tuple[str, ...] = ()


Reader = Callable[[Path, Path | None, Sequence[Input], Sequence[Output]], SourceModel]


def _read_onnx(path: Path, weights: Path | None, inputs: Sequence[Input], outputs: Sequence[Output]) -> SourceModel:
    return SourceModel(load_onnx(path))


def _read_caffe(path: Path, weights: Path | None, inputs: Sequence[Input], outputs: Sequence[Output]) -> SourceModel:
    """The deployment file's shapes replace the network's own: Caffe reshapes a network to its inputs."""
    from runtime.importers.caffe.caffe_importer import load_caffe

    shapes = {tensor.name: own_shape(tensor, "NCHW") for tensor in inputs}
    read = load_caffe(path, weights, shapes, [tensor.name for tensor in outputs])
    return SourceModel(read.model, read.notes)


def _caffe_tensors(path: Path) -> ModelTensors:
    from runtime.importers.caffe.caffe_importer import caffe_tensors

    return caffe_tensors(path)


READERS: Mapping[str, Reader] = {"onnx": _read_onnx, "caffe": _read_caffe}
DECLARATIONS: Mapping[str, Callable[[Path], ModelTensors]] = {
    "onnx": lambda path: onnx_tensors(load_onnx(path, external=False)),
    "caffe": _caffe_tensors,
}


def read_source_model(
    platform: str, path: Path, weights: Path | None, inputs: Sequence[Input], outputs: Sequence[Output]
) -> SourceModel:
    """Reads the files of a model; of a framework that `READERS` lacks, the file that framework_model.py has made.

    Raises ModelError where they are damaged or not supported.
    """
    return READERS.get(platform, _read_onnx)(path, weights, inputs, outputs)
