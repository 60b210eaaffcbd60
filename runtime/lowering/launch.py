"""A launch: a step of a plan before its tensors have places in memory, and what it is made of."""

import dataclasses
from collections.abc import Mapping

from runtime.graph import Array
from runtime.kernels.spec import ArgumentForm, Kernel, Variant
from runtime.layout.integer_rows import IntegerRows
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.plan.records import StepKind
from runtime.types import ElementType, Precision, Storage


@dataclasses.dataclass(frozen=True)
class Rows:
    """Weights [groups, rows, cols] that a launch packs in blocks of rows as its variant asks.

    `integers`: the same as such, where they are known; else they are looked for.
    """

    name: str
    weights: Array
    integers: IntegerRows | None = None


Tensors = dict[str, Value | Rows]


@dataclasses.dataclass(frozen=True)
class LaunchPacking:
    """How a launch's weights are packed: the tensor argument that holds them, their shape, and the rows of a block."""

    argument: str
    groups: int
    rows: int
    cols: int
    block: int


@dataclasses.dataclass(frozen=True)
class Launch:
    """A step of a plan whose tensors have no place in memory yet.

    `precision`: storage and arithmetic of its program; a conversion between two has that with half.
    """

    name: str
    op: str
    kernel: Kernel
    kind: StepKind
    variant: Variant
    defines: Mapping[str, int]
    dims: Mapping[str, int]
    floats: tuple[float, ...]
    tensors: tuple[tuple[Value, ArgumentForm], ...]
    packed: tuple[LaunchPacking, ...]
    macs: int
    shown: ProfileInfo
    note: str
    tuning_key: str
    precision: Precision

    @property
    def output(self) -> Value:
        """The value that the launch writes: its last tensor argument."""
        return self.tensors[-1][0]


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A tensor that was brought into another storage, element type, or both, and the launch that did it.

    `storage`: None for an output of the plan.
    """

    tensor: str
    source: Storage
    storage: Storage | None
    element: ElementType
    launch: Launch
