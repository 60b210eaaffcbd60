"""Adds RNN, GRU and LSTM as operators of the graph: one product with the inputs of all steps, then the layer.

The layer's tensors lie as runtime/semantics/recurrence.py says.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError
from runtime.families.recurrent.functions import GateFunction
from runtime.importers.emitting import Emitter
from runtime.semantics.recurrence import DIRECTIONS, GATES, working_rows

# Roles of the functions in ONNX's order.
_ROLES = {"RNN": ("cell",), "GRU": ("gate", "cell"), "LSTM": ("gate", "cell", "out")}
X, W, R, B, LENGTHS, HIDDEN, CELL, PEEPHOLES = range(8)


def add_layers(emit: Emitter, kind: str, functions: Sequence[Sequence[GateFunction]]) -> bool:
    """Adds the node's layer, or returns False where the graph's operators cannot express it.

    They take float32, and sequences that all have the whole length.
    """
    node = emit.node
    tensors = [name for name in (*node.inputs[:LENGTHS], *node.inputs[HIDDEN:]) if name]
    if any(emit.builder.dtype(name) != np.float32 for name in tensors) or not _is_whole(emit):
        return False
    layer = _Layer(emit, kind)
    parts = [layer.directions] if all(own == functions[0] for own in functions) else [[d] for d in layer.directions]
    layer.write([layer.states(part, functions[part[0]]) for part in parts])
    return True


def _is_whole(emit: Emitter) -> bool:
    """Whether every sequence is known to have the whole length."""
    node = emit.node
    if not node.optional(LENGTHS):
        return True
    lengths = emit.builder.constant(node.input(LENGTHS))
    return lengths is not None and bool((lengths == emit.shape(node.input(X))[node.integer("layout", 0)]).all())


class _Layer:
    """A recurrent node of ONNX, whose directions become one operator where they have the same functions."""

    def __init__(self, emit: Emitter, kind: str) -> None:
        node = emit.node
        self.emit, self.node, self.kind = emit, node, kind
        self.directions = list(range(len(DIRECTIONS[kind])))
        self.batch_first = bool(node.integer("layout", 0))
        x = node.input(X)
        self.x = emit.transpose(x, (1, 0, 2)) if self.batch_first else x
        shapes = [emit.shape(self.x), emit.shape(node.input(W)), emit.shape(node.input(R))]
        if any(len(shape) != 3 for shape in shapes):
            raise ModelError(f"{node}: input and weights of shapes {shapes}; three axes are needed")
        (self.times, self.batch, self.inputs), _, (_, _, self.hidden) = shapes
        self.hidden = node.integer("hidden_size", self.hidden)
        self.width = GATES[node.op] * self.hidden
        count = len(self.directions)
        if shapes[1:] != [(count, self.width, self.inputs), (count, self.width, self.hidden)]:
            raise ModelError(f"{node}: weights {shapes[1]} and {shapes[2]} do not fit {self.hidden} hidden values")
        self.linear = bool(node.integer("linear_before_reset", 0)) if node.op == "GRU" else False

    def states(self, directions: Sequence[int], functions: Sequence[GateFunction]) -> str:
        """Adds the operator of neighbouring directions with the same functions: [T + K, D * N, H]."""
        sums, extra = self._projected(directions)
        r = self.emit.transpose(self._of(R, directions), (0, 2, 1))
        c = self._state(CELL, directions) if self.node.op == "LSTM" else ""
        inputs = [sums, r, self._state(HIDDEN, directions), c, extra]
        return self.emit.builder.emit(self.node, self.node.op, inputs, self._attributes(directions, functions))

    def _attributes(self, directions: Sequence[int], functions: Sequence[GateFunction]) -> dict[str, Any]:
        unused = GateFunction("Sigmoid")
        chosen = dict(zip(_ROLES[self.node.op], functions, strict=True))
        roles = {role: chosen.get(role, unused) for role in ("gate", "cell", "out")}
        reverse = DIRECTIONS[self.kind][directions[0]]
        attributes: dict[str, Any] = {role: function.graph_name for role, function in roles.items()}
        attributes |= {f"{role}_parameters": function.parameters for role, function in roles.items()}
        attributes["direction"] = "bidirectional" if len(directions) > 1 else "reverse" if reverse else "forward"
        attributes["clip"] = self.node.real("clip", 0.0)
        if self.node.op == "GRU":
            attributes["linear_before_reset"] = self.linear
        if self.node.op == "LSTM":
            attributes["input_forget"] = bool(self.node.integer("input_forget", 0))
        return attributes

    def _of(self, index: int, directions: Sequence[int]) -> str:
        """What an input has for some neighbouring directions."""
        return self.emit.slice(self.node.input(index), 0, directions[0], directions[-1] + 1)

    def _state(self, index: int, directions: Sequence[int]) -> str:
        """An initial state as [D * N, H]; zeros where the node has none."""
        emit, shape = self.emit, (len(directions) * self.batch, self.hidden)
        name = self.node.optional(index)
        if not name:
            return emit.constant(np.zeros(shape))
        name = emit.transpose(name, (1, 0, 2)) if self.batch_first else name
        return emit.reshape(emit.slice(name, 0, directions[0], directions[-1] + 1), shape)

    def _projected(self, directions: Sequence[int]) -> tuple[str, str]:
        """The sums of all steps' inputs, [T, N, D * G * H], and the operator's last input: peepholes, or a bias."""
        emit, count = self.emit, len(directions)
        rows = emit.reshape(self.x, (self.times * self.batch, self.inputs))
        w = emit.reshape(self._of(W, directions), (count * self.width, self.inputs))
        bias, extra = self._biases(directions)
        if emit.builder.constant(w) is not None and (not bias or emit.builder.constant(bias) is not None):
            sums = emit.op("FullyConnected", rows, w, bias)
        else:
            sums = emit.op("MatMul", rows, emit.transpose(w, (1, 0)))
            sums = emit.op("Add", sums, bias) if bias else sums
        return emit.reshape(sums, (self.times, self.batch, count * self.width)), extra

    def _biases(self, directions: Sequence[int]) -> tuple[str, str]:
        """The bias of the sums, [D * G * H], and peepholes or the bias within the reset; empty where there are none."""
        emit, count, hidden = self.emit, len(directions), self.hidden
        peepholes = self.node.op == "LSTM" and self.node.optional(PEEPHOLES)
        extra = self._of(PEEPHOLES, directions) if peepholes else ""
        if not self.node.optional(B):
            return "", extra
        both = self._of(B, directions)
        of_x, of_h = (emit.slice(both, 1, start, start + self.width) for start in (0, self.width))
        if self.linear:
            extra = emit.slice(of_h, 1, 2 * hidden, 3 * hidden)
            of_h = emit.op(
                "Concat", emit.slice(of_h, 1, 0, 2 * hidden), emit.constant(np.zeros((count, hidden))), axis=1
            )
        return emit.reshape(emit.op("Add", of_x, of_h), (count * self.width,)), extra

    def write(self, parts: Sequence[str]) -> None:
        """Writes Y [T, D, N, H] and the last states [D, N, H] (or the batch first) as far as the node has them."""
        emit, names = self.emit, [*self.node.outputs, "", "", ""]
        states = parts[0] if len(parts) == 1 else emit.op("Concat", *parts, axis=1)
        shape = (len(self.directions), self.batch, self.hidden)
        if names[0]:
            rows = emit.slice(states, 0, 0, self.times)
            self._result(emit.reshape(rows, (self.times, *shape)), (2, 0, 1, 3), names[0])
        if names[1]:
            self._result(emit.reshape(self._last(states), shape), (1, 0, 2), names[1])
        if names[2] and working_rows(self.node.op, self.linear) == 1:
            cells = emit.slice(states, 0, self.times, self.times + 1)
            self._result(emit.reshape(cells, shape), (1, 0, 2), names[2])

    def _last(self, states: str) -> str:
        """The hidden states after the last step of each direction: [D * N, H] in rows."""
        emit, lasts = self.emit, []
        for index, reverse in enumerate(DIRECTIONS[self.kind]):
            time = 0 if reverse else self.times - 1
            row = emit.slice(states, 0, time, time + 1)
            lasts.append(emit.slice(row, 1, index * self.batch, (index + 1) * self.batch))
        return lasts[0] if len(lasts) == 1 else emit.op("Concat", *lasts, axis=1)

    def _result(self, tensor: str, perm: tuple[int, ...], name: str) -> None:
        if self.batch_first:
            self.emit.transpose(tensor, perm, name)
        else:
            self.emit.op("Identity", tensor, output=name)
