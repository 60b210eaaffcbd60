"""Definitions of operators by others, ONNX's and the model's own, and bodies: nodes that stand in for one node."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto, TypeProto, helper

from runtime.errors import ModelError
from runtime.graph import TensorInfo

Names = dict[str, str]
FunctionKey = tuple[str, str, str]
Fresh = Callable[[str], str]  # name -> one like it that no tensor has yet


def function_of(proto: NodeProto, opset: int, inputs: Sequence[TensorInfo | None]) -> FunctionProto | None:
    """ONNX's definition of a node's operator in an opset, for inputs of these types; None where it has none."""
    try:
        schema: Any = onnx.defs.get_schema(proto.op_type, opset, proto.domain)  # its stubs lack these members
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        versions = [version for version in schema.function_opset_versions if version <= opset]
        version = max(versions, default=min(schema.function_opset_versions))
        content = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
        types = [_type(info).SerializeToString() for info in inputs]
        node = proto.SerializeToString()
        content = (
            schema.get_context_dependent_function_with_opset_version(max(versions), node, types) if versions else b""
        )
    else:
        return None
    return FunctionProto.FromString(content) if content else None


def _type(info: TensorInfo | None) -> TypeProto:
    if info is None:
        return TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(info.dtype), info.shape)


def own_functions(model: onnx.ModelProto) -> dict[FunctionKey, FunctionProto]:
    """The functions that a model brings, by what their nodes are called."""
    return {(domain_of(function), function.name, function.overload): function for function in model.functions}


def function_key(proto: NodeProto) -> FunctionKey:
    """What a node is called: domain, operator and overload."""
    return domain_of(proto), proto.op_type, proto.overload


def domain_of(named: NodeProto | FunctionProto | OperatorSetIdProto) -> str:
    """The domain; ONNX's own, which has two names, is empty."""
    return "" if named.domain == "ai.onnx" else named.domain


def versions_of(opsets: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The version of each domain."""
    return {domain_of(entry): entry.version for entry in opsets}


def schema_defaults(proto: NodeProto, opset: int) -> dict[str, AttributeProto]:
    """The values that ONNX gives the attributes of an operator."""
    attributes = onnx.defs.get_schema(proto.op_type, opset, proto.domain).attributes
    return {name: schema.default_value for name, schema in attributes.items() if schema.default_value.name}


def expanded(
    function: FunctionProto, proto: NodeProto, defaults: Mapping[str, AttributeProto], fresh: Fresh
) -> list[NodeProto]:
    """The nodes of a function that compute what one node does; tensors between them begin with that node's name."""
    prefix = f"{node_name(proto)}/"
    names: Names = dict.fromkeys(function.input, "") | dict(zip(function.input, proto.input, strict=False))
    results = {formal: actual for formal, actual in zip(function.output, proto.output, strict=False) if actual}
    given = dict(defaults)
    given |= {value.name: value for value in function.attribute_proto}
    given |= {attribute.name: attribute for attribute in proto.attribute}
    return instantiated(function.node, names, prefix, fresh, given, results)


def node_name(proto: NodeProto) -> str:
    """Name of a node; one without a name takes that of its first output."""
    return proto.name or next(filter(None, proto.output), proto.op_type)


def check_written_once(nodes: Sequence[NodeProto], given: Mapping[str, str] | None = None) -> None:
    """Raises ModelError where two nodes of a graph, or one of them twice, write a tensor of one name.

    `given`: what the tensors are that exist without a node.
    """
    known = dict(given or {})
    for node in nodes:
        for name in filter(None, node.output):
            if name in known:
                raise ModelError(f"node '{node.name or node.op_type}' writes '{name}', which is {known[name]}")
            known[name] = "written before"


def instantiated(
    nodes: Sequence[NodeProto],
    names: Names,
    prefix: str,
    fresh: Fresh,
    attributes: Mapping[str, AttributeProto] | None = None,
    results: Mapping[str, str] | None = None,
) -> list[NodeProto]:
    """Copies of a scope's nodes under other names.

    `names` maps tensors of the outside, and afterwards those of the scope: `results` says what some of these are
    called, all others get a name of their own, with the prefix. `attributes`: those of the function, for references.
    """
    check_written_once(nodes)
    copies = []
    for node in nodes:
        copy = NodeProto(op_type=node.op_type, domain=node.domain, overload=node.overload)
        copy.name = f"{prefix}{node_name(node)}"
        copy.input[:] = [names.get(name, name) for name in node.input]
        resolved = (_resolved(attribute, names, prefix, fresh, attributes or {}) for attribute in node.attribute)
        copy.attribute.extend(filter(None, resolved))
        for name in filter(None, node.output):
            names[name] = (results or {}).get(name) or fresh(f"{prefix}{name}")
        copy.output[:] = [names[name] if name else "" for name in node.output]
        copies.append(copy)
    return copies


def _resolved(
    attribute: AttributeProto, names: Names, prefix: str, fresh: Fresh, given: Mapping[str, AttributeProto]
) -> AttributeProto | None:
    """An attribute with its reference to one of the function's put in; None where that is absent."""
    copy = AttributeProto(name=attribute.name, type=attribute.type)
    if attribute.ref_attr_name:
        if attribute.ref_attr_name not in given:
            return None
        copy.CopyFrom(given[attribute.ref_attr_name])
        copy.name = attribute.name
    elif attribute.type == AttributeProto.GRAPH:
        _copy_scoped(attribute.g, copy.g, names, prefix, fresh, given)
    else:
        copy.CopyFrom(attribute)
    return copy


def _copy_scoped(
    body: onnx.GraphProto,
    copy: onnx.GraphProto,
    names: Names,
    prefix: str,
    fresh: Fresh,
    given: Mapping[str, AttributeProto],
) -> None:
    """Makes a body within a scope in an empty graph: what is its own gets names that the outside has not."""
    copy.name, inner = body.name, dict(names)
    copy.input.extend(body.input)
    copy.output.extend(body.output)
    copy.initializer.extend(body.initializer)
    copy.sparse_initializer.extend(body.sparse_initializer)
    for value in (*copy.input, *copy.initializer, *(tensor.values for tensor in copy.sparse_initializer)):
        inner[value.name] = fresh(f"{prefix}{value.name}")
        value.name = inner[value.name]
    copy.node.extend(instantiated(body.node, inner, prefix, fresh, given))
    for value in copy.output:
        value.name = inner.get(value.name, value.name)
