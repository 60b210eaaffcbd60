"""Finds what the last operators of a model squash: Softmax and its like hide faults of what comes before them.

A dropped bias moves a probability of 0.001 by a tenth of itself, which no threshold on outputs of up to 1 can see.
"""

from __future__ import annotations

import dataclasses

import onnx

from runtime.importers.functions import domain_of

SQUASHING = frozenset(
    {"Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid", "Tanh", "Hardmax", "ArgMax", "ArgMin", "TopK"}
)
PASSING = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Cast", "Slice", "Split", "Concat"}
)


@dataclasses.dataclass(frozen=True)
class SquashingInput:
    """A tensor that an operator of this type reads, and what that writes of it."""

    tensor: str
    operator: str
    result: str


def squashed_tensors(model: onnx.ModelProto) -> tuple[SquashingInput, ...]:
    """What squashing operators read that only PASSING or squashing ones follow; outputs of the model are none."""
    writers = {name: node for node in model.graph.node for name in node.output if name}
    found: dict[str, SquashingInput] = {}
    seen, ahead = set(), [value.name for value in model.graph.output]
    while ahead:
        name = ahead.pop()
        node = writers.get(name)
        if node is None or name in seen or domain_of(node):
            continue
        seen.add(name)
        if node.op_type in SQUASHING and node.input[0] in writers:
            found[node.input[0]] = SquashingInput(node.input[0], node.op_type, name)
        if node.op_type in SQUASHING | PASSING:
            ahead += node.input if node.op_type == "Concat" else node.input[:1]
    outputs = {value.name for value in model.graph.output}
    return tuple(each for each in found.values() if each.tensor not in outputs)
