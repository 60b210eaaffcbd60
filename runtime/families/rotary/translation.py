"""Rotary positions as one launch that reads rows wherever they lie; and the size to measure."""

from runtime.families.rotary.definition import MOST_AXES
from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.iteration import broadcast_strides
from runtime.operators.case import sized
from runtime.plan.plan import ProfileInfo
from runtime.semantics.generic import row_major_strides
from runtime.types import Storage


def lower_rotary(builder: Builder, node: Node) -> None:
    """Lowers Rotary, on row-major tensors."""
    x, cosines, sines = (builder.read(name, Storage.FLAT) for name in node.inputs)
    y = builder.write(node.output, Storage.FLAT)
    missing, half = MOST_AXES - len(y.shape), y.shape[-1] // 2
    rows = ((1,) * missing + y.shape)[:-1]
    strides = {"x": (half, ((0,) * missing + node.attrs["strides"])[:-1])}
    for name, table in (("c", cosines), ("s", sines)):
        steps = row_major_strides(table.shape)[:-1]
        strides[name] = (half % table.shape[-1], broadcast_strides(table.shape[:-1], steps, len(rows), rows))
    dims = {f"d{axis}": size for axis, size in enumerate((*rows, half))}
    for name, (between, steps) in strides.items():
        dims |= {f"{name}s{axis}": step for axis, step in enumerate(steps)} | {f"{name}_half": between}
    tensors = {"x": x.from_element(node.attrs["offset"]), "cosines": cosines, "sines": sines, "y": y}
    builder.launch("rotary", node.name, "Rotary", tensors, dims, shown=ProfileInfo(y.shape))


BUFFER_LOWERINGS = {"Rotary": lower_rotary}
_ROWS = (1, 8, 128, 64)
OPBENCH_CASES = (
    sized("Rotary", (1, 128, 512), (128, 64), (128, 64), shape=_ROWS, strides=(65536, 64, 512, 1), offset=0),
)
