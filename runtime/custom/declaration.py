"""What a user writes of an operator; docs/custom-operators.md shows one, and `farm.operators` offers these names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from runtime.graph import Array
from runtime.kernels.spec import Defines, Dims, MemoryType, Variant, WorkItems
from runtime.operators.row import AttributeKind
from runtime.target import Target

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]  # of the inputs; None for an optional one that is absent
Given = Sequence[Any]  # the same, or arrays, as users' functions get them: without a type, so that they need no casts
Attributes = Mapping[str, Any]
Numbers = Mapping[str, int | float]
DataFormat = Literal["fixed", "transposable", "source"]


@dataclasses.dataclass(frozen=True)
class InputDeclaration:
    """An input.

    Attributes:
        name: how kernels and C functions name it.
        dtype: NumPy's name of its element type.
        optional: a model may leave it out; those that may come last.
        constant: its value must be known at conversion, as weights are.
        low, high: where noise for it lies when the operator is tried alone.
    """

    name: str
    dtype: str = "float32"
    optional: bool = False
    constant: bool = False
    low: float = -1.0
    high: float = 1.0


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute: its kind (int, count, float, bool, ints, floats, or a tuple of words), and what it is if absent."""

    kind: AttributeKind
    default: Any = None


@dataclasses.dataclass(frozen=True)
class CaseDeclaration:
    """A size on which the operator is checked and timed; an absent optional input is None."""

    shapes: Shapes
    attributes: Attributes = dataclasses.field(default_factory=dict)


def no_numbers(shapes: Shapes, output: Shape, attributes: Attributes) -> Numbers:
    """The arguments of a kernel that takes none beside its tensors."""
    return {}


def no_defines(shapes: Shapes, attributes: Attributes) -> Defines:
    """The build options of a kernel that has none beside its variant's."""
    return {}


@dataclasses.dataclass(frozen=True)
class OpenCLKernel:
    """A kernel that computes the operator.

    Attributes:
        source: the .cl file, beside the module.
        entry: the kernel's name in it.
        tensors: its tensor arguments, `x:flat y:view`: the inputs' names and last the output, `y`, each with a form
            (runtime.kernels.spec.ArgumentForm).
        ints, floats: names of its numbers, which follow the tensors in this order.
        arguments: input shapes, output shape and attributes -> value of each number.
        work_items: the ints and a variant -> global size, one to three extents; the launch may round them up.
        variants: sets of build options to choose from; the first is the default.
        defaults: GPU family (`adreno-6xx`, or `adreno`) -> its default variant.
        defines: build options that the attributes ask for.
        fits: why a variant cannot run these ints on a target, empty where it can.
        local_limit: largest local size on each axis; empty: any.
        memory: `buffer` or `image`, whatever its tensors lie in.
        splittable: it uses global ids only, so that a launch may be enqueued in parts and in smaller groups.
    """

    source: str
    entry: str
    tensors: str
    work_items: Callable[[Dims, Variant], WorkItems]
    ints: str = ""
    floats: str = ""
    arguments: Callable[[Given, Shape, Attributes], Numbers] = no_numbers
    variants: tuple[Variant, ...] = (Variant(),)
    defaults: Mapping[str, Variant] = dataclasses.field(default_factory=dict)
    defines: Callable[[Given, Attributes], Defines] = no_defines
    fits: Callable[[Dims, Variant, Target], str] | None = None
    local_limit: WorkItems = ()
    memory: str = MemoryType.BUFFER
    splittable: bool = True


@dataclasses.dataclass(frozen=True)
class CFunction:
    """A C function that computes the operator on CPUs.

    It is given a pointer for each input (NULL for one that is absent) and for the output, row-major; then the ints, as
    int32_t, and the floats; then, as int64_t, the first and the end of the items that this call computes.

    Attributes:
        source: the .c file, beside the module.
        function: the function's name in it.
        ints, floats, arguments: as of a kernel.
        items: input shapes, output shape and attributes -> into how many items the work may be divided among threads;
            None: it is not divided, and the function is called once with the items from 0 to 1.
    """

    source: str
    function: str
    ints: str = ""
    floats: str = ""
    arguments: Callable[[Given, Shape, Attributes], Numbers] = no_numbers
    items: Callable[[Given, Shape, Attributes], int] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class OperatorDeclaration:
    """An operator of a domain of one's own, with one output.

    Attributes:
        domain, name: as nodes in ONNX files have them.
        inputs: a text is an input of that name with all else as it usually is.
        shape: input shapes and attributes -> the output's shape; it raises ValueError for inputs that do not fit.
        reference: the inputs as arrays (None for an absent one) and attributes -> the output, in NumPy.
        attributes: by name; one without a default must be in every node.
        output_type: element type of the output; empty: the first input's.
        kernels: one for buffers, one for images, or none.
        c: the same for CPUs, or None.
        macs: input shapes and output shape -> multiply-accumulates; None: none worth counting.
        data_format: what the meaning of its axes is: `source` (what the model says), `fixed` (images in NCHW) or
            `transposable` (it works along axes that may be in another order).
        cases: on which it is checked and timed.
    """

    domain: str
    name: str
    inputs: Sequence[InputDeclaration | str]
    shape: Callable[[Given, Attributes], Sequence[int]]
    reference: Callable[[Given, Attributes], Array]
    attributes: Mapping[str, Attribute] = dataclasses.field(default_factory=dict)
    output_type: str = ""
    kernels: Sequence[OpenCLKernel] = ()
    c: CFunction | None = None
    macs: Callable[[Given, Shape], int] | None = None
    data_format: DataFormat = "source"
    cases: Sequence[CaseDeclaration] = ()
