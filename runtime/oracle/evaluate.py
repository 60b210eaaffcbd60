"""Executes a graph operator by operator in NumPy: the oracle for passes, lowering and kernels.

Written for clarity. Values keep the element type of the inputs, so a caller that wants more digits gives float64.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.graph import Array, Graph, Node
from runtime.oracle import fixed_point
from runtime.oracle.shared import Compute
from runtime.registry import collect
from runtime.semantics.shape_functions import Attributes

COMPUTE: Mapping[str, Compute] = collect("COMPUTE")
COMPUTE_GENERIC: Mapping[str, Compute] = collect("COMPUTE_GENERIC")
ACTIVATIONS: Mapping[str, Callable[[Array, Attributes], Array]] = collect("ACTIVATIONS")

CUSTOM: dict[str, Compute] = {}  # users' operators, added by runtime/custom/registry.py


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Computes all tensors of a graph and returns them by name, constants included.

    Inputs have the graph's origin shapes; raises ModelError where one is missing or has another shape.
    """
    values: dict[str, Array] = dict(graph.constants)
    for name in graph.inputs:
        if name not in inputs or inputs[name].shape != graph.shape(name):
            given = inputs[name].shape if name in inputs else "missing"
            raise ModelError(f"input '{name}' is {given}; the graph reads shape {graph.shape(name)}")
        values[name] = inputs[name]
    for node in graph.nodes:
        arguments = [values[name] if name else None for name in node.inputs]
        values[node.output] = compute_node(graph, node, arguments)
    return values


def compute_node(graph: Graph, node: Node, arguments: Sequence[Array | None]) -> Array:
    """Computes one node of a graph, rounded as its source does it; an absent optional argument is None."""
    found = fixed_point.computed(graph, node, arguments)
    return compute(node.op, arguments, node.attrs) if found is None else found


def compute(op: str, arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Computes one operator with its fused activation; an absent optional argument is None.

    The result has the type that the attributes say, else that of the arguments.
    """
    with np.errstate(all="ignore"):
        if op in CUSTOM:
            return CUSTOM[op](arguments, attributes)
        if op in COMPUTE_GENERIC:
            return COMPUTE_GENERIC[op]([argument for argument in arguments if argument is not None], attributes)
        value = np.asarray(COMPUTE[op](arguments, attributes))
        if "activation" in attributes:
            value = np.asarray(ACTIVATIONS[attributes["activation"]](value, attributes))
    kinds = [argument.dtype for argument in arguments if argument is not None]
    return value.astype(attributes.get("dtype") or np.result_type(*kinds), copy=False)
