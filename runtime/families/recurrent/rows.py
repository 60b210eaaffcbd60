"""Rows of recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.operators.row import SOURCE, AttributeKind, Operator
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
