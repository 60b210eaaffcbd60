"""Typical sizes of recurrent layers, for `farm opbench`."""

from typing import Any

from runtime.operators.case import OperatorCase, shape_text
from runtime.semantics.recurrence import DIRECTIONS, GATES


def _recurrent(op: str, times: int, hidden: int, direction: str = "forward") -> OperatorCase:
    """A layer over the sums of its inputs, with ONNX's functions."""
    directions, width = len(DIRECTIONS[direction]), GATES[op] * hidden
    x, state = (times, 1, directions * width), (directions, hidden)
    attrs: dict[str, Any] = {"direction": direction, "gate": "sigmoid", "cell": "tanh", "out": "tanh", "clip": 0.0}
    attrs |= dict.fromkeys(("gate_parameters", "cell_parameters", "out_parameters"), (0.0, 0.0))
    attrs |= {"GRU": {"linear_before_reset": True}, "LSTM": {"input_forget": False}}.get(op, {})
    weights = ((directions, hidden, width), state, state)[: 3 if op == "LSTM" else 2]
    return OperatorCase(f"{op}_{shape_text(x)}_{direction}_{hidden}", op, (x,), weights, attrs)


OPBENCH_CASES = (
    _recurrent("LSTM", 50, 128),
    _recurrent("LSTM", 50, 256, "bidirectional"),
    _recurrent("LSTM", 2, 1024),
    _recurrent("GRU", 50, 128),
    _recurrent("RNN", 50, 128),
)
