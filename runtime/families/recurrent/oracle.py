"""Computes recurrent layers in NumPy, step by step (`recurrence.py` says how their tensors lie)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from runtime.graph import Array
from runtime.oracle.shared import Compute
from runtime.semantics.recurrence import DIRECTIONS, GATES, RECURRENT_FUNCTIONS, working_rows
from runtime.semantics.shape_functions import Attributes

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
