"""Caffe networks for tests: layers with seeded weights, as the text and the binary file that Caffe would write."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from runtime.graph import Array
from runtime.importers.caffe.caffe_importer import CaffeModel, load_caffe
from runtime.importers.caffe.schema import WeightsParameter
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import check_graph
from runtime.oracle.evaluate import evaluate


class CaffeNet:
    """A network under construction; `channels` remembers those of each blob, for the weights of what reads it."""

    def __init__(self, seed: int = 0) -> None:
        self.head: list[str] = ['name: "test"']
        self.texts: list[str] = []
        self.blobs: dict[str, list[Array]] = {}
        self.channels: dict[str, int] = {}
        self._random = np.random.default_rng(seed)

    def input(self, name: str, shape: Sequence[int]) -> str:
        """An Input layer."""
        dims = " ".join(f"dim: {size}" for size in shape)
        self.layer("Input", name, [], [name], f"input_param {{ shape {{ {dims} }} }}")
        self.channels[name] = shape[1] if len(shape) > 1 else 1
        return name

    def layer(
        self,
        kind: str,
        name: str,
        bottoms: Sequence[str],
        tops: Sequence[str],
        parameters: str = "",
        blobs: Sequence[Array] = (),
    ) -> str:
        """Any layer; returns its first top."""
        edges = [f'bottom: "{bottom}"' for bottom in bottoms] + [f'top: "{top}"' for top in tops]
        self.texts.append("\n".join(["layer {", f'  name: "{name}"', f'  type: "{kind}"', *edges, parameters, "}"]))
        if blobs:
            self.blobs[name] = [np.asarray(blob, np.float32) for blob in blobs]
        if bottoms and bottoms[0] in self.channels:
            self.channels.update((top, self.channels[bottoms[0]]) for top in tops)
        return tops[0] if tops else ""

    def normal(self, *shape: int, spread: float = 1.0, mean: float = 0.0) -> Array:
        """Seeded weights."""
        return self._random.normal(mean, spread, shape).astype(np.float32)

    def conv(
        self,
        name: str,
        bottom: str,
        outputs: int,
        kernel: int,
        stride: int = 1,
        pad: int = 0,
        group: int = 1,
        dilation: int = 1,
        bias: bool = True,
        relu: bool = True,
        kind: str = "Convolution",
    ) -> str:
        """A convolution of square windows, and a ReLU in place."""
        inner = self.channels[bottom] // group
        weights = self.normal(outputs, inner, kernel, kernel, spread=(2 / (inner * kernel * kernel)) ** 0.5)
        text = f"num_output: {outputs} kernel_size: {kernel} stride: {stride} pad: {pad} group: {group}"
        text += f" dilation: {dilation} bias_term: {str(bias).lower()}"
        blobs = [weights, self.normal(outputs, spread=0.1)][: 1 + bias]
        self.layer(kind, name, [bottom], [name], f"convolution_param {{ {text} }}", blobs)
        self.channels[name] = outputs
        if relu:
            self.layer("ReLU", f"{name}_relu", [name], [name])
        return name

    def batch_norm(self, bottom: str, name: str) -> str:
        """BatchNorm with a factor that is not 1, and Scale, both in place."""
        count = self.channels[bottom]
        factor = 999.98
        stored = [self.normal(count, spread=0.2) * factor, (0.5 + self.normal(count) ** 2) * factor, np.full(1, factor)]
        self.layer("BatchNorm", f"{name}_bn", [bottom], [bottom], "batch_norm_param { use_global_stats: true }", stored)
        scales = [self.normal(count, spread=0.1, mean=1.0), self.normal(count, spread=0.1)]
        return self.layer("Scale", f"{name}_scale", [bottom], [bottom], "scale_param { bias_term: true }", scales)

    def pool(self, name: str, bottom: str, method: str = "MAX", text: str = "kernel_size: 3 stride: 2") -> str:
        """A pooling layer."""
        return self.layer("Pooling", name, [bottom], [name], f"pooling_param {{ pool: {method} {text} }}")

    def dense(self, name: str, bottom: str, inner: int, outputs: int) -> str:
        """An InnerProduct."""
        blobs = [self.normal(outputs, inner, spread=inner**-0.5), self.normal(outputs, spread=0.1)]
        self.layer("InnerProduct", name, [bottom], [name], f"inner_product_param {{ num_output: {outputs} }}", blobs)
        self.channels[name] = outputs
        return name

    def concat(self, name: str, bottoms: Sequence[str], text: str = "") -> str:
        """Joins along the channels."""
        self.layer("Concat", name, bottoms, [name], text)
        self.channels[name] = sum(self.channels[bottom] for bottom in bottoms)
        return name

    def text(self) -> str:
        """The .prototxt."""
        return "\n".join((*self.head, *self.texts)) + "\n"

    def weights(self) -> bytes:
        """The .caffemodel."""
        network = WeightsParameter(name="test")
        for name, blobs in self.blobs.items():
            layer = network.layer.add(name=name)
            for value in blobs:
                layer.blobs.add(data=[value.astype("<f4").tobytes()]).shape.dim.extend(value.shape)
        return bytes(network.SerializeToString())

    def write(self, folder: Path) -> tuple[Path, Path | None]:
        """Both files; None for weights that no layer has."""
        text, weights = folder / "net.prototxt", folder / "net.caffemodel"
        text.write_text(self.text())
        if self.blobs:
            weights.write_bytes(self.weights())
        return text, weights if self.blobs else None

    def load(self, folder: Path, **options: Any) -> CaffeModel:
        """Both files written, and imported."""
        return load_caffe(*self.write(folder), **options)

    def run(self, folder: Path, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """What ONNX Runtime makes of the imported network."""
        model = self.load(folder, outputs=outputs).model
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        used = {value.name for value in session.get_inputs()}
        values = session.run(None, {name: value for name, value in inputs.items() if name in used})
        return {info.name: value for info, value in zip(session.get_outputs(), values, strict=True)}

    def run_graph(self, folder: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the graph's own evaluation makes of it."""
        graph = import_onnx(self.load(folder).model)
        check_graph(graph)
        values = evaluate(graph, inputs)
        return {name: values[name] for name in graph.outputs}

    def run_opencv(self, inputs: Mapping[str, Array], output: str = "") -> Array:
        """What OpenCV, which reads Caffe's files itself, makes of it; `output` is a layer, by default the last."""
        import cv2

        text, weights = np.frombuffer(self.text().encode(), np.uint8), np.frombuffer(self.weights(), np.uint8)
        network = cv2.dnn.readNetFromCaffe(text, weights)
        for name, value in inputs.items():
            network.setInput(value, name)
        return np.asarray(network.forward(output) if output else network.forward())
