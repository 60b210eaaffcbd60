"""Variants of the register tile that every product with packed weights uses (buffer/prelude.cl).

A work item computes PIXELS rows x BLOCK output channels in vectors of VECTOR. PACK: channels that lie together in the
packed weights, BLOCK where not given. ORDER 1: neighbouring work items differ in channels, so that a GPU's wave reads
neighbouring weights. COLUMNS 4: four input channels are loaded at once. LOCAL: input channels whose weights a work
group brings to local memory at a time; only where all its work items take part in one product. RUN: how many products
half arithmetic adds in half before their sum goes to a float, 16 where not given; longer is faster and less exact.
"""

from runtime.kernels.spec import Variant, ceil_div, variant


def _plain(block: int, vector: int, pixels: int, fma: int) -> Variant:
    return variant(BLOCK=block, VECTOR=vector, PIXELS=pixels, FMA=fma)


_WIDEST = ((64, 16, 6, 1), (64, 16, 7, 1), (48, 16, 9, 1), (32, 16, 12, 1))  # 24 to 28 sums of 16 floats
_WIDE = (*_WIDEST, (32, 16, 7, 1), (32, 16, 4, 1), (32, 16, 8, 1), (16, 16, 7, 1), (16, 16, 8, 1))
_WIDE_SMALL = ((16, 16, 4, 1), (16, 16, 1, 1))
_HALF = ((24, 8, 4, 0), (16, 8, 6, 0), (16, 8, 5, 0), (8, 8, 8, 0), (8, 8, 1, 0))
_QUARTER = ((8, 4, 4, 0), (4, 4, 8, 0), (4, 4, 4, 0), (4, 4, 1, 0))
_GPU = (
    variant(BLOCK=4, VECTOR=4, PIXELS=4, FMA=0, PACK=64, ORDER=1, COLUMNS=4),
    variant(BLOCK=8, VECTOR=4, PIXELS=4, FMA=0, PACK=64, ORDER=1, COLUMNS=4),
)
_LOCAL = (variant(BLOCK=8, VECTOR=4, PIXELS=4, FMA=0, LOCAL=32), variant(BLOCK=16, VECTOR=4, PIXELS=4, FMA=0, LOCAL=16))
_RUNS = tuple(variant(BLOCK=block, VECTOR=4, PIXELS=4, FMA=0, RUN=run) for block in (4, 8) for run in (8, 24))

VARIANTS = (*(_plain(*tile) for tile in (*_WIDE, *_WIDE_SMALL, *_HALF, *_QUARTER)), *_GPU, *_RUNS)
GROUP_VARIANTS = (*VARIANTS, *_LOCAL)
DEFAULTS = {
    "": tuple(_plain(*tile) for tile in ((8, 4, 4, 0), (4, 4, 4, 0), (4, 4, 1, 0))),
    # H200: a tile of 4x4 took 0.73 to 0.93 of the time of 8x4 in seven 3x3 and 5x5 convolutions.
    "nvidia": (_GPU[0], _plain(4, 4, 1, 0)),
    "pocl": tuple(_plain(*tile) for tile in _HALF),
    # CPUs whose vectors have 16 floats; in the 16 registers of AVX2 these take 2 to 2.5 times as long as those above.
    "avx512": tuple(
        _plain(*tile)
        for tile in (
            (32, 16, 7, 1),
            (32, 16, 4, 1),
            (32, 16, 8, 1),
            (16, 16, 7, 1),
            (16, 16, 8, 1),
            (16, 16, 4, 1),
            (16, 16, 1, 1),
        )
    ),
    # A value of each pixel is loaded for two vectors, where a block of 16 loads more than it multiplies.
    "pocl-3.1-avx512": tuple(
        _plain(*tile) for tile in ((64, 16, 7, 1), (32, 16, 7, 1), (32, 16, 4, 1), (32, 16, 8, 1))
    ),
    # Intel's driver; one vector a row takes 12 to 40 % more. Sums in 24 to 28 of the 32 registers use what is loaded
    # more often: in pairs with the last tile 0.8 to 0.95 of its time for convolutions whose channels fill the blocks;
    # so has PoCL, but not with 48 channels.
    "cpu-avx512": (*(_plain(*tile) for tile in _WIDEST), _plain(32, 16, 8, 1)),
}
# What integers are turned into floats in takes registers, of which AVX2 has 16: tiles of 12 sums take 1.7 to 2.6 times
# as long as one of ten.
INTEGER_DEFAULTS = {"pocl": tuple(_plain(*tile) for tile in ((16, 8, 5, 0), (8, 8, 8, 0), (8, 8, 1, 0)))}
# Of so many rows, which would read the weights as often one by one.
FEW_ROWS = tuple(_plain(64, 16, rows, 1) for rows in (2, 3))
# In multiply-adds of a vector: the loop of a column, and a pixel's address.
_LOOP, _ADDRESS = 0.5, 3
_AVX2_FLOATS = 8


def tile_grid(pixels: int, out_c: int, chosen: Variant) -> tuple[int, int]:
    """Counts the tiles of the output along pixels and channels, in the variant's order of the two."""
    tiles = ceil_div(pixels, chosen["PIXELS"]), ceil_div(out_c, chosen["BLOCK"])
    return tiles[::-1] if chosen.get("ORDER") else tiles


def tile_cost(pixels: int, out_c: int, run: int, chosen: Variant) -> float:
    """Estimates the time of one column of the product, in multiply-adds of a vector; tiles are rounded up.

    `run`: columns that follow each other in memory, after which each pixel has a new address.
    """
    tiles, blocks = ceil_div(pixels, chosen["PIXELS"]), ceil_div(out_c, chosen["BLOCK"])
    latency, value = _latency_and_value(chosen)
    step = max(chosen["PIXELS"] * chosen["BLOCK"] // chosen["VECTOR"], latency) + _LOOP
    step += chosen["PIXELS"] * (value + _ADDRESS / run)
    return tiles * blocks * step


def _latency_and_value(chosen: Variant) -> tuple[int, float]:
    """How many multiply-adds of a vector must be under way at a time, and what a pixel's value costs in them.

    AVX2 begins two a cycle, and loads each value by itself; AVX-512 only values that several vectors use.
    """
    if chosen["VECTOR"] == _AVX2_FLOATS:
        return 8, 0.2
    return 4, 0.1 if chosen["BLOCK"] > chosen["VECTOR"] else 0


def tile_constraint(pixels: int, out_c: int, chosen: Variant) -> str:
    """Says why a tile is too large for an output; empty where it fits.

    Half its pixels are empty, or a whole vector of the last block and more than a fifth of all that is computed.
    """
    if chosen["PIXELS"] >= 2 * pixels and chosen["PIXELS"] > 1:
        return f"a tile of {chosen['PIXELS']} pixels is too large for {pixels}"
    empty = -out_c % chosen["BLOCK"]
    if empty >= chosen["VECTOR"] and empty * 5 > out_c + empty:
        return f"a block of {chosen['BLOCK']} channels is too large for {out_c}"
    return ""
