"""Emits the common case on images: an operator of one input that is one launch."""

from collections.abc import Mapping

from runtime.graph import Node
from runtime.kernels.spec import MemoryType
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

EXTENTS = ("batch", "channels", "height", "width")


def emit(
    builder: Builder,
    node: Node,
    kernel: str,
    op: str,
    dims: Mapping[str, int],
    floats: Mapping[str, float] | None = None,
    defines: Mapping[str, int] | None = None,
    constants: Mapping[str, Value] | None = None,
    shown: ProfileInfo | None = None,
) -> str:
    """Launches a kernel from the node's first input to its output, or says why it cannot run for these dims."""
    reason = builder.refusal(kernel, MemoryType.IMAGE, dims)
    if reason:
        return reason
    tensors: Tensors = {"x": builder.read(node.inputs[0], Storage.IMAGE), **(constants or {})}
    tensors["y"] = builder.write(node.output, Storage.IMAGE)
    shown = shown or ProfileInfo(builder.graph.shape(node.output))
    builder.launch(kernel, node.name, op, tensors, dims, floats, defines, shown, memory=MemoryType.IMAGE)
    return ""


def extents(shape: tuple[int, ...]) -> dict[str, int]:
    """Returns the extents of a 4-axis tensor by the names that kernels use."""
    return dict(zip(EXTENTS, shape, strict=True))
