"""Imports nodes of users' operators: a node of their domain becomes one operator of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.errors import ModelError, UnsupportedError
from runtime.importers.builder import GraphBuilder
from runtime.importers.farm_domain import read_attribute
from runtime.importers.onnx_node import OnnxNode
from runtime.operators.row import CustomOperator
from runtime.operators.table import OPERATORS

CustomNames = Mapping[tuple[str, str], str]  # domain and name in an ONNX file -> the graph's operator


def import_custom_node(node: OnnxNode, op: str, builder: GraphBuilder) -> None:
    """Adds a node of a user's operator; raises ModelError where it does not fit the declaration."""
    custom = OPERATORS[op].custom
    assert custom
    if len(node.outputs) > 1:
        raise UnsupportedError(f"{node}: it has {len(node.outputs)} outputs; a custom operator has one")
    attributes = read_attributes(node, op)
    _check_types(node, custom, builder)
    builder.emit(node, op, node.inputs, attributes, node.output)


def read_attributes(node: OnnxNode, op: str) -> dict[str, Any]:
    """The attributes of a node, with the defaults of those that it leaves out; raises ModelError where one is wrong."""
    row = OPERATORS[op]
    assert row.custom
    unknown = sorted(node.attributes.keys() - row.attributes.keys())
    if unknown:
        raise ModelError(f"{node}: attribute {unknown[0]} is unknown; known: {', '.join(row.attributes) or 'none'}")
    attributes: dict[str, Any] = {}
    for name, kind in row.attributes.items():
        if not node.has(name) and name not in row.custom.defaults:
            raise ModelError(f"{node}: attribute {name} is missing, and has no default")
        attributes[name] = read_attribute(node, name, kind) if node.has(name) else row.custom.defaults[name]
    return attributes


def _check_types(node: OnnxNode, custom: CustomOperator, builder: GraphBuilder) -> None:
    for index, (name, wanted) in enumerate(zip(node.inputs, custom.input_types, strict=False)):
        if name and builder.dtype(name) != np.dtype(wanted):
            found = builder.dtype(name)
            raise ModelError(f"{node}: input {index} ('{name}') holds {found}; the operator takes {wanted}")
