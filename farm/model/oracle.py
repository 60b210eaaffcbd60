"""Computes a model's reference outputs with ONNX Runtime; with NumPy what that does not know, or not exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import onnx

from farm.model.custom_stages import has_own_stages, run_stages
from farm.model.reference_process import ReferenceProcess
from runtime.convert import convert
from runtime.importers.custom_nodes import CustomNames
from runtime.importers.farm_domain import DOMAIN
from runtime.importers.onnx_file import whole
from runtime.importers.onnx_importer import with_stand_ins
from runtime.oracle.evaluate import evaluate

Array = npt.NDArray[Any]


class Oracle:
    """A model in a process of ONNX Runtime, which loads it when it is asked first.

    Nodes that no two runtimes compute alike, such as random numbers, are those of a plan of the model. Of a model with
    users' operators, or with products of integers, it runs the parts between them.
    """

    def __init__(self, model: onnx.ModelProto, custom: CustomNames | None = None) -> None:
        model = whole(with_stand_ins(model, custom))
        self._model, self._custom = model, custom or {}
        self._process = ReferenceProcess()
        self._whole = None if has_own_stages(model, self._custom) else model.SerializeToString(deterministic=True)

    def outputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the model: name -> input gives name -> output; NoReferenceError where ONNX Runtime cannot."""
        if self._whole is not None:
            return self._process.run(self._whole, inputs)
        return run_stages(self._model, inputs, self._custom, self._run_part)

    def _run_part(self, part: onnx.ModelProto, values: Mapping[str, Array]) -> dict[str, Array]:
        return self._process.run(part.SerializeToString(deterministic=True), values)


def expected_outputs(
    model: onnx.ModelProto, inputs: Mapping[str, Array], custom: CustomNames | None = None
) -> dict[str, Array]:
    """Runs a model once; see Oracle. What ONNX Runtime cannot know, the converted graph computes in NumPy."""
    if all(node.domain != DOMAIN for node in model.graph.node):
        return Oracle(model, custom).outputs(inputs)
    graph, _ = convert(model, custom=custom)
    values = evaluate(graph, inputs)
    return {name: values[name] for name in graph.outputs}
