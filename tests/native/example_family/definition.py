"""What Cube is, y = scale * x^3 of each element: its row, what it computes, and its kernel."""

from collections.abc import Sequence

from runtime.graph import Array
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div
from runtime.operators.row import Operator
from runtime.oracle.shared import first_input
from runtime.semantics.shape_functions import Attributes, same


def _cube(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = first_input(arguments)
    return (x**3 * attributes["scale"]).astype(x.dtype)


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    return {"x": (dims["count"],), "y": (dims["count"],)}


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return (ceil_div(dims["count"], chosen["VECTOR"]),)


OPERATORS = {"Cube": Operator((1, 1), same, {"scale": "float"})}
COMPUTE = {"Cube": _cube}
BUFFER_KERNELS = (
    buffer_kernel(
        *("cube", "Cube", "x:flat y:flat", "count"),
        _shapes,
        _work_items,
        floats="scale",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
