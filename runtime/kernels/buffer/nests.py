"""Kernels along nested loops with strides, in any storage: what the rows of several families share."""

from runtime.kernels.buffer.spec import Shapes
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div


def indexed(prefix: str, rank: int, form: str = "") -> str:
    """Names one argument for each axis: `d0 d1 d2 d3` for the prefix d and rank 4; `form` says their range."""
    return " ".join(f"{prefix}{axis}{form}" for axis in range(rank))


def nest_ints(rank: int, strides: str) -> str:
    """The ints of nested loops: their extents `d`, then the strides of each tensor, which may be anything."""
    return " ".join([indexed("d", rank), *(indexed(prefix, rank, ":any") for prefix in strides.split())])


def strided_span(extents: list[int], strides: list[int]) -> tuple[int]:
    """Returns how many elements a strided tensor spans, from its first to its last, as the shape of a flat tensor."""
    return (1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)),)


def values(dims: Dims, prefix: str, rank: int) -> list[int]:
    """The dims of all axes of a prefix."""
    return [dims[f"{prefix}{axis}"] for axis in range(rank)]


def nest_shapes(dims: Dims, defines: Defines, rank: int, tensors: str) -> Shapes:
    """Each tensor as flat memory that its strides span."""
    extents = values(dims, "d", rank)
    return {name: strided_span(extents, values(dims, f"{name}s", rank)) for name in tensors.split()}


def nest_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    """Vectors of the last of four loops."""
    return ceil_div(dims["d3"], chosen["VECTOR"] * chosen.get("ITEMS", 1)), dims["d2"], dims["d0"] * dims["d1"]
