"""The networks to measure, each as deployment files: the zoo's, and those of the onnx package with random weights."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import yaml

from farm import atomic_file
from farm.config import deployment, samples
from farm.config.deployment import Deployment
from farm.jobs.models.prepare import Prepared, prepare
from farm.model import fetch
from runtime import zoo
from runtime.types import Winograd


@dataclasses.dataclass(frozen=True)
class Network:
    """A model and the content of its deployment file; deployment files are written to `folder`."""

    name: str
    content: dict[str, Any]
    folder: Path

    def deployment_file(self, winograd: Winograd = "default") -> Path:
        """Writes a deployment file; each choice of Winograd has a library of its own, so that artifacts keep apart."""
        library = self.name if winograd == "default" else f"{self.name}_winograd{winograd}"
        settings = self.content["models"][self.name] | {"winograd": winograd}
        content = self.content | {"library_name": library, "models": {self.name: settings}}
        path = self.folder / f"{library}.yml"
        atomic_file.write(path, yaml.safe_dump(content, sort_keys=False).encode())
        return path

    def deployment(self, winograd: Winograd = "default") -> Deployment:
        return deployment.load(self.deployment_file(winograd))

    def prepared(self, winograd: Winograd = "default") -> Prepared:
        """The model, fetched and converted."""
        source = self.deployment(winograd)
        return prepare(source, self.name, fetch.Fetcher(source))

    def model_file(self) -> Path:
        """The ONNX file, generated if it is not there yet."""
        return fetch.Fetcher(self.deployment()).model_file(self.name).resolve()


def zoo_names() -> list[str]:
    """The networks that have a sample deployment file, the cheapest first."""
    names = {path.stem for path in samples.FOLDER.glob("*.yml")}
    return sorted(names & set(zoo.names()), key=lambda name: zoo.describe(name).macs)


@contextlib.contextmanager
def zoo_networks(names: Sequence[str], runtime: str = "", batch: int = 1) -> Iterator[list[Network]]:
    """Networks of the zoo by name, perhaps with a URL's options (`bert_mini?size=8`).

    `runtime`: in place of that of their samples.
    """
    with TemporaryDirectory(prefix="farm-benchmark.") as folder:
        found = [_zoo_network(name, batch, Path(folder)) for name in names]
        for network in found:
            settings = network.content["models"][network.name]
            settings["runtime"] = runtime or settings["runtime"]
        yield found


def _zoo_network(spec: str, batch: int, folder: Path) -> Network:
    name, _, options = spec.partition("?")
    content = yaml.safe_load((samples.FOLDER / f"{name}.yml").read_text())
    if options or batch > 1:
        label = re.sub(r"\W+", "_", f"{spec}_batch_{batch}")
        url = f"zoo://{spec}{'&' if options else '?'}batch={batch}"
        settings = content["models"][name] | {"model_file_path": url}
        settings["subgraphs"] = [settings["subgraphs"][0] | _shapes(zoo.from_url(url))]
        name, content = label, content | {"library_name": label, "models": {label: settings}}
    return Network(name, content, folder)


def _shapes(model: onnx.ModelProto) -> dict[str, list[str]]:
    sides = {"input_shapes": model.graph.input, "output_shapes": model.graph.output}
    return {key: [",".join(map(str, closed_shape(value))) for value in values] for key, values in sides.items()}


@contextlib.contextmanager
def light_network(name: str, path: Path) -> Iterator[Network]:
    """One of the onnx package's networks, its constant weights replaced by seeded random ones."""
    with TemporaryDirectory(prefix="farm-benchmark.") as scratch:
        folder = Path(scratch)
        model = zoo.reweight(onnx.load(path))
        atomic_file.write(folder / f"{name}.onnx", model.SerializeToString())
        yield Network(name, _content(name, model), folder)


def _content(name: str, model: onnx.ModelProto) -> dict[str, Any]:
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    settings = {
        "platform": "onnx",
        "model_file_path": f"{name}.onnx",
        "subgraphs": [
            {
                "input_tensors": [value.name for value in inputs],
                "input_shapes": [",".join(map(str, closed_shape(value))) for value in inputs],
                "output_tensors": [value.name for value in model.graph.output],
            }
        ],
        "runtime": "gpu",
        "data_type": "fp32_fp32",
    }
    return {"library_name": name, "target_abis": ["host"], "models": {name: settings}}


def closed_shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The shape for a batch of one where it is open."""
    return tuple(axis.dim_value or 1 for axis in value.type.tensor_type.shape.dim)
