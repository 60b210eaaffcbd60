"""What a family of operators offers to the importer."""

import dataclasses
from collections.abc import Callable

from onnx import NodeProto

from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode

Handler = Callable[[OnnxNode, GraphBuilder], None]


@dataclasses.dataclass(frozen=True)
class StandIn:
    """How a node is written otherwise, and what a report says of it."""

    note: str
    nodes: Callable[[NodeProto, OnnxNode, GraphBuilder], list[NodeProto]]
