"""The kernel of scaled dot-product attention, on buffers of any strides."""

from __future__ import annotations

from runtime.kernels.buffer.nests import indexed
from runtime.kernels.buffer.spec import Shapes, buffer_kernel, too_wide
from runtime.kernels.buffer.vectors import lanes_local_size, shared_variants
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant
from runtime.target import Target

MOST_ELEMENTS = 256  # of a query or a value: a work item holds them in registers
_EXTENTS = "batch heads queries keys depth values"
_LOOPS = {
    "q": ("batch", "heads", "queries", "depth"),
    "k": ("batch", "groups", "keys", "depth"),
    "v": ("batch", "groups", "keys", "values"),
    "m": ("batch", "heads", "queries", "keys"),
    "y": ("batch", "heads", "queries", "values"),
}


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    dims = {**dims, "groups": dims["heads"] // dims["members"]}
    spans = {
        tensor: (1 + sum((dims[extent] - 1) * dims[f"{tensor}s{axis}"] for axis, extent in enumerate(loops)),)
        for tensor, loops in _LOOPS.items()
    }
    return {"mask" if tensor == "m" else tensor: span for tensor, span in spans.items()}


def _tile(queries: int, keys: int, vector: int, fma: int) -> Variant:
    return variant(QUERIES=queries, KEYS=keys, VECTOR=vector, FMA=fma)


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    queries = ceil_div(dims["queries"], chosen.get("QUERIES", 1))
    return chosen.get("LANES", 1), queries, dims["batch"] * dims["heads"]


def _local_size(items: WorkItems, chosen: Variant, target: Target) -> WorkItems:
    """A tile of queries is work enough for a core of a CPU."""
    return (1, 1, 1) if chosen.get("KEYS") else lanes_local_size(items, chosen, target)


def _rule(dims: Dims, chosen: Variant, target: Target) -> str:
    if chosen.get("KEYS") and any(dims[stride] != 1 for stride in ("qs3", "ks3", "vs3")):
        return "elements of a place that are no neighbours"
    if chosen.get("QUERIES", 1) >= 2 * dims["queries"]:
        return f"a tile of {chosen['QUERIES']} queries is too large for {dims['queries']}"
    if chosen == _FEW and (dims["queries"] > chosen["QUERIES"] or dims["keys"] < _MANY_KEYS):
        return "only for few queries of many keys"
    most = max(dims["depth"], dims["values"])
    if most > MOST_ELEMENTS:
        return f"heads of {most} elements; up to {MOST_ELEMENTS} are supported"
    wide = too_wide(min(dims["depth"], dims["values"]), chosen) if chosen["VECTOR"] > 4 else ""
    missing = "no cl_khr_subgroups" if chosen.get("SUBGROUPS") and not target.subgroups else ""
    return wide or missing


def _cost(dims: Dims, chosen: Variant) -> float:
    """Estimates the vectors that are loaded and multiplied for a key; a tile loads two, and has rows in vain."""
    queries = chosen.get("QUERIES", 1)
    return ceil_div(dims["queries"], queries) * (queries + 2) / chosen["VECTOR"]


# PyPI's PoCL calls a function for each fma of a vector; Debian's joins no products and sums where it is not asked to.
_TILES = {fma: (_tile(6, 256, 8, fma), _tile(4, 256, 8, fma)) for fma in (0, 1)}
_WIDE_TILE, _ALONE = _tile(6, 256, 16, 1), [variant(LANES=1, VECTOR=vector) for vector in (16, 8, 4)]
# Of a group that decodes: four queries read each key once.
_FEW, _MANY_KEYS = variant(QUERIES=4, KEYS=256, VECTOR=16, FMA=1, AHEAD=24), 64
# As many values are joined as a head has: played Adrenos take a fifth of the time where that needs no barrier.
_IN_SUBGROUPS = tuple(variant(LANES=lanes, VECTOR=4, SUBGROUPS=1) for lanes in (16, 64))

BUFFER_KERNELS = (
    buffer_kernel(
        "attention",
        "Attention",
        "q:flat k:flat v:flat mask:flat y:flat",
        f"{_EXTENTS} {' '.join(indexed(f'{tensor}s', 4, ':any') for tensor in _LOOPS)} masked:0-2 causal:0-1 members",
        _shapes,
        _work_items,
        floats="scale",
        variants=(
            *(*shared_variants(4, 8, 16), *_IN_SUBGROUPS),
            *(*_TILES[0], *_TILES[1], _tile(4, 32, 4, 0), _WIDE_TILE, _FEW),
        ),
        defaults={
            "": (variant(LANES=1, VECTOR=4),),
            "nvidia": (variant(LANES=16, VECTOR=8), variant(LANES=16, VECTOR=4)),
            "pocl": (*_TILES[0], *_ALONE[1:]),
            "pocl-3.1": (*_TILES[1], *_ALONE),
            "avx512": (_WIDE_TILE, _FEW, *_ALONE),
        },
        cost=_cost,
        rule=_rule,
        macs=lambda dims: (
            dims["batch"] * dims["heads"] * dims["queries"] * dims["keys"] * (dims["depth"] + dims["values"])
        ),
        local=_local_size,
    ),
)
