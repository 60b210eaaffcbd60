"""A quantised model with a switch for each tensor: one session tries every choice of layers that stay in float."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from farm.model.reference_process import ReferenceProcess
from farm.quantization.layers import LayerNodes
from farm.quantization.qdq import DEQUANTIZED, added_dequantizations, dequantized_name

Array = npt.NDArray[Any]

SWITCHES, SWITCH_NAME = "farm/switches", "switch"
SWITCH, PLACE, FLOAT, WHOLE = "{}/is_quantised", "{}/place", "{}/float", "{}/quantised"


class SwitchedModel:
    """Runs a quantised model of which some layers compute in float.

    Each tensor is `If(switch, dequantised, float)`; the switches are one input of the model, since passing hundreds
    takes longer than running it. A tensor is quantised where any layer that reads or writes it is, as in the model that
    leaves the other layers out.

    Args:
        model: the float model.
        quantised: the same, all `layers` quantised.
        watched: tensors of the float model to return beside its outputs.
    """

    def __init__(
        self,
        process: ReferenceProcess,
        model: onnx.ModelProto,
        quantised: onnx.ModelProto,
        layers: Sequence[LayerNodes],
        watched: Sequence[str] = (),
    ) -> None:
        self._process, self._layers = process, layers
        switched, self._tensors = _switched(model, quantised)
        known = {value.name for value in switched.graph.output}
        written = {name for node in switched.graph.node for name in node.output}
        after = {name: name + DEQUANTIZED if name + DEQUANTIZED in written else name for name in watched}
        self._watched = {inner: name for name, inner in after.items() if inner not in known}
        switched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._watched)
        self._model = switched.SerializeToString()

    def outputs(self, inputs: Mapping[str, Array], in_eight_bits: Collection[str]) -> dict[str, Array]:
        """The outputs and the watched tensors where the layers of these names are quantised."""
        touched = {name for layer in self._layers if layer.name in in_eight_bits for name in layer.tensors}
        switches = np.array([name in touched for name in self._tensors])
        found = self._process.run(self._model, {**inputs, SWITCHES: switches})
        return {self._watched.get(name, name): value for name, value in found.items()}


def _switched(model: onnx.ModelProto, quantised: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """The model with switches, and the tensors that have one."""
    made = onnx.ModelProto()
    made.CopyFrom(quantised)
    graph = made.graph
    constants = {each.name: each for each in model.graph.initializer}
    kept = {node.name for node in graph.node}
    removed = {node.output[0]: node for node in model.graph.node if node.name not in kept}
    producers = {name: node for node in graph.node for name in node.output}
    nodes: list[NodeProto] = []
    tensors: list[str] = []
    for node in list(added_dequantizations(made)):
        name = dequantized_name(node.output[0])
        tensors.append(name)
        if name in constants:
            plain = FLOAT.format(name)
            graph.initializer.append(_renamed(constants[name], plain))
        else:
            plain = producers[node.input[0]].input[0]
            if name in removed:
                nodes.append(_again(removed[name], plain, plain := FLOAT.format(name)))
        where = helper.make_node(
            "Where", [SWITCH.format(name), WHOLE.format(name), plain], [node.output[0]], f"{name}/{SWITCH_NAME}"
        )
        node.output[0] = WHOLE.format(name)
        nodes.append(where)
    have = {each.name for each in graph.initializer}
    needed = {name for node in nodes for name in node.input}
    graph.initializer.extend(each for name, each in constants.items() if name in needed and name not in have)
    graph.node.extend(nodes)
    tensors = list(dict.fromkeys(tensors))
    graph.input.append(helper.make_tensor_value_info(SWITCHES, TensorProto.BOOL, [len(tensors)]))
    for place, name in enumerate(tensors):
        graph.initializer.append(numpy_helper.from_array(np.array(place), PLACE.format(name)))
        graph.node.append(helper.make_node("Gather", [SWITCHES, PLACE.format(name)], [SWITCH.format(name)]))
    return _branched(_sorted(made)), tensors


def _again(node: NodeProto, source: str, result: str) -> NodeProto:
    """A node that the quantised model does without, since its range clips as well, for when it computes in float."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[0], copy.output[0], copy.name = source, result, f"{node.name}/float"
    return copy


def _renamed(tensor: TensorProto, name: str) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


def _branched(model: onnx.ModelProto) -> onnx.ModelProto:
    """The sorted model with an If for each Where: what its switch does not choose is not computed."""
    graph, readers = model.graph, Counter(name for node in model.graph.node for name in node.input)
    producers = {name: node for node in graph.node for name in node.output}
    nodes, inside = list[NodeProto](), set[str]()
    for node in graph.node:
        if node.op_type != "Where" or not node.name.endswith(SWITCH_NAME):
            nodes.append(node)
            continue
        switch, whole, plain = node.input
        branch = [producers[whole]]
        quantize = producers.get(branch[0].input[0])
        if quantize is not None and readers[quantize.output[0]] == 1:
            branch.insert(0, quantize)
        inside |= {name for each in branch for name in each.output}
        kept = helper.make_node("Identity", [plain], [f"{plain}/{SWITCH_NAME}"])
        branches = {"then_branch": _branch(branch), "else_branch": _branch([kept])}
        nodes.append(helper.make_node("If", [switch], node.output, node.name, **branches))
    del graph.node[:]
    graph.node.extend(node for node in nodes if node.output[0] not in inside)
    return model


def _branch(nodes: Sequence[NodeProto]) -> onnx.GraphProto:
    result = onnx.helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    return helper.make_graph(nodes, "branch", [], [result])


def _sorted(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.quantization.onnx_model import ONNXModel

    ONNXModel(model).topological_sort()
    return model
