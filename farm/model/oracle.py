"""Computes a model's reference outputs with ONNX Runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from runtime.errors import ModelError

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
    """Runs a model once; see Oracle."""
    return Oracle(model).outputs(inputs)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its exceptions have no common base of their own
        raise ModelError(f"ONNX Runtime, the reference, refuses the model: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
