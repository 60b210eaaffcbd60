"""Nodes of ONNX that stand in for a node which no two runtimes compute alike: both the plan and its oracle run them."""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto

from runtime.importers.functions import domain_of
from runtime.importers.registry import StandIn
from runtime.registry import collect

STAND_INS: Mapping[Any, StandIn] = collect("STAND_INS")  # by (domain, operator)


def stand_in(proto: NodeProto) -> StandIn | None:
    """What stands in for a node; None where it is computed as it is."""
    return STAND_INS.get((domain_of(proto), proto.op_type))


def first_output(proto: NodeProto) -> str:
    """The first tensor that a node writes; empty where it writes none."""
    return next(filter(None, proto.output), "")


def needs_stand_in(model: onnx.ModelProto) -> bool:
    """Whether the model itself has a node that others stand in for."""
    return any(stand_in(node) for node in model.graph.node)


def with_nodes(model: onnx.ModelProto, replaced: Mapping[str, Sequence[NodeProto]]) -> onnx.ModelProto:
    """The model with other nodes in place of those whose first output is named."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    for proto in model.graph.node:
        changed.graph.node.extend(replaced.get(first_output(proto), [proto]))
    return changed
