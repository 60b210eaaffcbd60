"""ONNX's own definitions of operators in terms of others, and the branches of If: nodes that stand in for one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, helper

from runtime.errors import ModelError
from runtime.graph import TensorInfo

Names = dict[str, str]


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


def expanded(function: FunctionProto, proto: NodeProto, opset: int) -> list[NodeProto]:
    """The nodes of a function that compute what one node does; tensors between them begin with that node's name."""
    prefix = f"{proto.name or proto.output[0]}/"
    names: Names = {}
    for formals, actuals in ((function.input, proto.input), (function.output, proto.output)):
        padded = [*actuals, *[""] * (len(formals) - len(actuals))]
        names |= dict(zip(formals, padded, strict=False))
    for index, name in enumerate(function.output):
        names[name] = names[name] or f"{prefix}unused{index}"
    given = {attribute.name: attribute for attribute in proto.attribute}
    defaults = onnx.defs.get_schema(proto.op_type, opset, proto.domain).attributes
    for name, schema in defaults.items():
        if name not in given and schema.default_value.name:
            given[name] = schema.default_value
    given |= {value.name: value for value in function.attribute_proto if value.name not in given}
    return instantiated(function.node, names, prefix, given)


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
    nodes: Sequence[NodeProto], names: Names, prefix: str, attributes: Mapping[str, AttributeProto]
) -> list[NodeProto]:
    """Copies of nodes under other names: `names` maps those of the outside, all others get the prefix."""
    check_written_once(nodes)
    copies = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}{node.name or node.output[0]}"
        copy.input[:] = [names.get(name, name) for name in node.input]
        for name in filter(None, node.output):
            names.setdefault(name, f"{prefix}{name}")
        copy.output[:] = [names[name] if name else "" for name in node.output]
        del copy.attribute[:]
        copy.attribute.extend(
            made for attribute in node.attribute if (made := _resolved(attribute, names, prefix, attributes))
        )
        copies.append(copy)
    return copies


def _resolved(
    attribute: AttributeProto, names: Names, prefix: str, given: Mapping[str, AttributeProto]
) -> AttributeProto | None:
    """An attribute with its reference to one of the function's put in; None where that is absent."""
    copy = AttributeProto()
    if attribute.ref_attr_name:
        if attribute.ref_attr_name not in given:
            return None
        copy.CopyFrom(given[attribute.ref_attr_name])
        copy.name = attribute.name
        return copy
    copy.CopyFrom(attribute)
    if attribute.type == AttributeProto.GRAPH:
        inner = instantiated(attribute.g.node, dict(names), prefix, given)
        del copy.g.node[:]
        copy.g.node.extend(inner)
        renamed = {
            old: new
            for node, made in zip(attribute.g.node, inner, strict=True)
            for old, new in zip(node.output, made.output, strict=True)
        }
        for value in copy.g.output:
            value.name = renamed.get(value.name, names.get(value.name, value.name))
    return copy
