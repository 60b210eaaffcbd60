"""Computes a model's reference outputs with ONNX Runtime; with NumPy where it has operators of the project's domain."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from runtime.convert import convert
from runtime.errors import ModelError
from runtime.evaluate import evaluate
from runtime.importers.farm_domain import DOMAIN

Array = npt.NDArray[Any]
ERRORS_ONLY = 3


class Oracle:
    """A model that ONNX Runtime has loaded; raises ModelError where it refuses it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        with _refusals():
            self._session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])

    def outputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the model: name -> input gives name -> output."""
        with _refusals():
            values = self._session.run(None, dict(inputs))
        names = (info.name for info in self._session.get_outputs())
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}


def expected_outputs(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Runs a model once; see Oracle. What ONNX Runtime cannot know, the converted graph computes in NumPy."""
    if all(node.domain != DOMAIN for node in model.graph.node):
        return Oracle(model).outputs(inputs)
    graph, _ = convert(model)
    values = evaluate(graph, inputs)
    return {name: values[name] for name in graph.outputs}


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its exceptions have no common base of their own
        raise ModelError(f"ONNX Runtime, the reference, refuses the model: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
