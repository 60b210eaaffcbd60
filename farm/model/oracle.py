"""Computes a model's reference outputs with ONNX Runtime; with NumPy where it has operators of the project's domain."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from farm.model.custom_stages import has_custom_nodes, run_stages
from runtime.convert import convert
from runtime.errors import ModelError
from runtime.evaluate import evaluate
from runtime.importers.custom_nodes import CustomNames
from runtime.importers.farm_domain import DOMAIN
from runtime.importers.onnx_importer import with_stand_ins
from runtime.onnx_runtime import onnxruntime

Array = npt.NDArray[Any]
ERRORS_ONLY = 3


class Oracle:
    """A model that ONNX Runtime has loaded; raises ModelError where it refuses it.

    Nodes that no two runtimes compute alike, such as random numbers, are those of a plan of the model. Of a model with
    users' operators it loads the parts between them, each when it comes to it first.
    """

    def __init__(self, model: onnx.ModelProto, custom: CustomNames | None = None) -> None:
        model = with_stand_ins(model, custom)
        self._model, self._custom = model, custom or {}
        self._parts: dict[bytes, onnxruntime.InferenceSession] = {}
        self._whole = None if has_custom_nodes(model, self._custom) else _session(model)

    def outputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the model: name -> input gives name -> output."""
        if self._whole:
            return _run(self._whole, inputs)
        return run_stages(self._model, inputs, self._custom, self._run_part)

    def _run_part(self, part: onnx.ModelProto, values: Mapping[str, Array]) -> dict[str, Array]:
        key = part.SerializeToString(deterministic=True)
        if key not in self._parts:
            self._parts[key] = _session(part)
        return _run(self._parts[key], values)


def expected_outputs(
    model: onnx.ModelProto, inputs: Mapping[str, Array], custom: CustomNames | None = None
) -> dict[str, Array]:
    """Runs a model once; see Oracle. What ONNX Runtime cannot know, the converted graph computes in NumPy."""
    if all(node.domain != DOMAIN for node in model.graph.node):
        return Oracle(model, custom).outputs(inputs)
    graph, _ = convert(model, custom=custom)
    values = evaluate(graph, inputs)
    return {name: values[name] for name in graph.outputs}


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    with _refusals():
        return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def _run(session: onnxruntime.InferenceSession, inputs: Mapping[str, Array]) -> dict[str, Array]:
    with _refusals():
        values = session.run(None, dict(inputs))
    names = (info.name for info in session.get_outputs())
    return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its exceptions have no common base of their own
        raise ModelError(f"ONNX Runtime, the reference, refuses the model: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
