"""Converts and runs frozen graphs, SavedModels and Keras models: `python -m` with the folder of a request.

Each kind becomes a frozen graph between the tensors of the deployment file, with their shapes; tf2onnx converts it, and
TensorFlow runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import tensorflow as tf

from runtime.errors import FarmError
from runtime.frameworks import names
from runtime.frameworks.model_tensors import ModelTensors
from runtime.frameworks.programs import fake_quant, frozen_graph, keras_model, program, saved_model
from runtime.frameworks.programs.frozen_graph import BoundedGraph
from runtime.frameworks.programs.onnx_coverage import check_operators, express_operators
from runtime.frameworks.request import FrameworkRequest

TITLE = "TensorFlow"
OPSET = 17


def describe(request: FrameworkRequest, folder: Path) -> ModelTensors:
    """The inputs and outputs that the model has of its own."""
    if request.platform == "keras":
        return keras_model.describe(request, folder)
    whole = _load(request, folder)
    frozen_graph.check_trusted(whole.graph_def, request)
    return frozen_graph.describe(whole)


def to_onnx(request: FrameworkRequest, folder: Path) -> onnx.ModelProto:
    """The model as ONNX, its boundary under the deployment file's names."""
    import tf2onnx

    bounded = _bounded(request, folder)
    tf2onnx.logging.set_level(tf2onnx.logging.ERROR)
    refusals: list[FarmError] = []
    model: onnx.ModelProto
    model, _ = tf2onnx.convert.from_graph_def(
        bounded.graph_def,
        input_names=bounded.inputs,
        output_names=bounded.outputs,
        opset=OPSET,
        custom_op_handlers=fake_quant.handlers(refusals),
    )
    if refusals:
        raise refusals[0]
    express_operators(model)
    check_operators(model, TITLE)
    given = (*request.input_names, *request.outputs)
    names.rename(model, dict(zip((*bounded.inputs, *bounded.outputs), given, strict=True)))
    return model


def run(request: FrameworkRequest, folder: Path, inputs: Sequence[program.Array]) -> Sequence[program.Array]:
    """What TensorFlow computes."""
    bounded = _bounded(request, folder)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(bounded.graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            values: list[program.Array] = session.run(bounded.outputs, dict(zip(bounded.inputs, inputs, strict=True)))
    return values


def _bounded(request: FrameworkRequest, folder: Path) -> BoundedGraph:
    """The frozen graph of any kind of model."""
    whole = _load(request, folder)
    frozen_graph.check_trusted(whole.graph_def, request)
    return frozen_graph.cut(whole, request)


def _load(request: FrameworkRequest, folder: Path) -> Any:
    if request.platform == "keras":
        return keras_model.load(request, folder)
    if request.path.is_dir():
        return saved_model.load(request)
    return frozen_graph.load(request.path)


if __name__ == "__main__":
    sys.exit(program.main(TITLE, describe, to_onnx, run))
