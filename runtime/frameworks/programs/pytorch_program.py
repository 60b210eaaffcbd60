"""Converts and runs .pt2 files (torch.export) and TorchScript: `python -m` with the folder of a request.

PyTorch's tensors have no names that last: the deployment file's stand for the arguments of `forward` and for its
results, in their order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import torch

from runtime.errors import ModelError
from runtime.frameworks import names
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors
from runtime.frameworks.programs import program, pytorch_archive, pytorch_quantised
from runtime.frameworks.programs.onnx_coverage import check_operators
from runtime.frameworks.request import FrameworkRequest

TITLE = "PyTorch"
OPSET = 18


def describe(request: FrameworkRequest, folder: Path) -> ModelTensors:
    """The arguments of `forward` and its results; of TorchScript only their number is known."""
    found = _load(request, folder)
    if not isinstance(found, torch.export.ExportedProgram):
        return _script_tensors(found)
    signature = found.graph_signature
    values = {node.name: node.meta.get("val") for node in found.graph.nodes}
    return ModelTensors(
        *(
            tuple(_described(str(name), values.get(name)) for name in names)
            for names in (signature.user_inputs, signature.user_outputs)
        )
    )


def _described(name: str, value: Any) -> ModelTensor:
    if not isinstance(value, torch.Tensor):
        return ModelTensor(name, None, type(value).__name__)
    sizes = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
    return ModelTensor(name, sizes, str(value.dtype).removeprefix("torch."))


def _script_tensors(found: Any) -> ModelTensors:
    inputs = [value.debugName().partition(".")[0] for value in list(found.graph.inputs())[1:]]
    kinds = [value.type() for value in found.graph.outputs()]
    count = sum(len(kind.elements()) if kind.kind() == "TupleType" else 1 for kind in kinds)
    outputs = ["output"] if count == 1 else [f"output_{index}" for index in range(count)]
    return ModelTensors(*(tuple(ModelTensor(name, None, "") for name in names) for names in (inputs, outputs)))


def to_onnx(request: FrameworkRequest, folder: Path) -> onnx.ModelProto:
    """The model as ONNX, its boundary under the deployment file's names."""
    found = _load(request, folder)
    model = _exported(found, request) if isinstance(found, torch.export.ExportedProgram) else _traced(found, request)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in constants]
    outputs = [value.name for value in model.graph.output]
    _check_count("input", inputs, request.input_names)
    _check_count("output", outputs, request.outputs)
    check_operators(model, TITLE)
    names.rename(model, dict(zip((*inputs, *outputs), (*request.input_names, *request.outputs), strict=True)))
    return model


def run(request: FrameworkRequest, folder: Path, inputs: Sequence[program.Array]) -> Sequence[program.Array]:
    """What PyTorch computes."""
    found = _load(request, folder)
    module = found.module() if isinstance(found, torch.export.ExportedProgram) else found
    with torch.no_grad():
        values = _flat(module(*map(torch.from_numpy, inputs)))
    _check_count("output", [str(index) for index in range(len(values))], request.outputs)
    return [value.numpy(force=True) for value in values]


def _load(request: FrameworkRequest, folder: Path) -> Any:
    """An ExportedProgram or a script module."""
    kind = pytorch_archive.check(request)
    if kind == "script":
        return torch.jit.load(request.model, map_location="cpu").eval()
    link = folder / "model.pt2"
    link.symlink_to(request.path)
    return torch.export.load(link)


def _exported(found: Any, request: FrameworkRequest) -> onnx.ModelProto:
    """What torch.export recorded, through the exporter that reads it."""
    _check_shapes(found, request)
    pytorch_quantised.check_steps(found)
    table = dict(pytorch_quantised.translations())
    converted = torch.onnx.export(
        found, opset_version=OPSET, dynamo=True, verbose=False, custom_translation_table=table
    )
    model: onnx.ModelProto = converted.model_proto
    return model


def _traced(found: Any, request: FrameworkRequest) -> onnx.ModelProto:
    """A script module, through the exporter that follows its code on zeros."""
    import io

    zeros = tuple(torch.zeros(shape) for _, shape in request.inputs)
    file = io.BytesIO()
    torch.onnx.export(found, zeros, file, opset_version=OPSET, dynamo=False)
    return onnx.load_model_from_string(file.getvalue())


def _check_shapes(found: Any, request: FrameworkRequest) -> None:
    """The shapes that the model was exported for; a size that is symbolic there takes any."""
    values = {node.name: node.meta.get("val") for node in found.graph.nodes if node.op == "placeholder"}
    own = [values[name] for name in found.graph_signature.user_inputs if name in values]
    _check_count("input", list(found.graph_signature.user_inputs), request.input_names)
    for (name, shape), value in zip(request.inputs, own, strict=True):
        sizes = [size if isinstance(size, int) else None for size in value.shape]
        fits = len(sizes) == len(shape) and all(a in (None, b) for a, b in zip(sizes, shape, strict=True))
        if not fits:
            declared = ",".join("?" if size is None else str(size) for size in sizes)
            raise ModelError(f"input {name!r}: shape {','.join(map(str, shape))}, but the model reads {declared}")


def _check_count(kind: str, own: Sequence[str], given: Sequence[str]) -> None:
    if len(own) != len(given):
        raise ModelError(
            f"the model has {len(own)} {kind}s, {kind}_tensors names {len(given)}: "
            f"they stand for those of forward, in its order"
        )


def _flat(value: Any) -> list[Any]:
    """The tensors of a result, whatever it is made of."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [tensor for part in parts for tensor in _flat(part)]


if __name__ == "__main__":
    sys.exit(program.main(TITLE, describe, to_onnx, run))
