"""Converts and runs .tflite models: `python -m` with the folder of a request.

LiteRT's interpreter reads the model first, and names and shapes its tensors; tf2onnx converts it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from ai_edge_litert.interpreter import Interpreter

from runtime.errors import ModelError
from runtime.frameworks import names
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors
from runtime.frameworks.names import find_tensor
from runtime.frameworks.programs import program
from runtime.frameworks.programs.onnx_coverage import check_operators, express_operators
from runtime.frameworks.request import FrameworkRequest
from runtime.semantics.quantization import FIXED_POINT_BUT

TITLE = "LiteRT"
OPSET = 17


def describe(request: FrameworkRequest, folder: Path) -> ModelTensors:
    """The inputs and outputs that the model has of its own, under their keys in its only signature, where it has one.

    A size that the file leaves open is what the interpreter takes for it.
    """
    interpreter = _interpreter(request)
    sides: list[tuple[Literal["input", "output"], Any]] = [
        ("input", interpreter.get_input_details()),
        ("output", interpreter.get_output_details()),
    ]
    return ModelTensors(*(tuple(_described(interpreter, kind, details)) for kind, details in sides))


def _described(interpreter: Any, kind: Literal["input", "output"], details: Any) -> Iterator[ModelTensor]:
    keys = {detail["index"]: key for key, detail in _by_key(interpreter, kind).items()}
    for detail in details:
        shape = tuple(map(int, detail["shape"]))
        yield ModelTensor(keys.get(detail["index"], detail["name"]), shape, np.dtype(detail["dtype"]).name)


def to_onnx(request: FrameworkRequest, folder: Path) -> onnx.ModelProto:
    """The model as ONNX, its boundary under the deployment file's names."""
    import tf2onnx

    interpreter = _interpreter(request)
    inputs = [detail["name"] for detail in _inputs(interpreter, request)]
    outputs = [detail["name"] for detail in _outputs(interpreter, request)]
    tf2onnx.logging.set_level(tf2onnx.logging.ERROR)
    model: onnx.ModelProto
    model, _ = tf2onnx.convert.from_tflite(request.model, inputs, outputs, opset=OPSET)
    express_operators(model)
    check_operators(model, TITLE)
    given = (*request.input_names, *request.outputs)
    renames = dict(zip((*inputs, *outputs), given, strict=True))
    floats = (each["name"] for each in interpreter.get_tensor_details() if each["dtype"] == np.float32)
    in_floats = [renames.get(name, name) for name in floats]
    model.metadata_props.add(key=FIXED_POINT_BUT, value=json.dumps(in_floats))
    names.rename(model, renames)
    return model


def run(request: FrameworkRequest, folder: Path, inputs: Sequence[program.Array]) -> Sequence[program.Array]:
    """What the interpreter computes."""
    interpreter = _interpreter(request)
    for detail, value in zip(_inputs(interpreter, request), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in _outputs(interpreter, request)]


def _interpreter(request: FrameworkRequest) -> Any:
    """The model with memory for its tensors, all of which stay readable."""
    interpreter = Interpreter(request.model, num_threads=1, experimental_preserve_all_tensors=True)
    for detail in interpreter.get_tensor_details():
        _check_steps(detail)
    interpreter.allocate_tensors()
    return interpreter


def _check_steps(detail: Mapping[str, Any]) -> None:
    """Raises ModelError where a scale or zero point of a tensor makes no sense."""
    name, dtype, known = detail["name"], np.dtype(detail["dtype"]), detail["quantization_parameters"]
    scales, zeros = known["scales"], known["zero_points"]
    if (wrong := scales[~(np.isfinite(scales) & (scales > 0))]).size:
        raise ModelError(f"tensor {name!r}: scale {wrong[0]:g}; a positive number is needed, so quantise it again")
    if scales.size and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if (out := zeros[(zeros < info.min) | (zeros > info.max)]).size:
            raise ModelError(f"tensor {name!r}: zero point {out[0]} lies outside of {info.min} to {info.max}")


def _inputs(interpreter: Any, request: FrameworkRequest) -> list[dict[str, Any]]:
    """The tensors of the request's inputs, which are all of the model's."""
    own = {detail["name"]: detail for detail in interpreter.get_input_details()}
    known = {**own, **_by_key(interpreter, "input")}
    found = [find_tensor("input", name, known, list(own)) for name in request.input_names]
    for (name, shape), detail in zip(request.inputs, found, strict=True):
        _check_shape(name, shape, tuple(map(int, detail["shape"])))
    unnamed = set(own) - {detail["name"] for detail in found}
    if unnamed:
        raise ModelError(f"the model reads the input {min(unnamed)!r}, which input_tensors does not name")
    return found


def _outputs(interpreter: Any, request: FrameworkRequest) -> list[dict[str, Any]]:
    """The tensors of the request's outputs, any of the model's."""
    every = {detail["name"]: detail for detail in interpreter.get_tensor_details()}
    own = {detail["name"]: detail for detail in interpreter.get_output_details()}
    known = {**every, **own, **_by_key(interpreter, "output")}
    return [find_tensor("output", name, known, list(own)) for name in request.outputs]


def _by_key(interpreter: Any, kind: Literal["input", "output"]) -> Mapping[str, dict[str, Any]]:
    """The tensors under the keys of the model's only signature, where it has one."""
    signatures = list(interpreter.get_signature_list())
    if len(signatures) != 1:
        return {}
    runner = interpreter.get_signature_runner(signatures[0])
    details = runner.get_input_details() if kind == "input" else runner.get_output_details()
    return dict(details)


def _check_shape(name: str, shape: tuple[int, ...], declared: tuple[int, ...]) -> None:
    if shape != declared:
        given, read = ",".join(map(str, shape)), ",".join(map(str, declared))
        raise ModelError(f"input {name!r}: shape {given}, but the model reads {read}")


if __name__ == "__main__":
    sys.exit(program.main(TITLE, describe, to_onnx, run))
