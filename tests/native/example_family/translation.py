"""How Cube is read from ONNX (domain `farm`), lowered to one launch, and measured."""

import math

from runtime.graph import Node
from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.lowering.builder import Builder
from runtime.operators.case import IMAGE, sized
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def _read(node: OnnxNode, builder: GraphBuilder) -> None:
    builder.emit(node, "Cube", [node.input(0)], {"scale": node.real("scale", 1.0)}, node.output)


def _lower(builder: Builder, node: Node) -> None:
    x, y = builder.read(node.inputs[0], Storage.FLAT), builder.write(node.output, Storage.FLAT)
    dims, floats = {"count": math.prod(y.shape)}, {"scale": node.attrs["scale"]}
    builder.launch("cube", node.name, "Cube", {"x": x, "y": y}, dims, floats, shown=ProfileInfo(y.shape))


FARM_HANDLERS = {"Cube": _read}
BUFFER_LOWERINGS = {"Cube": _lower}
OPBENCH_CASES = (sized("Cube", IMAGE, scale=0.5),)
