"""Lowers sorting, and what of overlapping boxes is kept, to steps of the CPU."""

from runtime.families.strided.strided_lowering import launch_loops, launch_rows
from runtime.graph import Node
from runtime.kernels.strided import LOOPS
from runtime.lowering.builder import Builder
from runtime.semantics.generic import row_major_strides
from runtime.types import Storage


def lower_sorting(builder: Builder, node: Node) -> None:
    """One step."""
    x = builder.read(node.inputs[0], Storage.FLAT)
    y = builder.write(node.output, Storage.FLAT)
    head = {"length": x.shape[node.attrs["axis"]], **{name: node.attrs[name] for name in ("largest", "positions")}}
    launch_rows(builder, node, "sorting", head, x, y)


def lower_suppression(builder: Builder, node: Node) -> None:
    """One step; its rows are the classes of each group of boxes."""
    values = [builder.read(name, Storage.FLAT) for name in node.inputs]
    y = builder.write(node.output, Storage.FLAT)
    classes, boxes = values[1].shape[1:]
    none = [0] * (LOOPS - 3)
    strides = [(4 * boxes, 0, 0), (classes * boxes, boxes, 0), (0, 0, 0), (0, 0, 0), row_major_strides(y.shape)]
    extents = [*[1] * (LOOPS - 3), *y.shape]
    head = {"count": boxes, "centred": node.attrs["centred"]}
    launch_loops(builder, node, "suppression", head, extents, [*values, y], [[*none, *steps] for steps in strides])


STRIDED_LOWERINGS = {"Sorting": lower_sorting, "Suppression": lower_suppression}
