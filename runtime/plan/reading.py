"""Reads a plan file back as far as it describes itself: steps, and the storage of what it knows the shape of.

Intermediate buffers have no record of their own; the executors only need where a step's arguments lie.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runtime.errors import FormatError
from runtime.layout.image import LANES, ImageLayout
from runtime.layout.storage import NHWC, ROW_MAJOR, StorageFormat, TensorStorage, of_image, rows_in_blocks
from runtime.plan.container import Sections, read_file, string_reader
from runtime.plan.plan import IMAGE_FORMATS, ContentKind, Image, StoredTensor
from runtime.plan.records import (
    MAX_RANK,
    NO_DATA,
    NONE_U32,
    PLAN_MAGIC,
    RECORDS,
    ArgKind,
    PoolKind,
    SectionId,
    StepFlag,
    StepKind,
)
from runtime.semantics.quantization import Quantization
from runtime.types import ELEMENT_NAMES, ElementType, ImageFormat, Origin, OriginFormat, Precision, Role, Storage

PIXELS = StorageFormat("pixels")  # an image of which a plan file does not tell the layout
_FORMATS = {Storage.FLAT: ROW_MAJOR, Storage.NHWC: NHWC, Storage.IMAGE: of_image(ImageLayout.CHANNEL_MAJOR)}
_PRECISION = re.compile(r"-DPRECISION=(\d+)")
_ELEMENTS = {StepFlag.FLOAT: ElementType.F32, StepFlag.HALF: ElementType.F16}
_KINDS = {Role.INPUT: ContentKind.INPUT, Role.OUTPUT: ContentKind.OUTPUT}


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """A step of a file.

    `operands`: its memory arguments, the written one last, as kind, index and element offset. `element`: of floats that
    it writes, and of its weights, where it says so. `precision`: of its OpenCL program. `in_words`: its weights are
    integers.
    """

    name: str
    op: str
    kernel: str
    kind: StepKind
    macs: int
    operands: tuple[tuple[ArgKind, int, int], ...]
    element: ElementType | None = None
    precision: Precision | None = None
    in_words: bool = False


@dataclasses.dataclass(frozen=True)
class ReadPlan:
    """What a plan file tells: its tensors are inputs, outputs, images and packed weights."""

    model: str
    precision: Precision
    gpu_family: str
    runtime_version: str
    steps: tuple[StepRecord, ...]
    tensors: tuple[StoredTensor, ...]
    weights_bytes: int
    activations_bytes: int
    quantizations: Mapping[str, Quantization] = dataclasses.field(default_factory=dict)

    @property
    def uses_gpu(self) -> bool:
        """Whether any step needs OpenCL."""
        return any(step.kind == StepKind.OPENCL for step in self.steps)


def read_plan_file(path: Path) -> ReadPlan:
    """Reads a plan file; ConfigError if it cannot be read, FormatError, which names it, if it is damaged."""
    sections = read_file(path, PLAN_MAGIC)
    try:
        return _plan(sections)
    except (KeyError, IndexError, ValueError) as error:
        raise FormatError(f"{path}: damaged: {error}; write it again with `farm convert`") from None


def _plan(sections: Sections) -> ReadPlan:
    string, meta = string_reader(sections), sections[SectionId.META][0]
    steps = tuple(_step(row, sections, string) for row in sections[SectionId.STEP])
    element = Precision(int(meta["precision"])).element
    memory = "buffer" if any(step.kind == StepKind.OPENCL for step in steps) else "cpu"
    tensors = (
        *(_tensor(row, string, steps, memory) for row in sections[SectionId.TENSOR]),
        *(_image(index, row, steps) for index, row in enumerate(sections[SectionId.IMAGE])),
        *(_packed(row, steps, element, memory) for row in sections[SectionId.PACK]),
    )
    return ReadPlan(
        model=string(int(meta["model"])),
        precision=Precision(int(meta["precision"])),
        gpu_family=string(int(meta["gpu_family"])),
        runtime_version=string(int(meta["runtime_version"])),
        steps=steps,
        tensors=tensors,
        weights_bytes=_weights_bytes(sections),
        activations_bytes=_scratch_bytes(sections, tensors),
        quantizations=dict(_quantizations(sections, string)),
    )


def _quantizations(sections: Sections, string: Any) -> Iterator[tuple[str, Quantization]]:
    """What the integers of inputs and outputs stand for, by name; files of a version before say nothing of it."""
    rows = sections.get(SectionId.QUANTIZATION, np.zeros(0, RECORDS[SectionId.QUANTIZATION]))
    for index in dict.fromkeys(rows["tensor"].tolist()):
        own, tensor = rows[rows["tensor"] == index], sections[SectionId.TENSOR][index]
        axis = None if own["axis"][0] == NONE_U32 else int(own["axis"][0])
        numbers = tuple(own["scale"].tolist()), tuple(own["zero_point"].tolist())
        name, element = string(int(tensor["name"])), ElementType(int(tensor["element_type"]))
        yield name, Quantization(*numbers, axis, ELEMENT_NAMES[element])


def _weights_bytes(sections: Sections) -> int:
    """Bytes of what this plan uses of its data file, which others may share."""
    pools = (int(row["size"]) for row in sections[SectionId.POOL] if row["kind"] == PoolKind.WEIGHTS)
    stored = (row for row in sections[SectionId.IMAGE] if row["data_offset"] != NO_DATA)
    images = (Image(int(row["width"]), int(row["height"]), ImageFormat(int(row["format"]))) for row in stored)
    return sum(pools) + sum(image.size_bytes for image in images)


def _scratch_bytes(sections: Sections, tensors: tuple[StoredTensor, ...]) -> int:
    pools = sum(int(row["size"]) for row in sections[SectionId.POOL] if row["kind"] == PoolKind.SCRATCH)
    return pools + sum(tensor.size_bytes for tensor in tensors if tensor.kind == ContentKind.SCRATCH)


def _step(row: Any, sections: Sections, string: Any) -> StepRecord:
    first, count = int(row["first_arg"]), int(row["arg_count"])
    args = [(int(arg["kind"]), int(arg["value"])) for arg in sections[SectionId.ARG][first : first + count]]
    if len(args) != count:
        raise ValueError(f"arguments {first} to {first + count} of {len(sections[SectionId.ARG])}")
    name, op, kernel = (string(int(row[field])) for field in ("name", "op", "kernel"))
    element = next((kind for flag, kind in _ELEMENTS.items() if int(row["flags"]) & flag), None)
    kind, macs, precision = StepKind(int(row["kind"])), int(row["macs"]), _precision(row, sections, string)
    in_words = bool(int(row["flags"]) & StepFlag.WORDS)
    return StepRecord(name, op, kernel, kind, macs, tuple(_operands(args)), element, precision, in_words)


def _precision(row: Any, sections: Sections, string: Any) -> Precision | None:
    if row["kind"] != StepKind.OPENCL:
        return None
    options = string(int(sections[SectionId.PROGRAM][int(row["program"])]["options"]))
    found = _PRECISION.search(options)
    return Precision(int(found[1])) if found else None


def _operands(args: list[tuple[int, int]]) -> Iterator[tuple[ArgKind, int, int]]:
    """The memory arguments of a step; a pool's element offset is the argument behind it."""
    for (kind, value), (_, following) in zip(args, [*args[1:], (0, 0)], strict=True):
        if kind in (ArgKind.POOL, ArgKind.IMAGE):
            yield ArgKind(kind), value, following if kind == ArgKind.POOL else 0


def _uses(steps: tuple[StepRecord, ...], operand: tuple[ArgKind, int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which steps write and which read an operand."""
    written = tuple(index for index, step in enumerate(steps) if step.operands[-1:] == (operand,))
    read = tuple(index for index, step in enumerate(steps) if operand in step.operands[:-1])
    return written, read


def _tensor(row: Any, string: Any, steps: tuple[StepRecord, ...], memory: str) -> StoredTensor:
    rank = int(row["rank"])
    if rank > MAX_RANK:
        raise ValueError(f"a tensor of {rank} axes")
    if row["step"] != NONE_U32 and row["step"] >= len(steps):
        raise ValueError(f"a tensor of step {row['step']} of {len(steps)}")
    storage, element = _FORMATS[Storage(int(row["storage"]))], ElementType(int(row["element_type"]))
    origin = Origin(OriginFormat.ND, tuple(int(size) for size in row["shape"][:rank]))
    uses = _uses(steps, (ArgKind.POOL, int(row["place"]), int(row["offset"])))
    kind = _KINDS.get(Role(int(row["role"])), ContentKind.ACTIVATION)
    return StoredTensor(string(int(row["name"])), kind, TensorStorage(origin, storage), element, memory, "", *uses)


def _image(index: int, row: Any, steps: tuple[StepRecord, ...]) -> StoredTensor:
    element = next(element for element, form in IMAGE_FORMATS.items() if form == row["format"])
    origin = Origin(OriginFormat.ND, (int(row["height"]), int(row["width"]), LANES))
    kind = ContentKind.SCRATCH if row["data_offset"] == NO_DATA else ContentKind.WEIGHTS
    uses = _uses(steps, (ArgKind.IMAGE, index, 0))
    return StoredTensor(f"image {index}", kind, TensorStorage(origin, PIXELS), element, "image", "", *uses)


def _packed(row: Any, steps: tuple[StepRecord, ...], element: ElementType, memory: str) -> StoredTensor:
    step, block = int(row["step"]), int(row["block"])
    if step >= len(steps) or not block:
        raise ValueError(f"weights of step {step} of {len(steps)} in blocks of {block}")
    own = ElementType.I32 if steps[step].in_words else steps[step].element
    element = element if own is None else own
    origin = Origin(OriginFormat.ND, (int(row["groups"]), int(row["rows"]), int(row["cols"])))
    storage = TensorStorage(origin, rows_in_blocks(block))
    return StoredTensor(f"{steps[step].name}:weights", ContentKind.WEIGHTS, storage, element, memory, "", (), (step,))
