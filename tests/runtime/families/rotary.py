"""What tests launch the kernel of rotary positions with, and what it computes."""

import numpy as np

from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, indexed, nest
from tests.runtime.kernel_cases import TABLE, Case


def rotary(extents: tuple[int, int, int, int], shared: bool = False) -> Case:
    """Heads side by side in each place of a wider row, which has angles: those of a half, where they are shared."""
    _, heads, places, half = extents
    width, table = 2 * heads * half + 3, half if shared else 2 * half
    dims = {f"d{axis}": extent for axis, extent in enumerate(extents)}
    for name, steps in {"x": (places * width, 2 * half, width), "c": (0, 0, table), "s": (0, 0, table)}.items():
        dims |= {f"{name}s{axis}": step for axis, step in enumerate(steps)}
    return Case(TABLE["rotary"], dims | {"x_half": half} | dict.fromkeys(("c_half", "s_half"), table - half))


def compute_rotary(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    """Returns [batch, heads, places, 2, half]."""
    extents = [*indexed(dims, "d", 3), 2, dims["d3"]]
    x, cos, sin = (
        nest(arrays[name], extents, [*indexed(dims, f"{name[0]}s", 3), dims[f"{name[0]}_half"], 1])
        for name in ("x", "cosines", "sines")
    )
    return x * cos + np.stack([-x[..., 1, :], x[..., 0, :]], axis=-2) * sin


CASES = {
    "rotary": rotary((2, 3, 5, 16)),
    "rotary of odd halves": rotary((1, 2, 3, 19), shared=True),
    "rotary narrow": rotary((1, 1, 4, 3)),
}
ORACLES = {"rotary": compute_rotary}
