"""Small plans written by hand: records in, plan file and data file out."""

import dataclasses
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.plan import records
from runtime.plan.container import StringTable, align, encode_container
from runtime.plan.records import NO_DATA, NONE_U32, PLAN_MAGIC, ArgKind, PoolKind, SectionId, StepFlag, StepKind
from runtime.types import ElementType, Precision, Role, Storage
from runtime.version import RUNTIME_VERSION

Floats = npt.NDArray[np.float32]
SOURCE_HASH = "0123456789abcdef"


@dataclasses.dataclass
class Arg:
    """A kernel argument."""

    kind: ArgKind
    value: int | float

    @property
    def bits(self) -> int:
        form = {ArgKind.FLOAT: "<f", ArgKind.INT: "<i"}.get(self.kind, "<I")
        return int(struct.unpack("<I", struct.pack(form, self.value))[0])


def pool(index: int) -> Arg:
    return Arg(ArgKind.POOL, index)


def image(index: int) -> Arg:
    return Arg(ArgKind.IMAGE, index)


def integer(value: int) -> Arg:
    return Arg(ArgKind.INT, value)


def number(value: float) -> Arg:
    return Arg(ArgKind.FLOAT, value)


class PlanBuilder:
    """Collects records; `files` writes them."""

    def __init__(self, model: str = "test", gpu_family: str = "pocl", precision: Precision = Precision.FP32) -> None:
        self.strings = StringTable()
        self.rows: dict[SectionId, list[dict[str, Any]]] = {section: [] for section in records.RECORDS}
        self.data = bytearray()
        self.meta = {
            "precision": precision,
            "model": self.strings.add(model),
            "gpu_family": self.strings.add(gpu_family),
            "source_hash": self.strings.add(SOURCE_HASH),
            "runtime_version": self.strings.add(RUNTIME_VERSION),
        }

    def add(self, section: SectionId, **fields: Any) -> int:
        self.rows[section].append(fields)
        return len(self.rows[section]) - 1

    def scratch(self, elements: int) -> int:
        return self.add(SectionId.POOL, kind=PoolKind.SCRATCH, size=elements * 4)

    def weights(self, values: npt.NDArray[Any], tail: int = 64) -> int:
        content = values.tobytes() + bytes(tail * values.itemsize)
        offset = self.append(content)
        return self.add(SectionId.POOL, kind=PoolKind.WEIGHTS, size=len(content), data_offset=offset)

    def append(self, content: bytes) -> int:
        offset = len(self.data)
        self.data += content + bytes(align(len(content)) - len(content))
        return offset

    def image(self, width: int, height: int, values: npt.NDArray[Any] | None = None) -> int:
        offset = NO_DATA if values is None else self.append(values.tobytes())
        return self.add(SectionId.IMAGE, width=width, height=height, format=0, data_offset=offset)

    def program(self, source: str, options: str = "", source_hash: str = "feed") -> int:
        add = self.strings.add
        fields = {"name": add("test.cl"), "source": add(source), "source_hash": add(source_hash)}
        return self.add(SectionId.PROGRAM, **fields, options=add(options))

    def step(
        self,
        kernel: str,
        args: Sequence[Arg],
        program: int | None = None,
        size: Sequence[int] = (1,),
        local: Sequence[int] = (),
        key: str = "",
        flags: int = StepFlag.SPLITTABLE,
        name: str = "",
    ) -> int:
        first = len(self.rows[SectionId.ARG])
        for arg in args:
            self.add(SectionId.ARG, kind=arg.kind, value=arg.bits)
        return self.add(
            SectionId.STEP,
            name=self.strings.add(name or kernel.split()[0]),
            op=self.strings.add("Test"),
            kernel=self.strings.add(kernel),
            tuning_key=self.strings.add(key),
            kind=StepKind.CPU if program is None else StepKind.OPENCL,
            program=NONE_U32 if program is None else program,
            first_arg=first,
            arg_count=len(args),
            flags=flags,
            work_dim=len(size),
            global_size=(*size, *[1] * (3 - len(size))),
            local_size=(*local, *[0] * (3 - len(local))),
        )

    def tensor(
        self, name: str, role: Role, place: int, shape: Sequence[int], offset: int = 0, step: int = NONE_U32
    ) -> int:
        return self.add(
            SectionId.TENSOR,
            name=self.strings.add(name),
            storage=Storage.FLAT,
            element_type=ElementType.F32,
            role=role,
            step=step,
            place=place,
            offset=offset,
            rank=len(shape),
            shape=(*shape, *[0] * (records.MAX_RANK - len(shape))),
        )

    def pack(self, step: int, arg: int, groups: int, rows: int, cols: int, block: int) -> int:
        return self.add(SectionId.PACK, step=step, arg=arg, groups=groups, rows=rows, cols=cols, block=block)

    def expect(self, step: int, check_step: int, tensor: int, values: Floats) -> int:
        offset = self.append(values.astype(np.float32).tobytes())
        return self.add(
            SectionId.EXPECT, data_offset=offset, count=values.size, step=step, check_step=check_step, tensor=tensor
        )

    def files(self) -> tuple[bytes, bytes]:
        """The plan file's bytes and the data file's."""
        data = bytes(self.data)
        rows = self.rows | {SectionId.META: [self.meta | {"data_size": len(data), "data_crc32": zlib.crc32(data)}]}
        sections = {section: table(section, made) for section, made in rows.items() if made}
        return encode_container(PLAN_MAGIC, sections | {SectionId.STRINGS: self.strings.section()}), data


def table(section: SectionId, rows: Sequence[dict[str, Any]]) -> npt.NDArray[Any]:
    """Records from dicts; members that are not named are zero."""
    made = np.zeros(len(rows), records.RECORDS[section])
    for row, fields in zip(made, rows, strict=True):
        for name, value in fields.items():
            row[name] = value
    return made


def packed(weights: Floats, block: int) -> Floats:
    """[group][row][col] -> [group][ceil(row/block)][col][block], zero-filled."""
    groups, rows, cols = weights.shape
    blocks = -(-rows // block)
    made = np.zeros((groups, blocks * block, cols), weights.dtype)
    made[:, :rows] = weights
    return np.ascontiguousarray(made.reshape(groups, blocks, block, cols).transpose(0, 1, 3, 2))
