"""How Resize is lowered to buffers, images and blocks of channels, and at which sizes measured.

A nearest resize reads tables: the input row of each output row, and the input column of each output column. A bilinear
one computes its source coordinates as output coordinate * scale + shift.
"""

from runtime.families.elementwise.quantized_lowering import requantized
from runtime.families.resize.nearest import nearest_indices
from runtime.graph import Graph, Node
from runtime.lowering.blocks import BlockedOperator, QuantizedOperator, any_image, is_image
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit
from runtime.lowering.launch import Tensors
from runtime.lowering.value import Value
from runtime.operators.case import OperatorCase, shape_text
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def _kernel(node: Node) -> str:
    """Returns the name of the kernel for the node's interpolation."""
    return "resize_nearest" if node.attrs["mode"] == "nearest" else "resize_bilinear"


def _dims(graph: Graph, node: Node) -> dict[str, int]:
    """Returns the kernel's integer arguments: batch, channels, and the extents of input and output."""
    n, channels, in_h, in_w = graph.shape(node.inputs[0])
    out_h, out_w = graph.shape(node.output)[2:]
    return {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}


def _tables(builder: Builder, node: Node) -> dict[str, Value]:
    """Returns the tables `rows` and `columns` of a nearest resize: the input index of each output; else nothing."""
    if node.attrs["mode"] != "nearest":
        return {}
    tables = {}
    for axis, name in enumerate(("rows", "columns")):
        extent, size = builder.graph.shape(node.inputs[0])[2 + axis], node.attrs["sizes"][axis]
        modes = node.attrs["coordinate_transformation_mode"], node.attrs["nearest_mode"]
        indices = nearest_indices(extent, size, node.attrs["scales"][axis], *modes)
        tables[name] = builder.table(f"{node.name}:{name}", indices)
    return tables


def _numbers(graph: Graph, node: Node) -> dict[str, float]:
    """Returns the kernel's numbers: scale and shift of height and width, which a bilinear resize needs."""
    numbers = {}
    for axis, name in enumerate("hw"):
        size, out = graph.shape(node.inputs[0])[2 + axis], graph.shape(node.output)[2 + axis]
        mode = node.attrs["coordinate_transformation_mode"]
        numbers[f"scale_{name}"], numbers[f"shift_{name}"] = _coordinates(mode, size, out, node.attrs["scales"][axis])
    return numbers


def _coordinates(mode: str, size: int, out: int, scale: float) -> tuple[float, float]:
    """Returns scale and shift that give the source coordinate, as ONNX Resize defines its coordinate modes."""
    if mode == "align_corners":
        return ((size - 1) / (out - 1) if out > 1 else 0.0), 0.0
    if mode == "asymmetric":
        return 1 / scale, 0.0
    if mode == "pytorch_half_pixel" and out == 1:
        return 0.0, 0.0
    return 1 / scale, 0.5 / scale - 0.5


def _on_buffers(builder: Builder, node: Node) -> None:
    """Lowers Resize, by nearest or linear interpolation."""
    dims, numbers = _dims(builder.graph, node), _numbers(builder.graph, node)
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    tensors: Tensors = {"x": x, "y": y, **_tables(builder, node)}
    builder.launch(_kernel(node), node.name, "Resize", tensors, dims, numbers, shown=ProfileInfo(y.shape))


def _on_images(builder: Builder, node: Node) -> str:
    """Lowers Resize, by nearest or linear interpolation."""
    dims, numbers = _dims(builder.graph, node), _numbers(builder.graph, node)
    tables = _tables(builder, node)
    return emit(builder, node, _kernel(node), "Resize", dims, numbers, constants=tables)


def _on_blocks(builder: Builder, node: Node) -> None:
    """Lowers Resize: each block of channels is an image of pixels."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    pixels, resized = x.lanes(), y.lanes()
    dims = _dims(builder.graph, node) | {"batch": pixels.shape[0], "channels": builder.block}
    tensors: Tensors = {"x": pixels, "y": resized, **_tables(builder, node)}
    numbers, shown = _numbers(builder.graph, node), ProfileInfo(y.shape)
    builder.launch(_kernel(node), node.name, "Resize", tensors, dims, numbers, shown=shown)


def _is_nearest(builder: Builder, node: Node) -> bool:
    return node.attrs["mode"] == "nearest" and is_image(builder.graph, node)


def _on_bytes(builder: Builder, node: Node) -> None:
    """Lowers a nearest Resize of eight bits: it moves them."""
    result = builder.result(node)
    x = requantized(builder, node.name, builder.read_bytes(node.inputs[0]), builder.steps_of(result))
    y = builder.write_bytes(result)
    pixels, resized = x.words(), y.words()
    dims = _dims(builder.graph, node) | {"batch": pixels.shape[0], "channels": pixels.shape[1]}
    tensors: Tensors = {"x": pixels, "y": resized, **_tables(builder, node)}
    builder.launch("resize_nearest", node.name, "Resize", tensors, dims, shown=ProfileInfo(y.shape), note="eight bits")


def _resize(mode: str, c: int, size: int, factor: int) -> OperatorCase:
    x = (1, c, size, size)
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": "half_pixel" if mode == "linear" else "asymmetric",
        "nearest_mode": "floor",
        "sizes": (size * factor,) * 2,
        "scales": (float(factor),) * 2,
    }
    return OperatorCase(f"Resize_{shape_text(x)}_{mode}_{shape_text((size * factor,) * 2)}", "Resize", (x,), (), attrs)


BUFFER_LOWERINGS = {"Resize": _on_buffers}
IMAGE_LOWERINGS = {"Resize": _on_images}
BLOCKED_OPERATORS = {"Resize": BlockedOperator(any_image, _on_blocks)}
QUANTIZED_OPERATORS = {"Resize": QuantizedOperator(_is_nearest, _on_bytes)}
OPBENCH_CASES = (
    _resize("nearest", 32, 28, 2),
    _resize("linear", 32, 28, 2),
)
