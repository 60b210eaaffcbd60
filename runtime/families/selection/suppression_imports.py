"""NonMaxSuppression: how many boxes it writes hangs on the scores, so the result has room for all that it may write.

The rows behind those that a run finds hold -1: `padded` of the graph names what was made so.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.families.indexing.imports import gather
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


def _non_max_suppression(node: OnnxNode, builder: GraphBuilder) -> None:
    """[most, 3] rows of group, class and box, in this order, the best box of a class first."""
    emit, boxes, scores = Emitter(node, builder), node.input(0), node.input(1)
    shape = builder.shape(scores)
    most = builder.integers(node, 2, "max_output_boxes_per_class") if node.optional(2) else (0,)
    if len(shape) != 3 or len(most) != 1:
        raise ModelError(f"{node}: scores of shape {shape} and {len(most)} numbers of boxes do not fit")
    if most[0] < 1:
        raise node.unsupported("max_output_boxes_per_class", most[0], "at least 1: else there is no result")
    limit = node.optional(3) or emit.constant(np.zeros(1))
    least = node.optional(4) or emit.constant(np.full(1, -np.inf))
    kept = emit.op(
        "Suppression",
        *(boxes, scores, limit, least),
        count=min(most[0], shape[2]),
        centred=bool(node.integer("center_point_box", 0)),
        dtype="int64",
    )
    builder.graph.padded.append(node.name)
    shape = builder.shape(kept)
    check_size(node, (math.prod(shape), 3))
    missing = emit.element("less", kept, emit.constant(0, dtype="int64"), dtype="bool")
    columns = [emit.constant(np.indices(shape)[axis], dtype="int64") for axis in (0, 1)]
    found_rows(emit, [*columns, kept], missing, node.output)


def found_rows(emit: Emitter, columns: Sequence[str], missing: str, output: str | None = None) -> str:
    """[elements, columns] of those that are not missing, in their order, then rows of -1."""
    none, count = emit.constant(-1, dtype="int64"), math.prod(emit.shape(missing))
    parts = [emit.element("where", missing, none, column) for column in columns]
    table = emit.op("Join", *(emit.reshape(part, (count, 1)) for part in parts), axis=1)
    flags = emit.cast(emit.flat(missing), "uint8")  # a sort keeps the order of equals
    order = emit.op("Sorting", flags, axis=0, count=count, largest=False, positions=True)
    return gather(emit.node, emit.builder, table, order, 0, output)


HANDLERS: Mapping[str, Handler] = {"NonMaxSuppression": _non_max_suppression}
