"""A plan in memory: what a target executes, step by step, and what a person wants to know of each step."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from runtime.kernels.spec import Kernel, Variant
from runtime.layout.storage import TensorStorage
from runtime.plan.container import align
from runtime.plan.plan_data import PlanData
from runtime.plan.records import ArgKind, PoolKind, StepFlag, StepKind
from runtime.semantics.quantization import Quantization
from runtime.target import Target
from runtime.types import ELEMENT_BYTES, ElementType, ImageFormat, Precision, Role, Storage

Size3 = tuple[int, int, int]
PIXEL_BYTES = {ImageFormat.FLOAT: 16, ImageFormat.HALF: 8, ImageFormat.BYTES: 4}
IMAGE_FORMATS = {
    ElementType.F32: ImageFormat.FLOAT,
    ElementType.F16: ImageFormat.HALF,
    ElementType.I8: ImageFormat.BYTES,
}


@dataclasses.dataclass(frozen=True)
class Arg:
    """One kernel argument: the index of a pool or image, a number, or a size of local memory in bytes."""

    kind: ArgKind
    value: int | float


@dataclasses.dataclass(frozen=True)
class Pool:
    """One memory object of `size` bytes; a pool of weights holds what the data file has from `data_offset` on."""

    kind: PoolKind
    size: int
    data_offset: int = 0


@dataclasses.dataclass(frozen=True)
class Image:
    """A 2D RGBA image of width x height pixels; one of weights has its content at `data_offset` of the data file."""

    width: int
    height: int
    format: ImageFormat
    data_offset: int | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes in the data file, where that is aligned."""
        return align(self.width * self.height * PIXEL_BYTES[self.format])


@dataclasses.dataclass(frozen=True)
class WeightPacking:
    """How the weights behind a pool argument are packed, so that another block size can be made of them."""

    arg: int
    groups: int
    rows: int
    cols: int
    block: int


@dataclasses.dataclass(frozen=True)
class ProfileInfo:
    """What profiles print of an operator, in origin order; empty where it does not apply."""

    output_shape: tuple[int, ...] = ()
    filter_shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    pad: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()


_ELEMENT_FLAGS = {ElementType.F32: StepFlag.FLOAT, ElementType.F16: StepFlag.HALF}


@dataclasses.dataclass(frozen=True)
class Step:
    """One launch or CPU operator.

    Attributes:
        name: the operator's name in the model; a conversion is named after its tensor.
        op: type shown to people (`Conv2D`).
        dims: the kernel's integer arguments by name.
        defines: build options that the operator asks (ACTIVATION, ...), beside the variant's.
        local_size: zeros leave it to the driver.
        note: why it is on the CPU, or what is converted; empty otherwise.
        precision: storage and arithmetic of its program; None: those of the plan.
        element: element type of what it writes, and of its weights; None: that of the plan.
    """

    name: str
    op: str
    kernel: Kernel
    kind: StepKind
    variant: Variant
    defines: Mapping[str, int]
    dims: Mapping[str, int]
    args: tuple[Arg, ...]
    work_dim: int
    global_size: Size3
    local_size: Size3
    tuning_key: str
    macs: int
    packs: tuple[WeightPacking, ...] = ()
    shown: ProfileInfo = ProfileInfo()
    note: str = ""
    precision: Precision | None = None
    element: ElementType | None = None

    @property
    def flags(self) -> StepFlag:
        """The flags of the step's record."""
        flags = StepFlag.SPLITTABLE if self.kernel.splittable else StepFlag(0)
        flags |= StepFlag.ONE_GROUP if self.kernel.one_group(self.variant) else StepFlag(0)
        flags |= _ELEMENT_FLAGS.get(self.element, StepFlag(0)) if self.element is not None else StepFlag(0)
        flags |= StepFlag.WORDS if self.packs and "WEIGHT_BITS" in self.defines else StepFlag(0)
        return flags | StepFlag.TUNABLE if self.tuning_key else flags


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Where a tensor of the plan lies. `place` is the index of its pool or image, `offset` counts elements.

    `quantization`: what its integers stand for, where that is known.
    """

    name: str
    role: Role
    storage: Storage
    element_type: ElementType
    shape: tuple[int, ...]
    place: int
    offset: int
    stride: int
    step: int | None
    quantization: Quantization | None = None


class ContentKind(enum.StrEnum):
    """What a tensor is to its plan."""

    INPUT = "input"
    OUTPUT = "output"
    ACTIVATION = "activation"
    WEIGHTS = "weights"
    SCRATCH = "scratch"


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor of a plan in one storage; intermediate ones, weights and working memory have one, too.

    Attributes:
        memory: `buffer`, `image` or `cpu`.
        part_of: whose memory it lies in; empty where it has its own.
        written_by: steps that write it, by index; inputs and weights have none.
        read_by: steps that read it.
        quantization: what its integers stand for, where that is known.
    """

    name: str
    kind: ContentKind
    storage: TensorStorage
    element_type: ElementType
    memory: str
    part_of: str = ""
    written_by: tuple[int, ...] = ()
    read_by: tuple[int, ...] = ()
    quantization: Quantization | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes in memory, padding included; where it is a part, what it would take alone."""
        return self.storage.elements * ELEMENT_BYTES[self.element_type]

    @property
    def padding_bytes(self) -> int:
        """Bytes in memory that hold no element of the tensor."""
        return self.storage.padding * ELEMENT_BYTES[self.element_type]


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What a trial of `step` must give: after the steps up to `check_step`, tensor number `tensor` is compared.

    It must hold the `count` floats that the data file has at `data_offset`.
    """

    step: int
    check_step: int
    tensor: int
    data_offset: int
    count: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """A graph lowered to one target. `data` is the content of the data file.

    `peak_bytes` is what the activations take after sharing memory by lifetime, `sum_bytes` what they would without.
    `contents` has every tensor in every storage that a step uses, `precisions` those of its operators, in order (the
    target's, or of a mixed plan several, of which the target has the last); plan files do not hold these.
    """

    model: str
    target: Target
    pools: tuple[Pool, ...]
    images: tuple[Image, ...]
    steps: tuple[Step, ...]
    tensors: tuple[Tensor, ...]
    data: PlanData
    peak_bytes: int
    sum_bytes: int
    expectations: tuple[Expectation, ...] = ()
    contents: tuple[StoredTensor, ...] = ()
    precisions: tuple[Precision, ...] = ()

    @property
    def inputs(self) -> list[Tensor]:
        """Tensors that the user writes, float32, row-major in origin order."""
        return [tensor for tensor in self.tensors if tensor.role == Role.INPUT]

    @property
    def outputs(self) -> list[Tensor]:
        """Tensors that the user reads, float32, row-major in origin order."""
        return [tensor for tensor in self.tensors if tensor.role == Role.OUTPUT]

    @property
    def constants(self) -> list[tuple[int, int]]:
        """Offset and bytes of each pool and image of weights in the data file; other plans may use the rest of it."""
        pools = [(pool.data_offset, pool.size) for pool in self.pools if pool.kind == PoolKind.WEIGHTS]
        return pools + [(each.data_offset, each.size_bytes) for each in self.images if each.data_offset is not None]

    @property
    def weights_bytes(self) -> int:
        """Bytes of constants."""
        return sum(size for _, size in self.constants)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run."""
        return sum(step.macs for step in self.steps)
