"""Computes a model's reference outputs with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from runtime.errors import ModelError

Array = npt.NDArray[Any]
ERRORS_ONLY = 3


def expected_outputs(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Runs the model: name -> input gives name -> output; raises ModelError where ONNX Runtime refuses it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        values = session.run(None, dict(inputs))
    except Exception as error:  # its exceptions have no common base of their own
        raise ModelError(f"ONNX Runtime, the reference, refuses the model: {_first_line(error)}") from None
    return {info.name: np.asarray(value) for info, value in zip(session.get_outputs(), values, strict=True)}


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
