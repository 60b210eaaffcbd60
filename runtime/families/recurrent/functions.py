"""Reads the functions of a recurrent node: which activation each direction's gates take, with its parameters."""

import dataclasses
from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.importers.onnx_node import OnnxNode
from runtime.semantics.recurrence import RECURRENT_FUNCTIONS
from runtime.semantics.unary import UnaryFunction

FUNCTIONS: Mapping[str, UnaryFunction] = {
    each.operator: each for each in RECURRENT_FUNCTIONS.values()
}  # by ONNX's names
_BY_LOWER_CASE = {name.lower(): name for name in FUNCTIONS}


@dataclasses.dataclass(frozen=True)
class GateFunction:
    """An activation by ONNX's name, with alpha and beta (0.0 where it has none)."""

    name: str
    parameters: tuple[float, float] = (0.0, 0.0)

    @property
    def graph_name(self) -> str:
        """Its name in the graph's recurrent operators."""
        return FUNCTIONS[self.name].activation


def read_functions(node: OnnxNode, defaults: Sequence[str], directions: int) -> list[list[GateFunction]]:
    """The functions of each direction; alphas and betas are dealt out in the order of those that take them."""
    names = node.attributes.get("activations", ())
    node.read |= {"activations", "activation_alpha", "activation_beta"}
    given = [name.decode() if isinstance(name, bytes) else str(name) for name in names] or [*defaults] * directions
    if len(given) != len(defaults) * directions:
        raise ModelError(f"{node}: {len(given)} activations; {len(defaults)} for each of {directions} are needed")
    parameters = [list(node.reals(f"activation_{which}")) for which in ("alpha", "beta")]
    functions = [_function(node, name, parameters) for name in given]
    return [functions[start : start + len(defaults)] for start in range(0, len(functions), len(defaults))]


def _function(node: OnnxNode, given: str, parameters: Sequence[list[float]]) -> GateFunction:
    name = _BY_LOWER_CASE.get(given.lower(), given)
    if name not in FUNCTIONS:
        raise node.unsupported("activations", given, ", ".join(FUNCTIONS))
    chosen = [
        float(values.pop(0)) if values else parameter.default
        for values, parameter in zip(parameters, FUNCTIONS[name].parameters, strict=False)
    ]
    alpha, beta = (*chosen, 0.0, 0.0)[:2]
    return GateFunction(name, (alpha, beta))
