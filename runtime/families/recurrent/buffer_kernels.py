"""Recurrent layers in buffers: all time steps in one launch of a work group a sequence, or a launch a step."""

from __future__ import annotations

import dataclasses

from runtime.kernels.buffer.spec import Shapes, buffer_kernel, too_wide
from runtime.kernels.spec import Defines, Dims, Variant, ceil_div, variant
from runtime.semantics.recurrence import GATES, RecurrentKind, working_rows
from runtime.target import Target

_NUMBERS = "clip gate_a gate_b cell_a cell_b out_a out_b"
# Vectors: 1 where a GPU's neighbouring work items read neighbouring weights, more where a core has vectors of its own.
_SEQUENCE_VARIANTS = tuple(
    variant(VECTOR=vector, WIDTH=width, FMA=fma)
    for vector, widths in ((1, (64, 128, 256)), (4, (16, 32, 64)), (8, (1, 8, 16)), (16, (1, 4, 8)))
    for width in widths
    for fma in (0, 1)
)
_STEP_VARIANTS = tuple(variant(VECTOR=vector, FMA=fma) for vector in (1, 4, 8, 16) for fma in (0, 1))


def _op(defines: Defines) -> str:
    return RecurrentKind(defines["RECURRENT"]).name


def _sequence_shapes(dims: Dims, defines: Defines) -> Shapes:
    op, times, hidden, directions = _op(defines), dims["times"], dims["hidden"], dims["directions"]
    rows = directions * dims["batch"]
    width = GATES[op] * hidden
    working = working_rows(op, bool(defines.get("LINEAR")))
    return {
        "x": (times * rows * width,),
        "r": (directions * hidden * width,),
        "h": (rows * hidden,),
        "c": (rows * hidden,),
        "p": (directions * (3 if op == "LSTM" else 1) * hidden,),
        "y": ((times + working) * rows * hidden,),
    }


def _step_shapes(dims: Dims, defines: Defines) -> Shapes:
    op, batch, hidden = _op(defines), dims["batch"], dims["hidden"]
    width = GATES[op] * hidden
    state = (batch * hidden,)
    return {
        "x": ((batch - 1) * dims["x_step"] + width,),
        "r": (hidden * width,),
        "h": state,
        "c": state,
        "p": ((3 if op == "LSTM" else 1) * hidden,),
        "s": (dims["s_step"] + batch * hidden,),
        "y": state,
    }


def _sequence_rule(dims: Dims, chosen: Variant, target: Target) -> str:
    if chosen["WIDTH"] > min(target.max_work_group_size, target.max_work_item_sizes[0]):
        return f"{chosen['WIDTH']} work items; the device's groups have {target.max_work_group_size}"
    if target.gpu_family.startswith("pocl-3.0") and target.precision.stores_half and chosen["VECTOR"] > 1:
        return "PoCL 3.0 compiles vectors of halves in this kernel wrongly"
    return too_wide(dims["hidden"], chosen)


def _sequence_cost(dims: Dims, chosen: Variant) -> float:
    """Estimates the vectors that a work item computes one after another, and what idle ones and waiting cost."""
    turns = ceil_div(ceil_div(dims["hidden"], chosen["VECTOR"]), chosen["WIDTH"])
    return turns * chosen["VECTOR"] + chosen["WIDTH"] / 64


def _step_cost(dims: Dims, chosen: Variant) -> float:
    return ceil_div(dims["hidden"], chosen["VECTOR"])


def _group(dims: Dims, chosen: Variant, target: Target) -> tuple[int, int]:
    """One work group a sequence."""
    return chosen["WIDTH"], 1


def _sequence_macs(dims: Dims) -> int:
    return dims["times"] * dims["directions"] * dims["batch"] * dims["hidden"] ** 2 * dims["gates"]


def _step_macs(dims: Dims) -> int:
    return dims["batch"] * dims["hidden"] ** 2 * dims["products"]


_sequence = buffer_kernel(
    "recurrent_sequence",
    "Recurrent",
    "x:flat r:flat h:flat c:flat p:flat y:flat",
    "times batch hidden directions:1-2 gates backwards:0-1",
    _sequence_shapes,
    lambda dims, chosen: (chosen["WIDTH"], dims["directions"] * dims["batch"]),
    source="recurrent",
    floats=_NUMBERS,
    variants=_SEQUENCE_VARIANTS,
    defaults={
        "": tuple(variant(VECTOR=1, WIDTH=width, FMA=0) for width in (64, 128, 256)),
        "pocl": tuple(variant(VECTOR=v, WIDTH=w, FMA=0) for v, w in ((8, 1), (4, 16), (1, 64))),
        "pocl-3.1": tuple(variant(VECTOR=v, WIDTH=w, FMA=f) for v, w, f in ((16, 1, 1), (8, 1, 1), (4, 16, 0))),
    },
    cost=_sequence_cost,
    rule=_sequence_rule,
    macs=_sequence_macs,
)
BUFFER_KERNELS = (
    # Its work items wait for each other, so that a launch cannot be cut between them.
    dataclasses.replace(_sequence, local_size=_group, splittable=False, one_group=lambda chosen: True),
    buffer_kernel(
        "recurrent_step",
        "Recurrent",
        "x:flat r:flat h:flat c:flat p:flat s:flat y:flat",
        "batch hidden products x_step s_step",
        _step_shapes,
        lambda dims, chosen: (ceil_div(dims["hidden"], chosen["VECTOR"]), dims["batch"]),
        source="recurrent",
        floats=_NUMBERS,
        variants=_STEP_VARIANTS,
        defaults={
            "": (variant(VECTOR=1, FMA=0),),
            "pocl": tuple(variant(VECTOR=vector, FMA=0) for vector in (8, 4, 1)),
            "pocl-3.1": tuple(variant(VECTOR=vector, FMA=1) for vector in (16, 8, 4, 1)),
        },
        cost=_step_cost,
        rule=lambda dims, chosen, target: too_wide(dims["hidden"], chosen),
        macs=_step_macs,
        cpu=False,
    ),
)
