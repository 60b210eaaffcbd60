"""Computes a model's reference outputs with ONNX Runtime; with NumPy what that does not know, or not exactly."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import NodeProto, helper

from farm.model.reference_process import ReferenceProcess
from runtime.convert import convert
from runtime.graph import Array
from runtime.importers.farm_domain import DOMAIN, CustomNames, read_attributes
from runtime.importers.functions import domain_of
from runtime.importers.onnx_file import whole
from runtime.importers.onnx_importer import import_onnx, with_stand_ins
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.scopes import names_read
from runtime.importers.tensors import constant_tensors
from runtime.oracle.evaluate import compute, evaluate


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


# Computes a model by parts: what ONNX Runtime knows in stages, and between them operators that have another reference.
#
# These are users' operators, products of integers, which ONNX Runtime lets saturate on some CPUs, and its Softmax of
# integers, which rounds sums of a table: NumPy's are exact.
#
# Every node belongs to the stage that it can be computed in: after as many users' operators as lie on the longest way
# to it. So each node is computed once.
Run = Callable[[onnx.ModelProto, Mapping[str, Array]], dict[str, Array]]


_INTEGER_OPERATORS = {
    "": ("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    "com.microsoft": ("QAttention", "QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QLinearSoftmax"),
}


def has_own_stages(model: onnx.ModelProto, custom: CustomNames) -> bool:
    """Whether ONNX Runtime is not the reference of all operators of a model."""
    return any(_is_own(node, custom) for node in model.graph.node)


def _is_own(node: NodeProto, custom: CustomNames) -> bool:
    is_exact = node.op_type in _INTEGER_OPERATORS.get(domain_of(node), ())
    return is_exact or (node.domain, node.op_type) in custom


def run_stages(model: onnx.ModelProto, inputs: Mapping[str, Array], custom: CustomNames, run: Run) -> dict[str, Array]:
    """The outputs of a model; `run` computes a part that ONNX Runtime is the reference of."""
    stages = _stages(model, custom)
    values = dict(inputs) | {
        name: onnx.numpy_helper.to_array(tensor) for name, tensor in constant_tensors(model.graph).items()
    }
    wanted = [value.name for value in model.graph.output]
    for number, (ordinary, own) in enumerate(stages):
        later = [node for stage in stages[number + 1 :] for nodes in stage for node in nodes]
        values |= _part(model, ordinary, values, {*wanted, *_read([*own, *later])}, run)
        for node in own:
            values[node.output[0]] = _reference(model, node, custom, values)
    return {name: values[name] for name in wanted}


def _stages(model: onnx.ModelProto, custom: CustomNames) -> list[tuple[list[NodeProto], list[NodeProto]]]:
    """The nodes of each stage: those of ONNX Runtime, then those of another reference that read them."""
    stage_of: dict[str, int] = {}
    stages: list[tuple[list[NodeProto], list[NodeProto]]] = []
    for node in model.graph.node:
        stage = max((stage_of.get(name, 0) for name in _read([node])), default=0)
        own = _is_own(node, custom)
        stages += [([], []) for _ in range(stage + 1 - len(stages))]
        stages[stage][own].append(node)
        stage_of |= dict.fromkeys(node.output, stage + own)
    return stages


def _part(
    model: onnx.ModelProto, nodes: Sequence[NodeProto], values: Mapping[str, Array], wanted: set[str], run: Run
) -> dict[str, Array]:
    """What some nodes compute of the tensors that are wanted."""
    written = [name for node in nodes for name in node.output if name in wanted and name]
    if not written:
        return {}
    read = [name for name in dict.fromkeys(_read(nodes)) if name in values]
    graph = helper.make_graph(
        nodes,
        "part",
        [_described(name, values[name]) for name in read],
        [onnx.ValueInfoProto(name=name) for name in written],
    )
    opsets, functions = model.opset_import, model.functions
    part = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version, functions=functions)
    return run(part, {name: values[name] for name in read})


def _described(name: str, value: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _reference(model: onnx.ModelProto, node: NodeProto, custom: CustomNames, values: Mapping[str, Array]) -> Array:
    op = custom.get((node.domain, node.op_type))
    if op is None:
        return _folded(model, node, values)
    arguments = [np.asarray(values[name]) if name else None for name in node.input]
    return compute(op, arguments, read_attributes(OnnxNode.parse(node, 0, {}), op))


def _folded(model: onnx.ModelProto, node: NodeProto, values: Mapping[str, Array]) -> Array:
    """What a node computes of constants when it is imported."""
    constants = [onnx.numpy_helper.from_array(values[name], name) for name in filter(None, dict.fromkeys(node.input))]
    graph = helper.make_graph([node], "node", [], [onnx.ValueInfoProto(name=node.output[0])], constants)
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return import_onnx(alone).constants[node.output[0]]


def _read(nodes: Sequence[NodeProto]) -> list[str]:
    """What nodes read, in their bodies too."""
    return [name for node in nodes for name in names_read(node)]
