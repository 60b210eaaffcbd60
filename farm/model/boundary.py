"""Cuts a model at the inputs and outputs that the deployment file names, and converts these to its data formats.

Importer and oracle both get the cut model, so that arrays have the application's order everywhere. An image whose
format is not the model's own (NCHW in ONNX files, NHWC in what was converted from TensorFlow) keeps its name and gets a
transposition; the model's own tensor becomes `<name>:nchw` or `<name>:nhwc`.
"""

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import TensorProto, helper

from farm.config.deployment import Input, Output
from farm.config.platforms import DataFormat
from runtime.errors import ModelError
from runtime.graph import unused_name
from runtime.importers.scopes import all_names, constant_names, given_names, names_read, renamed

TO_NCHW = (0, 3, 1, 2)
TO_NHWC = (0, 2, 3, 1)
ELEMENT_TYPES: Mapping[str, int] = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}
IR_VERSION_WITH_FREE_INITIALIZERS = 4  # before it, every initializer had to be an input too


def cut_at_boundary(
    model: onnx.ModelProto, inputs: Sequence[Input], outputs: Sequence[Output], own: DataFormat = "NCHW"
) -> onnx.ModelProto:
    """Cuts the model to what lies between `inputs` and `outputs`, which may be intermediate tensors.

    `own` is the order of an image's axes in the model.

    Raises:
        ModelError: a tensor is not in the model, or an input of the model that is needed is not among `inputs`.
    """
    check_names(model, inputs, outputs)
    nodes = _needed_nodes(model, [tensor.name for tensor in inputs], [tensor.name for tensor in outputs])
    _check_inputs(model, nodes, inputs, own)
    tensors: list[Input | Output] = [*inputs, *outputs]
    taken = {*all_names(model.graph.node), *given_names(model.graph)}
    turned = [tensor.name for tensor in tensors if is_turned(tensor, own)]
    renames = {name: unused_name(f"{name}:{own.lower()}", taken) for name in turned}
    inner = [renamed(node, renames) for node in nodes]
    used = {name for node in inner for name in names_read(node)} | {tensor.name for tensor in outputs}
    entering, leaving = (TO_NCHW, TO_NHWC) if own == "NCHW" else (TO_NHWC, TO_NCHW)
    graph = helper.make_graph(
        [*_transposes(inputs, entering, renames, before=True), *inner, *_transposes(outputs, leaving, renames)],
        model.graph.name,
        [_value(tensor.name, ELEMENT_TYPES[tensor.data_type], tensor.shape) for tensor in inputs],
        [_value(tensor.name, _output_type(model, tensor), None) for tensor in outputs],
        [tensor for tensor in model.graph.initializer if tensor.name in used],
        sparse_initializer=[tensor for tensor in model.graph.sparse_initializer if tensor.values.name in used],
    )
    version = max(model.ir_version, IR_VERSION_WITH_FREE_INITIALIZERS)
    opsets, functions = model.opset_import, model.functions
    cut = helper.make_model(graph, opset_imports=opsets, ir_version=version, functions=functions)
    cut.metadata_props.extend(model.metadata_props)
    return cut


def check_names(model: onnx.ModelProto, inputs: Sequence[Input], outputs: Sequence[Output]) -> None:
    """Raises ModelError for a tensor that is not in the model."""
    written = {name for node in model.graph.node for name in node.output if name}
    known = written | set(given_names(model.graph))
    sides: list[tuple[str, Sequence[Input] | Sequence[Output]]] = [("input", inputs), ("output", outputs)]
    for kind, tensors in sides:
        for tensor in tensors:
            if tensor.name not in known:
                raise ModelError(f"{kind} tensor {tensor.name!r} is not in the model; it has {_tensors(model, kind)}")


def _output_type(model: onnx.ModelProto, tensor: Output) -> int:
    """Element type of an output: the model's; of a tensor within the model, what is asked or float32."""
    values = (*model.graph.output, *model.graph.value_info)
    declared = next((value.type.tensor_type.elem_type for value in values if value.name == tensor.name), 0)
    wanted = ELEMENT_TYPES[tensor.data_type] if tensor.data_type else 0
    if wanted and declared and wanted != declared:
        kind = TensorProto.DataType.Name(declared)
        raise ModelError(f"output {tensor.name!r}: the model writes {kind}, output_data_types says {tensor.data_type}")
    return declared or wanted or TensorProto.FLOAT


def channel_axis(data_format: DataFormat, rank: int) -> int:
    """The axis of a tensor that holds its channels."""
    return rank - 1 if data_format == "NHWC" else 1


def is_turned(tensor: Input | Output, own: DataFormat) -> bool:
    """Whether a transposition is needed; an output without a shape, whose rank is unknown, counts as an image."""
    return tensor.data_format not in (own, "NONE") and (tensor.shape is None or len(tensor.shape) == 4)


def own_shape(tensor: Input, own: DataFormat) -> tuple[int, ...]:
    """The shape of an input in the model's own order."""
    order = TO_NCHW if own == "NCHW" else TO_NHWC
    return tuple(tensor.shape[axis] for axis in order) if is_turned(tensor, own) else tensor.shape


def _needed_nodes(model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes between the inputs and the outputs, in the model's order."""
    producers = {name: node for node in model.graph.node for name in node.output if name}
    needed: set[int] = set()
    pending = list(outputs)
    while pending:
        name = pending.pop()
        node = producers.get(name)
        if node is not None and name not in inputs and id(node) not in needed:
            needed.add(id(node))
            pending += names_read(node)
    return [node for node in model.graph.node if id(node) in needed]


def _check_inputs(
    model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto], inputs: Sequence[Input], own: DataFormat
) -> None:
    provided = {tensor.name for tensor in inputs} | set(constant_names(model.graph))
    read = {name for node in nodes for name in names_read(node)}
    for value in model.graph.input:
        if value.name in read and value.name not in provided:
            raise ModelError(f"the model reads the input {value.name!r}, which input_tensors does not name")
    declared = {value.name: value for value in model.graph.input}
    for tensor in inputs:
        if tensor.name in declared:
            _check_shape(declared[tensor.name], tensor, own_shape(tensor, own))


def _check_shape(value: onnx.ValueInfoProto, tensor: Input, deployed: tuple[int, ...]) -> None:
    """Refuses a type or shape (`deployed`) other than the model's, in its order; a symbolic size matches any."""
    declared = value.type.tensor_type
    if declared.elem_type != ELEMENT_TYPES[tensor.data_type]:
        kind = TensorProto.DataType.Name(declared.elem_type)
        raise ModelError(f"input {tensor.name!r}: the model reads {kind}, input_data_types says {tensor.data_type}")
    if not declared.HasField("shape"):
        return
    sizes = [dim.dim_value or None for dim in declared.shape.dim]
    if len(sizes) != len(deployed) or any(
        size not in (None, wanted) for size, wanted in zip(sizes, deployed, strict=True)
    ):
        shown = ",".join("?" if size is None else str(size) for size in sizes)
        order = f", which is {','.join(map(str, deployed))} in the model's order" if deployed != tensor.shape else ""
        raise ModelError(
            f"input {tensor.name!r}: shape {','.join(map(str, tensor.shape))}{order}, but the model reads {shown}"
        )


def _transposes(
    tensors: Iterable[Input] | Iterable[Output], perm: Sequence[int], renames: Mapping[str, str], before: bool = False
) -> list[onnx.NodeProto]:
    nodes = []
    for name in (tensor.name for tensor in tensors if tensor.name in renames):
        source, result = (name, renames[name]) if before else (renames[name], name)
        nodes.append(helper.make_node("Transpose", [source], [result], f"{name}:format", perm=perm))
    return nodes


def _value(name: str, element_type: int, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type, shape)


def _tensors(model: onnx.ModelProto, kind: str) -> str:
    values = model.graph.input if kind == "input" else model.graph.output
    weights = set(constant_names(model.graph))
    return ", ".join(repr(value.name) for value in values if value.name not in weights) or "none"
