"""Imports nodes of the project's own domain, as the exporter writes them and further ones, and of users' operators."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from runtime.errors import ModelError, UnsupportedError
from runtime.importers.builder import GraphBuilder
from runtime.importers.handlers import FARM_HANDLERS
from runtime.importers.onnx_node import OnnxNode
from runtime.operators.activations import ACTIVATION_ATTRIBUTES
from runtime.operators.row import AttributeKind, CustomOperator
from runtime.operators.table import OPERATORS

DOMAIN = "farm"
VERSION = 1

_READ: Mapping[str, Callable[[OnnxNode, str], Any]] = {
    "int": lambda node, name: node.integer(name, 0),
    "count": lambda node, name: node.integer(name, 0),
    "float": lambda node, name: node.real(name, 0.0),
    "bool": lambda node, name: bool(node.integer(name, 0)),
    "ints": lambda node, name: node.integers(name),
    "pair": lambda node, name: node.integers(name),
    "sides": lambda node, name: node.integers(name),
    "floats": lambda node, name: node.reals(name),
}


def read_attribute(node: OnnxNode, name: str, kind: AttributeKind) -> Any:
    """Value of an attribute that the node has; raises ModelError where it is of another type."""
    return node.text(name, "") if isinstance(kind, tuple) else _READ[kind](node, name)


def import_farm_node(node: OnnxNode, builder: GraphBuilder) -> None:
    """Adds a node whose operator and attributes are the graph's own, or one that models may use beside them."""
    if node.op in FARM_HANDLERS:
        FARM_HANDLERS[node.op](node, builder)
        if node.unread():
            raise node.unsupported(node.unread()[0], node.attributes[node.unread()[0]], "no attribute of this name")
        return
    if node.op not in OPERATORS:
        raise UnsupportedError(f"{node}: domain '{DOMAIN}' has no such operator")
    kinds = {**ACTIVATION_ATTRIBUTES, **OPERATORS[node.op].attributes}
    unknown = sorted(node.attributes.keys() - kinds.keys())
    if unknown:
        raise ModelError(f"{node}: attribute {unknown[0]} is unknown; known: {', '.join(sorted(kinds))}")
    attributes = {name: read_attribute(node, name, kinds[name]) for name in node.attributes}
    builder.emit(node, node.op, node.inputs, attributes, node.output)


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
