"""What tests launch the kernel of indexed reads with, and what it computes."""

from __future__ import annotations

import numpy as np

from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, indexed, nest
from tests.runtime.kernel_cases import TABLE, Case, numbered

FAR = 1 << 32  # an index whose low word alone would be in range


def gather(
    extents: tuple[int, ...],
    xs: tuple[int, ...],
    ks: tuple[int, ...],
    counted: tuple[int, int],
    chosen: tuple[int, ...],
    words: int = 1,
) -> Case:
    """`counted`: elements of the axis that indices count, and its stride."""
    lead = 4 - len(extents)
    dims = numbered("d", (1,) * lead + extents)
    dims |= numbered("xs", (0,) * lead + xs) | numbered("ks", (0,) * lead + ks)
    dims |= {"limit": counted[0], "step": counted[1]}
    table = np.array(chosen, np.int64 if words == 2 else np.int32).view(np.int32)
    defines = {"INDEX_WORDS": words, "RUNS": int((xs[-1], ks[-1]) == (1, 0))}
    return Case(TABLE["gather"], dims, defines, tables={"k": tuple(map(int, table))})


def compute_gather(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    limit, step, extents = dims["limit"], dims["step"], indexed(dims, "d", 4)
    chosen = arrays["k"].view(np.int64 if defines["INDEX_WORDS"] == 2 else np.int32)
    index = nest(chosen.astype(np.int64), extents, indexed(dims, "ks", 4))
    each = nest(arrays["x"], [*extents, limit], [*indexed(dims, "xs", 4), step])
    found = np.take_along_axis(each, (index % limit)[..., None], axis=-1)[..., 0]
    return np.where((index >= -limit) & (index < limit), found, np.nan)


CASES = {
    "gather rows": gather((4, 19), (0, 1), (1, 0), (6, 19), (5, -6, 0, -1)),
    "gather rows by long indices": gather((5, 33), (0, 1), (1, 0), (3, 33), (-3, 2, FAR, 3, FAR - 1), words=2),
    "gather out of range": gather((3, 35), (0, 1), (1, 0), (4, 35), (4, -5, 3)),
    "gather columns": gather((3, 37), (5, 0), (0, 1), (5, 1), tuple(n % 7 - 3 for n in range(37))),
    "gather an element each": gather(
        (2, 3, 2, 5), (60, 0, 5, 1), (30, 10, 5, 1), (4, 10), tuple(n % 8 - 4 for n in range(60))
    ),
}
ORACLES = {"gather": compute_gather}
