"""Operators of farmrt's CPU on blocked activations (`Storage.BLOCKED`): the rows that plans name; they have no OpenCL.

BLOCK is the channels of a block. Weights lie in blocks of as many rows: see runtime/layout/buffer.py, `pack_rows`.
"""

from collections.abc import Callable

from runtime.kernels.spec import ArgumentForm, Dims, Kernel, MemoryType, no_macs, ranged_ints


def blocked_row(
    name: str,
    operator: str,
    tensors: str,
    ints: str,
    floats: str = "",
    macs: Callable[[Dims], int] = no_macs,
) -> Kernel:
    """A row from blank-separated names, a tensor's form behind a colon where it is not flat, and ints as `ranged_ints`
    reads them."""
    named = (word.partition(":") for word in tensors.split())
    arguments = tuple((argument, ArgumentForm(form or "flat")) for argument, _, form in named)
    return Kernel(
        name,
        "",
        operator,
        MemoryType.BUFFER,
        arguments,
        tuple(ranged_ints(ints)),
        lambda dims, chosen: (1,),
        floats=tuple(floats.split()),
        ranges=ranged_ints(ints),
        macs=macs,
    )


REORDER = blocked_row("reorder", "Transpose", "x y", "batch channels h w")
QUANTIZED_REORDER = blocked_row("quantized_reorder", "Quantize", "x:bytes y:bytes", "batch channels h w", "step")
