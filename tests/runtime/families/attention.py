"""What tests launch the kernels of attention with, and what they compute."""

import numpy as np

from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, indexed, nest
from tests.runtime.kernel_cases import TABLE, Case


def attention(
    extents: tuple[int, ...],
    packed: bool = False,
    mask: tuple[int, ...] = (),
    causal: bool = False,
    hidden: bool = False,
    members: int = 1,
) -> Case:
    """Heads side by side in each place, with queries, keys and values in one row where they are packed.

    `hidden`: the mask hides all keys of the first query, which then has 0.
    """
    _, heads, queries, keys, depth, values = extents
    groups = heads // members
    width = heads * depth + groups * (depth + values)
    dims = dict(zip(("batch", "heads", "queries", "keys", "depth", "values"), extents, strict=True))
    dims["members"] = members
    loops = {"q": (heads, queries, depth), "k": (groups, keys, depth), "v": (groups, keys, values)}
    for tensor, (count, places, size) in {**loops, "y": (heads, queries, values)}.items():
        row = width if packed and tensor != "y" else count * size
        dims |= {f"{tensor}s{axis}": step for axis, step in enumerate((places * row, size, row, 1))}
    dims |= {f"ms{axis}": step for axis, step in enumerate(mask or (0, 0, 0, 0))}
    dims |= {"masked": int(bool(mask)) + hidden, "causal": int(causal)}
    return Case(TABLE["attention"], dims, {"DEPTH": depth, "VALUES": values}, {"scale": 0.75})


def compute_attention(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    """Returns [batch, heads, queries, values]."""
    batch, heads, queries, keys, depth, values = (
        dims[name] for name in ("batch", "heads", "queries", "keys", "depth", "values")
    )
    q = nest(arrays["q"], [batch, heads, queries, depth], indexed(dims, "qs", 4))
    groups, members = heads // dims["members"], dims["members"]
    k = nest(arrays["k"], [batch, groups, keys, depth], indexed(dims, "ks", 4)).repeat(members, axis=1)
    v = nest(arrays["v"], [batch, groups, keys, values], indexed(dims, "vs", 4)).repeat(members, axis=1)
    scores = np.einsum("bhld,bhsd->bhls", q, k) * floats["scale"]
    if dims["masked"]:
        scores = scores + nest(arrays["mask"], [batch, heads, queries, keys], indexed(dims, "ms", 4))
    if dims["causal"]:
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None], scores, -np.inf)
    greatest = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(greatest), 0, greatest))
    total = powers.sum(-1, keepdims=True)
    return np.einsum("bhls,bhsd->bhld", powers / np.where(total == 0, 1, total), v)


CASES: dict[str, Case] = {
    "attention": attention((1, 2, 5, 7, 16, 16)),
    "attention packed": attention((2, 3, 6, 6, 20, 18), packed=True, mask=(0, 0, 6, 1)),
    "attention causal": attention((1, 2, 5, 9, 8, 24), mask=(45, 0, 9, 1), causal=True),
    "attention of one query": attention((1, 2, 1, 270, 19, 16)),
    "attention of a few queries": attention((1, 2, 7, 37, 70, 16)),
    "attention of four queries": attention((1, 2, 4, 270, 19, 37)),
    "attention narrow": attention((1, 1, 3, 70, 3, 5)),
    "attention long": attention((1, 1, 98, 260, 3, 5), mask=(0, 0, 260, 1)),
    "attention long causal": attention((1, 1, 70, 70, 16, 20), causal=True),
    "attention of many keys": attention((1, 1, 9, 300, 20, 18), mask=(0, 0, 300, 1)),
    "attention of hidden keys": attention((2, 2, 9, 300, 20, 18), mask=(0, 0, 300, 1), hidden=True),
    "attention of few hidden keys": attention((1, 2, 1, 5, 16, 24), mask=(0, 0, 5, 1), hidden=True),
    "attention of groups": attention((2, 6, 9, 11, 16, 16), packed=True, causal=True, members=3),
    "attention of groups of one query": attention((2, 4, 1, 270, 19, 16), members=2),
    "attention longer causal": attention((1, 1, 300, 300, 8, 5), causal=True),
}
ORACLES = {"attention": compute_attention}
