"""Recurrent layers: rows, and what NumPy computes."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.operators.row import SOURCE, AttributeKind, Operator
from runtime.oracle.shared import Compute
from runtime.semantics.recurrence import DIRECTIONS, GATES, RECURRENT_FUNCTIONS, working_rows
from runtime.semantics.shape_functions import Attributes, Shape, ShapeFunction, require_rank


def recurrent(op: str) -> ShapeFunction:
    """(times + working rows, directions x batch, hidden) of RNN, GRU or LSTM (runtime/semantics/recurrence.py)."""

    def shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        x, r, h = shapes[:3]
        directions = len(DIRECTIONS[attributes["direction"]])
        require_rank(x, 3, "the input")
        require_rank(h, 2, "the hidden state")
        times, batch, hidden = x[0], x[1], h[1]
        width = GATES[op] * hidden
        if (x[2], r, h[0]) != (directions * width, (directions, hidden, width), directions * batch):
            raise ModelError(f"sums {x}, weights {r} and state {h} do not fit {directions} direction(s) of {op}")
        others = {3: (h, ()), 4: ((directions, hidden if op == "GRU" else 3 * hidden), ())}
        for index in range(3, len(shapes)):
            if shapes[index] not in others[index]:
                raise ModelError(f"input {index} of shape {shapes[index]} does not fit a state of shape {h}")
        return (times + working_rows(op, attributes.get("linear_before_reset", False)), *h)

    return shape


def _recurrent_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(shapes[0]) * shapes[1][1]


_RECURRENT: Mapping[str, AttributeKind] = {
    "direction": tuple(DIRECTIONS),
    **dict.fromkeys(("gate", "cell", "out"), tuple(RECURRENT_FUNCTIONS)),
    **dict.fromkeys(("gate_parameters", "cell_parameters", "out_parameters"), "floats"),
    "clip": "float",
}


OPERATORS = {
    "RNN": Operator((3, 3), recurrent("RNN"), _RECURRENT, macs=_recurrent_macs, format=SOURCE),
    "GRU": Operator(
        (3, 5),
        recurrent("GRU"),
        {**_RECURRENT, "linear_before_reset": "bool"},
        macs=_recurrent_macs,
        format=SOURCE,
    ),
    "LSTM": Operator(
        (4, 5), recurrent("LSTM"), {**_RECURRENT, "input_forget": "bool"}, macs=_recurrent_macs, format=SOURCE
    ),
}


Function = Callable[[Array], Array]
State = tuple[Array, ...]  # the hidden state, then what the working rows hold


def _function(attributes: Attributes, name: str, clip: float) -> Function:
    """The function of a role (gate, cell or out), behind a clip that is not 0."""
    chosen = RECURRENT_FUNCTIONS[attributes[name]]
    parameters = attributes[f"{name}_parameters"][: len(chosen.parameters)]
    return lambda x: np.asarray(chosen.compute(np.clip(x, -clip, clip) if clip else x, *parameters))


class _Layer:
    """One direction of a layer: its weights and functions."""

    def __init__(self, r: Array, p: Array | None, attributes: Attributes) -> None:
        self.r, self.p = r, p
        self.attributes = attributes
        self.gate, self.cell = (_function(attributes, name, attributes["clip"]) for name in ("gate", "cell"))
        self.out = _function(attributes, "out", 0.0)  # as ONNX Runtime does: the cell state is not clipped

    def split(self, x: Array) -> list[Array]:
        """The gates of rows [N, G * H]."""
        return np.split(x, x.shape[1] // self.r.shape[0], axis=1)


def _rnn(layer: _Layer, x: Array, state: State) -> State:
    return (layer.cell(x + state[0] @ layer.r),)


def _gru(layer: _Layer, x: Array, state: State) -> State:
    hidden, (x_z, x_r, x_h) = state[0], layer.split(x)
    r_z, r_r, r_h = layer.split(layer.r)
    z, reset = layer.gate(x_z + hidden @ r_z), layer.gate(x_r + hidden @ r_r)
    kept = reset * hidden
    if layer.attributes["linear_before_reset"]:
        inner = hidden @ r_h + (0 if layer.p is None else layer.p)
        new = layer.cell(x_h + reset * inner)
    else:
        new = layer.cell(x_h + kept @ r_h)
    return ((1 - z) * new + z * hidden, z, kept)


def _lstm(layer: _Layer, x: Array, state: State) -> State:
    hidden, cell = state
    i, o, f, c = layer.split(x + hidden @ layer.r)
    peep_i, peep_o, peep_f = np.split(layer.p, 3) if layer.p is not None else (np.zeros(1),) * 3
    i = layer.gate(i + peep_i * cell)
    forget = 1 - i if layer.attributes["input_forget"] else layer.gate(f + peep_f * cell)
    new = forget * cell + i * layer.cell(c)
    return (layer.gate(o + peep_o * new) * layer.out(new), new)


_STEPS: Mapping[str, Callable[[_Layer, Array, State], State]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def _recurrent(op: str) -> Compute:
    def compute(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
        x, r, h, c, p = (*arguments, None, None)[:5]
        assert x is not None and r is not None and h is not None
        times, batch, _ = x.shape
        rows = times + working_rows(op, attributes.get("linear_before_reset", False))
        y = np.zeros((rows, *h.shape), np.result_type(x, r))
        width = GATES[op] * h.shape[1]
        for index, reverse in enumerate(DIRECTIONS[attributes["direction"]]):
            own = slice(index * batch, (index + 1) * batch)
            layer = _Layer(r[index], None if p is None else p[index], attributes)
            state: State = (h[own],) if c is None else (h[own], c[own])
            for time in reversed(range(times)) if reverse else range(times):
                state = _STEPS[op](layer, x[time, :, index * width : (index + 1) * width], state)
                y[time, own] = state[0]
            for row in range(times, rows):
                y[row, own] = state[1 + row - times]
        return y

    return compute


COMPUTE: Mapping[str, Compute] = {op: _recurrent(op) for op in GATES}
