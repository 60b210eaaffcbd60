"""What tests launch the kernels of recurrent with, and what they compute."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime.families.recurrent.definition import COMPUTE
from runtime.semantics.recurrence import GATES, RecurrentFunction, RecurrentKind
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats
from tests.runtime.kernel_cases import TABLE, Case


def recurrent(
    kind: RecurrentKind,
    times: int,
    batch: int,
    hidden: int,
    directions: int = 1,
    backwards: int = 0,
    functions: tuple[RecurrentFunction, ...] = (RecurrentFunction.SIGMOID, RecurrentFunction.TANH),
    **defines: int,
) -> Case:
    dims = {"times": times, "batch": batch, "hidden": hidden, "directions": directions}
    dims |= {"gates": GATES[kind.name], "backwards": backwards}
    return recurrent_case("recurrent_sequence", kind, dims, functions, **{"STEPWISE": 0, **defines})


def recurrent_step(kind: RecurrentKind, batch: int, hidden: int, products: int = 0, **defines: int) -> Case:
    gates = GATES[kind.name]
    dims = {"batch": batch, "hidden": hidden, "products": products or gates}
    dims |= {"x_step": 2 * gates * hidden, "s_step": 2 * batch * hidden}
    functions = (RecurrentFunction.SIGMOID, RecurrentFunction.TANH)
    return recurrent_case("recurrent_step", kind, dims, functions, **{"STEPWISE": 1, **defines})


def recurrent_case(
    kernel: str, kind: RecurrentKind, dims: dict[str, int], functions: tuple[RecurrentFunction, ...], **defines: int
) -> Case:
    """Functions of gate and cell, and of the output the cell's again where none is given; all have parameters."""
    gate, cell, out = (*functions, functions[-1])[:3]
    defines = {"LINEAR": 0, "EXTRA": 0, "COUPLED": 0, "GATE": gate, "CELL": cell, "OUT": out, **defines}
    floats = {"clip": 2.5, "gate_a": 0.3, "gate_b": 0.4, "cell_a": 0.6, "cell_b": 0.7, "out_a": 0.8, "out_b": 0.9}
    return Case(TABLE[kernel], dims, {"RECURRENT": int(kind), **defines}, floats)


def recurrent_attributes(defines: Dims, floats: Floats, backwards: int, directions: int) -> dict[str, object]:
    """The attributes of the graph's operator that a launch runs."""
    direction = "bidirectional" if directions == 2 else "reverse" if backwards else "forward"
    attributes: dict[str, object] = {"direction": direction, "clip": floats["clip"]}
    for role in ("gate", "cell", "out"):
        attributes[role] = RecurrentFunction(defines[role.upper()]).name.lower()
        attributes[f"{role}_parameters"] = (floats[f"{role}_a"], floats[f"{role}_b"])
    return attributes | {"linear_before_reset": bool(defines["LINEAR"]), "input_forget": bool(defines["COUPLED"])}


def compute_recurrent_sequence(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    times, batch, hidden, directions = (dims[name] for name in ("times", "batch", "hidden", "directions"))
    op = RecurrentKind(defines["RECURRENT"]).name
    state, width = (directions * batch, hidden), dims["gates"] * hidden
    x, r = arrays["x"].reshape(times, batch, -1), arrays["r"].reshape(directions, hidden, width)
    h, c = arrays["h"].reshape(state), arrays["c"].reshape(state) if op == "LSTM" else None
    p = arrays["p"].reshape(directions, -1) if defines["EXTRA"] else None
    attributes = recurrent_attributes(defines, floats, dims["backwards"], directions)
    return COMPUTE[op]([x, r, h, c, p], attributes).reshape(-1)


def compute_recurrent_step(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    """One step; the second part of a GRU starts from what the first has left in s."""
    batch, hidden = dims["batch"], dims["hidden"]
    width = GATES[RecurrentKind(defines["RECURRENT"]).name] * hidden
    x = as_strided(arrays["x"], (1, batch, width), (0, dims["x_step"] * 8, 8))
    if RecurrentKind(defines["RECURRENT"]) == RecurrentKind.GRU and not defines["LINEAR"]:
        z, kept = (arrays["s"][start:][: batch * hidden].reshape(batch, hidden) for start in (0, dims["s_step"]))
        inner = x[0, :, 2 * hidden :] + kept @ arrays["r"].reshape(hidden, width)[:, 2 * hidden :]
        return ((1 - z) * np.tanh(inner) + z * arrays["h"].reshape(batch, hidden)).reshape(-1)
    whole = dict(dims) | {"times": 1, "directions": 1, "gates": dims["products"], "backwards": 0}
    return compute_recurrent_sequence(dict(arrays) | {"x": x.reshape(-1)}, whole, defines, floats)[: batch * hidden]


CASES: dict[str, Case] = {
    "recurrent RNN": recurrent(RecurrentKind.RNN, 4, 2, 19),
    "recurrent RNN both ways": recurrent(RecurrentKind.RNN, 3, 7, 16, directions=2),
    **{f"recurrent RNN {f.name}": recurrent(RecurrentKind.RNN, 2, 1, 5, functions=(f, f)) for f in RecurrentFunction},
    "recurrent GRU": recurrent(RecurrentKind.GRU, 4, 2, 21, directions=2),
    "recurrent GRU backwards": recurrent(RecurrentKind.GRU, 3, 1, 32, backwards=1),
    "recurrent GRU linear": recurrent(RecurrentKind.GRU, 4, 3, 19, directions=2, LINEAR=1, EXTRA=1),
    "recurrent GRU linear, no bias": recurrent(RecurrentKind.GRU, 2, 1, 16, LINEAR=1),
    "recurrent LSTM": recurrent(RecurrentKind.LSTM, 4, 2, 19, directions=2),
    "recurrent LSTM backwards": recurrent(RecurrentKind.LSTM, 3, 1, 37, backwards=1),
    "recurrent LSTM peepholes": recurrent(RecurrentKind.LSTM, 4, 8, 16, directions=2, EXTRA=1),
    "recurrent LSTM coupled": recurrent(RecurrentKind.LSTM, 3, 1, 7, COUPLED=1),
    "recurrent LSTM functions": recurrent(
        *(RecurrentKind.LSTM, 2, 1, 40),
        functions=(RecurrentFunction.HARD_SIGMOID, RecurrentFunction.SCALED_TANH, RecurrentFunction.ELU),
    ),
    "recurrent LSTM one value": recurrent(RecurrentKind.LSTM, 1, 1, 1),
    "recurrent LSTM wide": recurrent(RecurrentKind.LSTM, 2, 2, 300),
    "recurrent_step LSTM": recurrent_step(RecurrentKind.LSTM, 3, 21, EXTRA=1),
    "recurrent_step LSTM whole": recurrent_step(RecurrentKind.LSTM, 1, 32),
    "recurrent_step RNN": recurrent_step(RecurrentKind.RNN, 2, 19),
    "recurrent_step GRU second part": recurrent_step(RecurrentKind.GRU, 2, 19, products=1),
    "recurrent_step GRU linear": recurrent_step(RecurrentKind.GRU, 2, 16, LINEAR=1, EXTRA=1),
}
ORACLES = {"recurrent_sequence": compute_recurrent_sequence, "recurrent_step": compute_recurrent_step}
