"""What the kernel table says of a kernel: arguments, variants, constraints, work items.

A kernel is one OpenCL entry in one `.cl` file with one argument list; a *variant* is a set of `-D` options for it. So
the tuner may swap variants without touching arguments: only build options, global size and packing of weights change.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping

from runtime.target import Target, wider_family
from runtime.types import Precision

Dims = Mapping[str, int]
WorkItems = tuple[int, ...]
Defines = Mapping[str, int]

WINDOW = "k_h k_w stride_h stride_w pad_t:0 pad_l:0 dil_h dil_w"  # the ints of a sliding window
CPU_BLOCK = 16  # rows of a block of packed weights, for farmrt's CPU operators on NHWC
USER_TENSORS, USER_INTS, USER_FLOATS = 6, 80, 8  # the most arguments of a user's CPU operator
Range = tuple[int, int]
INT_RANGE: Range = (-(2**31), 2**31 - 1)
SIZE: Range = (1, INT_RANGE[1])  # of an int whose row says no other


def ranged_ints(words: str) -> dict[str, Range]:
    """Reads the declaration of a kernel's ints: the name and the range of each, in order.

    Blank-separated: `name` is at least 1, `name:0` at least 0, `name:any` any int, `name:2-5` from 2 to 5.
    """
    return {name: _range(form) for name, _, form in (word.partition(":") for word in words.split())}


def _range(form: str) -> Range:
    if form == "any":
        return INT_RANGE
    least, _, most = form.partition("-")
    return int(least or 1), int(most or INT_RANGE[1])


class ArgumentForm(enum.StrEnum):
    """How a tensor argument expands into kernel arguments.

    VIEW     pointer, element offset, pixel stride       (NHWC activations)
    FLAT     pointer, element offset
    WEIGHTS  pointer, element offset                     (constants; padded with at least 64 zeros)
    TABLE    pointer, offset in int32                    (indices, int32 or as pairs of these int64)
    ELEMENTS pointer, element offset                     (any element type)
    BYTES    pointer, offset in bytes                    (eight bits, or floats; farmrt's CPU alone)
    IMAGE    image2d_t
    """

    VIEW = "view"
    FLAT = "flat"
    WEIGHTS = "weights"
    TABLE = "table"
    ELEMENTS = "elements"
    BYTES = "bytes"
    IMAGE = "image"


class MemoryType(enum.StrEnum):
    """What activations lie in."""

    BUFFER = "buffer"
    IMAGE = "image"


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way to write a kernel: its `-D` options. Its name is made of them and stands in tuned records."""

    defines: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """`BLOCK16_PIXELS8_FMA1`, or `plain` without options."""
        return "_".join(f"{key}{value}" for key, value in self.defines) or "plain"

    def __getitem__(self, key: str) -> int:
        return dict(self.defines)[key]

    def get(self, key: str, default: int = 0) -> int:
        """Value of an option, or the default where the variant has none such."""
        return dict(self.defines).get(key, default)


def variant(**defines: int) -> Variant:
    """A variant from its options, in the given order."""
    return Variant(tuple(defines.items()))


def always_fits(dims: Dims, chosen: Variant, target: Target) -> str:
    """Accepts every launch: the constraint of a kernel that has none."""
    return ""


def needs_half(chosen: Variant, target: Target) -> str:
    """Says why a variant cannot run: one with runs of products (RUN, see prelude.cl) is for half arithmetic only."""
    if chosen.get("RUN") and not target.precision.computes_in_half:
        return f"runs of {chosen['RUN']} are for half arithmetic"
    return ""


def has_lanes(chosen: Variant) -> bool:
    """Whether the work items of a group share what it computes (LANES): any number of them gives the same."""
    return chosen.get("LANES", 1) > 1


def no_group(chosen: Variant) -> bool:
    """The rule of kernels whose work items may be grouped along all dimensions."""
    return False


def no_cost(dims: Dims, chosen: Variant) -> float:
    """Rates all variants alike: the cost of a kernel whose variants compute nothing in vain."""
    return 0.0


def no_macs(dims: Dims) -> int:
    """Multiply-accumulates of a kernel that does none."""
    return 0


# Families that take another's defaults where they have none of their own that fit: most kernels are as fast on Intel's
# driver for CPUs with what is best on PoCL 3.1.
_DEFAULTS_OF = {"cpu": "pocl-3.1"}
# The same in half arithmetic: Intel's driver calls a function for each fma of halves, and has an instruction for a*b+c,
# which is what those of older PoCL are written with.
_HALF_DEFAULTS_OF = {"cpu": "pocl"}
# Drivers that take the defaults of `avx512`: those with a fused multiply-add, on CPUs whose vectors have 16 floats.
_FUSING_AVX512 = ("pocl-3.1-avx512", "cpu-avx512")


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A row of the kernel table; compared and hashed by identity.

    Attributes:
        name: OpenCL entry point; also farmrt's CPU operator of the same argument list, where there is one.
        source: name of a file in runtime/kernels or in a room of runtime/families; no two have one name.
        operator: the operator's type in profiles (`Conv2D`).
        tensors: tensor arguments in order, with their form; outputs last.
        ints, floats: scalar arguments in order; the ints are the *dims* that variants, work items and costs depend on.
        ranges: what an int may be, both ends included, where it is not SIZE; farmrt's CPU refuses others.
        variants: all ways to write it; the tuner tries those that fit.
        defaults: GPU family (or a prefix of it up to a `-`; "" is any) -> variants used untuned: of the narrowest
            family that has some that fit, the one of least cost.
        work_items: logical global size for dims and a variant; the launch rounds it up to the local size.
        integer_defaults: the same where the weights are integers; families that are not in it have `defaults`.
        cost: relative work of a variant for dims, what it computes in vain included.
        fits: why a variant cannot run for these dims on this target; empty where it can.
        local_size: default local size of a variant; zeros leave it to the driver.
        block: packing of the weights for a variant, rows to a block; None where weights need no packing.
        macs: multiply-accumulates of a launch.
        splittable: right in work groups of any size, and enqueued in parts of whole groups.
        one_group: the first dimension of a variant is one work group, of any size.
        tunable: worth tuning.
        cpu: farmrt has a CPU operator of this name and argument list.
        integer_weights: its packed weights may be integers (layout/integer_rows.py).
        text: the source of a user's kernel, in place of a file of ours.
        local_limit: largest local size that the kernel can be launched with, for each axis; empty: any.
        picked: tensors of which a launch reads no more elements than it writes, however large they are.
    """

    name: str
    source: str
    operator: str
    memory: MemoryType
    tensors: tuple[tuple[str, ArgumentForm], ...]
    ints: tuple[str, ...]
    work_items: Callable[[Dims, Variant], WorkItems]
    floats: tuple[str, ...] = ()
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    variants: tuple[Variant, ...] = (Variant(),)
    defaults: Mapping[str, tuple[Variant, ...]] = dataclasses.field(default_factory=dict)
    integer_defaults: Mapping[str, tuple[Variant, ...]] = dataclasses.field(default_factory=dict)
    cost: Callable[[Dims, Variant], float] = no_cost
    fits: Callable[[Dims, Variant, Target], str] = always_fits
    local_size: Callable[[Dims, Variant, Target], WorkItems] | None = None
    block: Callable[[Variant], int] | None = None
    macs: Callable[[Dims], int] = no_macs
    splittable: bool = True
    one_group: Callable[[Variant], bool] = no_group
    tunable: bool = False
    cpu: bool = True
    integer_weights: bool = False
    text: str = ""
    local_limit: WorkItems = ()
    picked: tuple[str, ...] = ()

    def default_variant(self, dims: Dims, target: Target, in_integers: bool = False) -> Variant | None:
        """The cheapest fitting default of the GPU family, else the first variant that fits; None where none does."""
        table = {**self.defaults, **self.integer_defaults} if in_integers else self.defaults
        for defaults in _family_defaults(table, target.gpu_family, target.precision.computes_in_half):
            fitting = [variant for variant in defaults if not self.misfit(dims, variant, target)]
            if fitting:
                return min(fitting, key=lambda variant: self.cost(dims, variant))
        return next((variant for variant in self.variants if not self.misfit(dims, variant, target)), None)

    def misfit(self, dims: Dims, variant: Variant, target: Target) -> str:
        """Why a variant cannot run for these dims on this target, whose driver may refuse it; empty where it can."""
        if self.refused_name(variant, target.precision) in target.refused:
            return f"no variant of {self.name} on {self.memory}s works with this driver"
        return self.fits(dims, variant, target)

    def refused_name(self, variant: Variant, precision: Precision) -> str:
        """How `Target.refused` names a variant."""
        return f"{self.name} {self.memory} {precision.label} {variant.name}"


def _family_defaults(
    table: Mapping[str, tuple[Variant, ...]], family: str, in_half: bool
) -> Iterator[tuple[Variant, ...]]:
    """Defaults of the family, of the wider ones around it, of the one whose defaults it shares, and of any, in this
    order; in half arithmetic perhaps only the latter two."""
    wider = wider_family(family)
    is_other = in_half and wider in _HALF_DEFAULTS_OF
    families = [] if is_other else _around(family)
    families += _around((_HALF_DEFAULTS_OF if is_other else _DEFAULTS_OF).get(wider, ""))
    yield from (table[each] for each in (*families, "") if each in table)


def _around(family: str) -> list[str]:
    """A family and the wider ones: `pocl-3.1-avx512`, `avx512`, `pocl-3.1`, `pocl`; nothing for none."""
    parts = family.split("-") if family else []
    wider = ["-".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return [family, "avx512", *wider[1:]] if family in _FUSING_AVX512 else wider


def within_local_limit(target: Target, limit: WorkItems) -> Target:
    """The target as a kernel may use it that has a limit on its local sizes; an axis without one is not limited."""
    a, b, c = target.max_work_item_sizes
    x, y, z = (*limit, *(a, b, c)[len(limit) :])
    return dataclasses.replace(target, max_work_item_sizes=(min(a, x), min(b, y), min(c, z)))


def ceil_div(value: int, divisor: int) -> int:
    """Quotient rounded up."""
    return -(-value // divisor)
