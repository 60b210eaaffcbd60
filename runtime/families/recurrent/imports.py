"""RNN, GRU and LSTM.

Of floats over whole sequences they are the graph's operators (`layers.py`). Where sequences have lengths that
are computed at run time or differ, the loop is written out step by step: the longest length is known at conversion. The
products with the inputs of all steps are one product; a step then multiplies the hidden state and applies gates.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.families.recurrent.functions import FUNCTIONS, GateFunction, read_functions
from runtime.families.recurrent.layers import add_layers
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.semantics.recurrence import DIRECTIONS

LONGEST = 1024
UNROLLED = ("Relu", "Sigmoid", "Tanh", "Softplus", "LeakyRelu", "Elu", "HardSigmoid")
State = list[str]
Step = Callable[["Direction", str, State], State]


class Direction:
    """One direction of a recurrent operator: its weights, its functions, and what its steps share."""

    def __init__(self, emit: Emitter, index: int, gates: int, functions: Sequence[Callable[[str], str]]) -> None:
        node, builder = emit.node, emit.builder
        self.emit = emit
        self.functions = functions
        self.hidden = builder.shape(node.input(2))[2]
        self.rows = gates * self.hidden
        self.x_weights = self._part(node.input(1), index)
        self.h_weights = self._part(node.input(2), index)
        bias = node.optional(3)
        both = self._part(bias, index) if bias else emit.constant(np.zeros(2 * self.rows))
        self.x_bias, self.h_bias = (emit.slice(both, 0, start, start + self.rows) for start in (0, self.rows))
        self.peepholes = self._part(node.optional(7), index) if gates == 4 and node.optional(7) else ""
        self.linear_before_reset = bool(node.integer("linear_before_reset", 0)) if gates == 3 else False
        self.input_forget = bool(node.integer("input_forget", 0)) if gates == 4 else False

    def _part(self, tensor: str, index: int) -> str:
        """What a tensor has for this direction."""
        part = self.emit.slice(tensor, 0, index, index + 1)
        return self.emit.reshape(part, self.emit.shape(tensor)[1:])

    def project(self, x: str, weights: str, bias: str = "") -> str:
        """x times the transposed weights, plus a bias."""
        w = self.emit.transpose(weights, (1, 0))
        y = self.emit.op("MatMul", x, w)
        return self.emit.op("Add", y, bias) if bias else y

    def gate(self, rows: str, index: int) -> str:
        """The columns of one gate."""
        return self.emit.slice(rows, len(self.emit.shape(rows)) - 1, index * self.hidden, (index + 1) * self.hidden)

    def weight_rows(self, tensor: str, first: int, last: int) -> str:
        """The rows of some gates of weights or of a bias."""
        return self.emit.slice(tensor, 0, first * self.hidden, last * self.hidden)


def _rnn(self: Direction, x: str, state: State) -> State:
    emit = self.emit
    return [self.functions[0](emit.op("Add", x, self.project(state[0], self.h_weights, self.h_bias)))]


def _gru(self: Direction, x: str, state: State) -> State:
    """Update z, reset r, then the new state h."""
    emit, (hidden,) = self.emit, state
    both = self.project(hidden, self.weight_rows(self.h_weights, 0, 2), self.weight_rows(self.h_bias, 0, 2))
    z = self.functions[0](emit.op("Add", self.gate(x, 0), self.gate(both, 0)))
    r = self.functions[0](emit.op("Add", self.gate(x, 1), self.gate(both, 1)))
    weights, bias = self.weight_rows(self.h_weights, 2, 3), self.weight_rows(self.h_bias, 2, 3)
    if self.linear_before_reset:
        reset = emit.op("Mul", r, self.project(hidden, weights, bias))
    else:
        reset = self.project(emit.op("Mul", r, hidden), weights, bias)
    new = self.functions[1](emit.op("Add", self.gate(x, 2), reset))
    kept = emit.op("Mul", z, emit.op("Sub", hidden, new))
    return [emit.op("Add", new, kept)]


def _lstm(self: Direction, x: str, state: State) -> State:
    """Input i, output o, forget f, cell c."""
    emit, (hidden, cell) = self.emit, state
    rows = emit.op("Add", x, self.project(hidden, self.h_weights, self.h_bias))
    i, o, f, c = (self.gate(rows, index) for index in range(4))
    if self.peepholes:
        weights = [self.weight_rows(self.peepholes, index, index + 1) for index in range(3)]
        i = emit.op("Add", i, emit.op("Mul", weights[0], cell))
        f = emit.op("Add", f, emit.op("Mul", weights[2], cell))
    gate, cell_function, output_function = self.functions
    i = gate(i)
    forget = emit.op("Sub", emit.constant(1.0), i) if self.input_forget else gate(f)
    new = emit.op("Add", emit.op("Mul", forget, cell), emit.op("Mul", i, cell_function(c)))
    if self.peepholes:
        o = emit.op("Add", o, emit.op("Mul", weights[1], new))
    return [emit.op("Mul", gate(o), output_function(new)), new]


def _applied(emit: Emitter, function: GateFunction, clip: float) -> Callable[[str], str]:
    """An activation, behind the clip that the node may ask."""
    if function.name not in UNROLLED:
        raise emit.node.unsupported("activations of sequences of different lengths", function.name, ", ".join(UNROLLED))
    given = function.parameters[: len(FUNCTIONS[function.name].parameters)]
    attributes: dict[str, Any] = dict(zip(("alpha", "beta"), given, strict=False))

    def apply(x: str) -> str:
        limited = emit.op("Clip", x, alpha=-clip, beta=clip) if clip else x
        return emit.op(function.name, limited, **attributes)

    return apply


def _recurrent(step: Step, gates: int, states: int, defaults: Sequence[str]) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        emit = Emitter(node, builder)
        kind = node.choice("direction", "forward", tuple(DIRECTIONS))
        functions = read_functions(node, defaults, len(DIRECTIONS[kind]))
        if add_layers(emit, kind, functions):
            return
        x = node.input(0)
        batch_first = bool(node.integer("layout", 0))
        x = emit.transpose(x, (1, 0, 2)) if batch_first else x
        length, batch, _ = builder.shape(x)
        if length > LONGEST:
            raise node.unsupported("sequence length", length, f"up to {LONGEST} steps where lengths differ")
        hidden = node.integer("hidden_size", builder.shape(node.input(2))[2])
        outputs, lasts = [], []
        for index, reverse in enumerate(DIRECTIONS[kind]):
            # The third, of LSTM's cell state, is not clipped: so does ONNX Runtime.
            clips = (node.real("clip", 0.0),) * 2 + (0.0,)
            applied = [_applied(emit, *chosen) for chosen in zip(functions[index], clips, strict=False)]
            direction = Direction(emit, index, gates, applied)
            initial = [_initial(emit, 5 + at, index, (batch, hidden), batch_first) for at in range(states)]
            rows, last = _run(direction, x, initial, step, reverse)
            outputs.append(emit.reshape(rows, (length, 1, batch, hidden)))
            lasts.append([emit.reshape(state, (1, batch, hidden)) for state in last])
        _write(emit, outputs, lasts, batch_first)

    return handle


def _initial(emit: Emitter, index: int, direction: int, shape: tuple[int, int], batch_first: bool) -> str:
    name = emit.node.optional(index)
    if not name:
        check_size(emit.node, shape)
        return emit.constant(np.zeros(shape))
    name = emit.transpose(name, (1, 0, 2)) if batch_first else name
    return emit.reshape(emit.slice(name, 0, direction, direction + 1), shape)


def _run(direction: Direction, x: str, state: State, step: Step, reverse: bool) -> tuple[str, State]:
    """All steps of a direction: the hidden states in the sequence's order, and the last state.

    Behind a sequence's own length the state stays, and the output is zero.
    """
    emit = direction.emit
    length, batch, _ = emit.shape(x)
    projected = direction.project(x, direction.x_weights, direction.x_bias)
    lengths = emit.node.optional(4)
    zeros = emit.constant(np.zeros((batch, direction.hidden))) if lengths else ""
    outputs: dict[int, str] = {}
    for time in reversed(range(length)) if reverse else range(length):
        row = emit.reshape(emit.slice(projected, 0, time, time + 1), (batch, direction.rows))
        new = step(direction, row, state)
        outputs[time] = new[0]
        if lengths:
            limit = emit.reshape(emit.cast(lengths, "int64"), (batch, 1))
            inside = emit.element("greater", limit, emit.constant(time, dtype="int64"), dtype="bool")
            outputs[time] = emit.element("where", inside, new[0], zeros)
            new = [emit.element("where", inside, now, before) for now, before in zip(new, state, strict=True)]
        state = new
    rows = [emit.reshape(outputs[time], (1, batch, direction.hidden)) for time in range(length)]
    return _joined(emit, rows, 0), state


def _joined(emit: Emitter, parts: Sequence[str], axis: int, output: str | None = None) -> str:
    if len(parts) == 1:
        return emit.op("Identity", parts[0], output=output)
    return emit.op("Concat", *parts, output=output, axis=axis)


def _write(emit: Emitter, outputs: Sequence[str], lasts: Sequence[State], batch_first: bool) -> None:
    """Y [length, directions, batch, hidden], then the last states [directions, batch, hidden]; or the batch first."""
    names = emit.node.outputs
    results: list[tuple[str, tuple[int, ...]]] = [(_joined(emit, outputs, 1), (2, 0, 1, 3))]
    results += [(_joined(emit, states, 0), (1, 0, 2)) for states in zip(*lasts, strict=True)]
    for name, (tensor, perm) in zip(names, results, strict=False):
        if name and batch_first:
            emit.transpose(tensor, perm, name)
        elif name:
            emit.op("Identity", tensor, output=name)


HANDLERS: Mapping[str, Handler] = {
    "RNN": _recurrent(_rnn, 1, 1, ("Tanh",)),
    "GRU": _recurrent(_gru, 3, 1, ("Sigmoid", "Tanh")),
    "LSTM": _recurrent(_lstm, 4, 2, ("Sigmoid", "Tanh", "Tanh")),
}
