"""A float model as it is quantised, and the layers that can stay in float one by one."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import NodeProto, TensorProto

from farm.config.suggestion import suggestion
from farm.model.reference_process import ReferenceProcess
from runtime.errors import ConfigError, ModelError, UnsupportedError
from runtime.graph import unused_name

FEW = 10  # names that a line lists
LEAST_OPSET = 13  # of scales for each channel
INT4_OPSET = 21

# Of those that ONNX Runtime's quantiser knows: without normalisations, whose sums of squares need more than eight bits.
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
LIMITING = ("Relu", "Clip")
FOLLOWERS = (*LIMITING, "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "MaxPool")
OTHERS = ("Add", "AveragePool", "Concat", "Gather", "GlobalAveragePool", "LeakyRelu", "Mul", "Pad", "Resize")
OPERATORS = (*WEIGHTED, *FOLLOWERS, *OTHERS, "Sigmoid", "Slice", "Softmax", "Split", "Where")
QUANTISED = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger")


@dataclasses.dataclass(frozen=True)
class LayerNodes:
    """An operator with those behind it that only clip or move what it computes: quantised together, or not at all.

    `nodes` are the names of its nodes, `tensors` the floats that these read and write, `output` what the last writes.
    """

    name: str
    op: str
    nodes: tuple[str, ...]
    tensors: frozenset[str]
    output: str


def float_model(source: onnx.ModelProto, process: ReferenceProcess, opset: int = LEAST_OPSET) -> onnx.ModelProto:
    """The model with batch normalisations folded, a name for each node, biases of its own, and the type of each tensor.

    Raises:
        ModelError: it is quantised already.
        UnsupportedError: ONNX cannot bring it to the opset that quantised operators need.
    """
    if any(node.op_type in QUANTISED for node in source.graph.node):
        raise ModelError("the model is quantised already; give the float one")
    model = onnx.load_model_from_string(process.simplified(_raised(source, opset).SerializeToString()))
    used = {node.domain for node in model.graph.node} | {""}
    opsets = [each for each in model.opset_import if each.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    model.ir_version = max(source.ir_version, 10 if opset >= INT4_OPSET else 8)
    taken: set[str] = set()
    for node in model.graph.node:
        node.name = unused_name(node.name or node.output[0], taken)
        taken.add(node.name)
    _unshare_vectors(model.graph)
    _rename_fused_shapes(model.graph)
    return onnx.shape_inference.infer_shapes(model)


def _rename_fused_shapes(graph: onnx.GraphProto) -> None:
    """Frees the names that onnxruntime gives shapes of a fused product: it refuses a model that has them already."""
    shapes = [each for each in graph.initializer if each.name.startswith(("gemm_input_shape", "gemm_output_shape"))]
    renamed = {each.name: f"fused/{each.name}" for each in shapes}
    for each in shapes:
        each.name = renamed[each.name]
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = renamed.get(name, name)


def _unshare_vectors(graph: onnx.GraphProto) -> None:
    """Gives each node constant vectors of its own: a bias has its node's scale, and exporters share those of zeros."""
    vectors = {each.name: each for each in graph.initializer if len(each.dims) == 1}
    read, taken = set[str](), {name for node in graph.node for name in (*node.input, *node.output)}
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in vectors and name in read:
                node.input[place] = unused_name(f"{name}/{node.name}", taken)
                taken.add(node.input[place])
                graph.initializer.add().CopyFrom(vectors[name])
                graph.initializer[-1].name = node.input[place]
            read.add(name)


def layers_of(model: onnx.ModelProto, operators: Sequence[str] = OPERATORS) -> list[LayerNodes]:
    """The layers of a model in its order, of the nodes that can be quantised; without those that read no floats."""
    floats = float_tensors(model)
    groups: dict[str, list[NodeProto]] = {}
    owner: dict[str, str] = {}
    for node in model.graph.node:
        if node.domain or node.op_type not in operators or not _floats_of(node, floats):
            continue
        leader = owner.get(node.input[0], node.name) if node.op_type in FOLLOWERS else node.name
        groups.setdefault(leader, []).append(node)
        owner |= dict.fromkeys(node.output, leader)
    return [_layer(nodes, floats) for nodes in groups.values()]


def float_tensors(model: onnx.ModelProto) -> frozenset[str]:
    """The names of all tensors of floats in a model, constants too."""
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    found = {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    return frozenset(found | {each.name for each in graph.initializer if each.data_type == TensorProto.FLOAT})


def activations(model: onnx.ModelProto, layers: Sequence[LayerNodes]) -> list[str]:
    """What the layers read and write that is no constant, in the model's order."""
    touched = {name for layer in layers for name in layer.tensors} - {each.name for each in model.graph.initializer}
    written = [name for node in model.graph.node for name in node.output]
    return [name for name in (*(value.name for value in model.graph.input), *written) if name in touched]


def named_layers(layers: Sequence[LayerNodes], model: onnx.ModelProto, names: Sequence[str]) -> set[str]:
    """The layers that names of nodes or of what these write stand for; ConfigError where there is none."""
    known: dict[str, str] = {}
    by_node = {node: layer.name for layer in layers for node in layer.nodes}
    for node in model.graph.node:
        if node.name in by_node:
            known |= dict.fromkeys((node.name, *node.output), by_node[node.name])
    for name in names:
        if name not in known:
            near = suggestion(name, [*known]) if len(known) <= FEW or difflib.get_close_matches(name, known) else ""
            raise ConfigError(f"--keep {name}: no layer that is quantised has this name{near}")
    return {known[name] for name in names}


def _raised(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    own: Mapping[str, int] = {each.domain: each.version for each in model.opset_import}
    version = own.get("", own.get("ai.onnx", 0))
    if version >= opset:
        return model
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception as error:  # RuntimeError, ValueError and protobuf's own
        reason = (str(error).splitlines() or [""])[0]
        raise UnsupportedError(f"opset {version} cannot be raised to {opset}: {reason}; export it again") from None


def _layer(nodes: Sequence[NodeProto], floats: frozenset[str]) -> LayerNodes:
    first, tensors = nodes[0], frozenset(name for node in nodes for name in _floats_of(node, floats))
    return LayerNodes(first.name, first.op_type, tuple(node.name for node in nodes), tensors, nodes[-1].output[0])


def _floats_of(node: NodeProto, floats: frozenset[str]) -> Iterator[str]:
    return (name for name in (*node.input, *node.output) if name in floats)
