"""An operator of our own: GatedActivation(x, gate; alpha) = x * alpha * sigmoid(gate)."""

from __future__ import annotations

import math

import numpy as np

from farm.operators import Attribute, Case, CFunction, OpenCLKernel, Operator, ceil_div, variant


def shape(shapes, attributes):
    """The output's shape; ValueError for inputs that do not fit."""
    x, gate = shapes
    if x != gate:
        raise ValueError(f"x is {x} and gate {gate}; they must have one shape")
    return x


def reference(arrays, attributes):
    """What the operator computes, in NumPy."""
    x, gate = arrays
    return x * attributes["alpha"] / (1 + np.exp(-gate))


def arguments(shapes, output, attributes):
    """The numbers that kernel and C function take, by name."""
    return {"count": math.prod(output), "alpha": attributes["alpha"]}


def work_items(dims, chosen):
    """The global size of the kernel in a variant."""
    return (ceil_div(dims["count"], chosen["VECTOR"] * chosen["ITEMS"]),)


OPERATORS = [
    Operator(
        domain="com.acme",
        name="GatedActivation",
        inputs=["x", "gate"],
        attributes={"alpha": Attribute("float", 1.0)},
        shape=shape,
        reference=reference,
        kernels=[
            OpenCLKernel(
                source="gated.cl",
                entry="gated",
                tensors="x:flat gate:flat y:flat",
                ints="count",
                floats="alpha",
                arguments=arguments,
                work_items=work_items,
                variants=tuple(variant(VECTOR=vector, ITEMS=items) for vector in (4, 8) for items in (1, 4)),
            )
        ],
        c=CFunction(
            source="gated.c",
            function="gated",
            floats="alpha",
            arguments=arguments,
            items=lambda shapes, output, attributes: math.prod(output),
        ),
        cases=[
            Case(((1, 64, 56, 56), (1, 64, 56, 56))),
            Case(((1, 7, 5, 3), (1, 7, 5, 3)), {"alpha": 0.5}),
            Case(((3, 33), (3, 33))),
        ],
    )
]
