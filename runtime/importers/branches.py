"""If with a condition that is known at conversion: the nodes of the branch that is taken."""

from __future__ import annotations

import onnx
from onnx import NodeProto, helper

from runtime.importers.builder import GraphBuilder
from runtime.importers.functions import instantiated
from runtime.importers.onnx_node import OnnxNode, subgraph
from runtime.importers.tensors import constant_tensors, tensor_value


def chosen_branch(proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> list[NodeProto]:
    """The nodes of the branch, its constants added; UnsupportedError where the condition is computed at run time."""
    condition = builder.require_constant(node, 0, "the condition")
    wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    branch = subgraph(proto, node, wanted)
    prefix = f"{node.name}/"
    names = with_constants(branch, prefix, builder)
    inner = instantiated(branch.node, names, prefix, builder.fresh)
    copies = [
        helper.make_node("Identity", [names.get(value.name, value.name)], [output], f"{prefix}{output}")
        for value, output in zip(branch.output, proto.output, strict=True)
    ]
    return [*inner, *copies]


def with_constants(branch: onnx.GraphProto, prefix: str, builder: GraphBuilder) -> dict[str, str]:
    """Adds the initializers of a branch, or of a loop's body, under names of their own; maps the old names to these."""
    return {
        name: builder.derived(f"{prefix}{name}", tensor_value(tensor, name))
        for name, tensor in constant_tensors(branch).items()
    }
