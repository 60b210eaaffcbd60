"""Says what a recurrent operator of the graph is: its gates, its functions, and how its tensors lie.

One operator is a whole layer over T time steps, N sequences and D directions with H hidden values. The products of all
steps' inputs with the input weights come first, as one product of matrices; the operator reads their sums:

    x  [T, N, D * G * H]    products of the inputs, biases added; G gates in ONNX's order:
                            RNN h, GRU z r h, LSTM i o f c
    r  [D, H, G * H]        recurrent weights, transposed: what one hidden value adds to all gates is a run
    h  [D * N, H]           hidden state before the first step
    c  [D * N, H]           of LSTM: cell state before the first step
    p  [D, 3 * H]           of LSTM: peepholes i o f, absent where there are none
       [D, H]               of GRU with linear_before_reset: the bias within the reset
    y  [T + K, D * N, H]    hidden states in the sequence's order, then K rows that the steps work in: LSTM's last
                            cell states; GRU's z and r * h, where the product follows the reset
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import numpy as np

from runtime.semantics.unary import FunctionCode, Parameter, Unary, UnaryFunction

Shape = tuple[int, ...]


class RecurrentKind(enum.IntEnum):
    """RECURRENT: which of ONNX's recurrent operators."""

    RNN = 0
    GRU = 1
    LSTM = 2


class RecurrentFunction(FunctionCode):
    """GATE, CELL, OUT: code and entry of each function of gates and states, by ONNX's name; as `Unary`."""

    SIGMOID = 0, Unary.SIGMOID.function
    TANH = 1, Unary.TANH.function
    RELU = 2, UnaryFunction("Relu", "CLAMP(v, 0.0f, INFINITY)", lambda x: np.maximum(x, 0))
    LEAKY_RELU = 3, Unary.LEAKY_RELU.function
    ELU = 4, Unary.ELU.function
    HARD_SIGMOID = 5, Unary.HARD_SIGMOID.function
    SOFTPLUS = 6, Unary.SOFTPLUS.function
    SOFTSIGN = 7, Unary.SOFTSIGN.function
    AFFINE = (
        8,
        UnaryFunction(
            "Affine", "v * a + b", lambda x, a, b: a * x + b, (Parameter("alpha", 1.0), Parameter("beta", 0.0))
        ),
    )
    SCALED_TANH = (
        9,
        UnaryFunction(
            "ScaledTanh",
            "TANH(v * b) * a",
            lambda x, a, b: a * np.tanh(b * x),
            (Parameter("alpha", 1.0), Parameter("beta", 1.0)),
        ),
    )
    THRESHOLDED_RELU = 10, Unary.THRESHOLDED_RELU.function


RECURRENT_FUNCTIONS: Mapping[str, UnaryFunction] = {
    code.function.activation: code.function for code in RecurrentFunction
}
GATES: Mapping[str, int] = {"RNN": 1, "GRU": 3, "LSTM": 4}
DIRECTIONS: Mapping[str, tuple[bool, ...]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}  # of each direction: whether it runs backwards


def working_rows(op: str, linear_before_reset: bool) -> int:
    """Rows of the output behind the hidden states (the module's K)."""
    return {"RNN": 0, "GRU": 0 if linear_before_reset else 2, "LSTM": 1}[op]
