"""Lowers pooling of regions to steps of the CPU."""

import math

from runtime.families.strided.strided_lowering import Strides, launch_loops
from runtime.graph import Node
from runtime.kernels.strided import LOOPS
from runtime.lowering.builder import Builder
from runtime.semantics.functions import RegionFunction
from runtime.semantics.generic import row_major_strides
from runtime.types import Storage


def lower_region_pooling(builder: Builder, node: Node) -> None:
    """One step; where the bins have channels of their own, the image moves on with them."""
    x, regions, images = (builder.read(name, Storage.FLAT) for name in node.inputs)
    y = builder.write(node.output, Storage.FLAT)
    attributes, image = node.attrs, row_major_strides(x.shape)
    bins = attributes["bins"] if attributes["grouped"] else (1, 1)
    along = (0, math.prod(bins) * image[1], bins[1] * image[1], image[1])
    strides: list[Strides] = [along if attributes["grouped"] else (0, image[1], 0, 0), (4, 0, 0, 0), (1, 0, 0, 0)]
    strides.append(row_major_strides(y.shape))
    function = RegionFunction[attributes["function"].upper()]
    head = {
        **{"function": function, "samples": attributes["samples"]},
        **{"images": x.shape[0], "rows": x.shape[2], "columns": x.shape[3]},
        **{"image_stride": image[0], "row_stride": image[2], "column_stride": image[3]},
    }
    none, extents = [0] * (LOOPS - 4), [*[1] * (LOOPS - 4), *y.shape]
    numbers = {name: attributes[name] for name in ("scale", "shift", "smallest")}
    values, steps = [x, regions, images, y], [[*none, *own] for own in strides]
    launch_loops(builder, node, "region_pooling", head, extents, values, steps, numbers)


STRIDED_LOWERINGS = {"RegionPooling": lower_region_pooling}
