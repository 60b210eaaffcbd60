"""TensorFlow graphs whose weights are constants: read, cut at the deployment file's tensors, and given their shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from runtime.errors import ModelError
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors
from runtime.frameworks.names import find_tensor
from runtime.frameworks.programs.onnx_coverage import listed
from runtime.frameworks.request import FrameworkRequest

# They run Python code of the process, or touch files; what else a graph computes stays within it.
CODE_OPERATORS = frozenset(
    {
        *("EagerPyFunc", "PyFunc", "PyFuncStateless", "FileSystemSetConfiguration", "MatchingFiles", "ReadFile"),
        *("WriteFile", "WholeFileReader", "WholeFileReaderV2", "SaveV2", "Save", "SaveSlices", "PrintV2"),
        *("FixedLengthRecordDataset", "TextLineDataset", "TFRecordDataset", "DebugIdentity", "DebugIdentityV2"),
    }
)
VARIABLES = frozenset({"VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable", "TemporaryVariable"})


@dataclasses.dataclass(frozen=True)
class FrozenGraph:
    """A whole graph; `inputs` and `outputs` are its own, and `aliases` further names of tensors."""

    graph_def: Any
    inputs: Collection[str]
    outputs: Collection[str]
    aliases: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class BoundedGraph:
    """A graph between the tensors of a request, in its order."""

    graph_def: Any
    inputs: list[str]
    outputs: list[str]


def load(path: Path) -> FrozenGraph:
    """The graph of a .pb file; ModelError where it is none, or where it holds variables, whose values are elsewhere."""
    graph_def = tf.compat.v1.GraphDef()
    try:
        graph_def.ParseFromString(path.read_bytes())
    except DecodeError:
        raise ModelError(f"{path}: no frozen graph of TensorFlow, or truncated; get the file again") from None
    variables: dict[str, list[str]] = {}
    for node in graph_def.node:
        if node.op in VARIABLES:
            variables.setdefault(node.op, []).append(node.name)
    if variables:
        raise ModelError(f"{path}: weights are missing, the graph is not frozen: it holds {listed(variables)}")
    if not graph_def.node:
        raise ModelError(f"{path}: no frozen graph of TensorFlow, or truncated: it holds no nodes")
    read = {name.removeprefix("^").partition(":")[0] for node in graph_def.node for name in node.input}
    inputs = [node.name for node in graph_def.node if node.op in ("Placeholder", "PlaceholderWithDefault")]
    outputs = [node.name for node in graph_def.node if node.name not in read and node.op not in ("Const", "NoOp")]
    return FrozenGraph(graph_def, inputs, outputs, {})


def frozen(function: Any) -> Any:
    """A concrete function without variables. Its loops stay whole, which tf2onnx reads: layers over time have them."""
    return convert_variables_to_constants_v2(function, lower_control_flow=False, aggressive_inlining=True)


def check_trusted(graph_def: Any, request: FrameworkRequest) -> None:
    """Refuses a graph with operators that run code or touch files, unless the user trusts it."""
    found: dict[str, list[str]] = {}
    for node in [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]:
        if node.op in CODE_OPERATORS:
            found.setdefault(node.op, []).append(node.name)
    if found and not request.trusted:
        raise ModelError(
            f"{request.model}: holds operators that run code or touch files: {listed(found)}; "
            "--trust-model accepts that of an author whom you trust"
        )


def describe(whole: FrozenGraph) -> ModelTensors:
    """The graph's own inputs and outputs."""
    tensors = _tensors(whole)
    return ModelTensors(
        tuple(model_tensor(name, find_tensor("input", name, tensors, whole.inputs)) for name in whole.inputs),
        tuple(model_tensor(name, find_tensor("output", name, tensors, whole.outputs)) for name in whole.outputs),
    )


def model_tensor(name: str, tensor: Any) -> ModelTensor:
    """A symbolic tensor of TensorFlow or Keras, under a name."""
    shape = tf.TensorShape(tensor.shape)
    sizes = None if shape.rank is None else tuple("" if size is None else int(size) for size in shape)
    return ModelTensor(name, sizes, tf.as_dtype(tensor.dtype).name)


def cut(whole: FrozenGraph, request: FrameworkRequest) -> BoundedGraph:
    """The part between the request's tensors, which may be intermediate ones, with the request's shapes."""
    tensors = _tensors(whole)
    sources = [find_tensor("input", name, tensors, whole.inputs) for name in request.input_names]
    results = [find_tensor("output", name, tensors, whole.outputs) for name in request.outputs]
    with tf.Graph().as_default() as graph:
        fed = {source.name: _placeholder(index, source, request) for index, source in enumerate(sources)}
        imported = tf.import_graph_def(
            whole.graph_def, input_map=fed, return_elements=[result.name for result in results], name="model"
        )
        named = [tf.identity(result, name=f"farm_output_{index}") for index, result in enumerate(imported)]
    outputs = [tensor.op.name for tensor in named]
    part = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), outputs)
    _check_complete(part, fed)
    kept = {node.name for node in part.node}
    _keep_unread(part, graph, [tensor.op.name for tensor in fed.values() if tensor.op.name not in kept])
    return BoundedGraph(part, [tensor.name for tensor in fed.values()], [tensor.name for tensor in named])


def _tensors(whole: FrozenGraph) -> dict[str, Any]:
    """Every tensor of the graph by name."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(whole.graph_def, name="")
    tensors = {tensor.name: tensor for operation in graph.get_operations() for tensor in operation.outputs}
    return {**tensors, **{alias: tensors[name] for alias, name in whole.aliases.items()}}


def _placeholder(index: int, source: Any, request: FrameworkRequest) -> Any:
    """Takes the place of a tensor; ModelError where the deployment file's shape is not one that it can have."""
    name, shape = request.inputs[index]
    if not source.shape.is_compatible_with(shape):
        declared = ",".join("?" if size is None else str(size) for size in source.shape)
        raise ModelError(f"input {name!r}: shape {','.join(map(str, shape))}, but the model reads {declared}")
    return tf.compat.v1.placeholder(source.dtype, shape, f"farm_input_{index}")


def _check_complete(part: Any, fed: Mapping[str, Any]) -> None:
    """Every placeholder that is left in the graph must be one of the request's inputs."""
    ours = {tensor.op.name for tensor in fed.values()}
    missing = [node.name for node in part.node if node.op == "Placeholder" and node.name not in ours]
    if missing:
        name = missing[0].removeprefix("model/")
        raise ModelError(f"the model reads the input {name!r}, which input_tensors does not name")


def _keep_unread(part: Any, graph: Any, names: list[str]) -> None:
    """Keeps inputs that no output depends on: the deployment file names them."""
    part.node.extend(node for node in graph.as_graph_def().node if node.name in names)
