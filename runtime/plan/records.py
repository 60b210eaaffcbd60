"""Record layouts of every binary file, as NumPy structured dtypes; the C header is generated from them (header.py).

A file is a HEADER, then SECTION entries, then the bytes of the sections, each aligned to 64. All is little-endian.
A string is a `u4` offset into the file's STRINGS section of NUL-terminated UTF-8; offset 0 is the empty string.

Four kinds of file:

    plan      FARMPLAN   META POOL IMAGE PROGRAM STEP ARG TENSOR PACK EXPECT QUANTIZATION STRINGS
    tuned     FARMTUNE   SET TUNED STRINGS               the tuned parameters, a set for each fingerprint
    kernels   FARMKERN   SET BINARY BLOB STRINGS         compiled programs, a set for each fingerprint
    data      (none)     blobs at 64-byte aligned offsets; its size and CRC-32 stand in the plan's META
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

FORMAT_VERSION = 1
ALIGNMENT_BYTES = 64
NONE_U32 = 0xFFFFFFFF
NO_DATA = 0xFFFFFFFFFFFFFFFF
MAX_RANK = 6

PLAN_MAGIC = b"FARMPLAN"
TUNED_MAGIC = b"FARMTUNE"
KERNELS_MAGIC = b"FARMKERN"


class SectionId(enum.IntEnum):
    """What a section holds."""

    STRINGS = 1
    META = 2
    POOL = 3
    IMAGE = 4
    PROGRAM = 5
    STEP = 6
    ARG = 7
    TENSOR = 8
    PACK = 9
    EXPECT = 10
    SET = 11
    TUNED = 12
    BINARY = 13
    BLOB = 14
    QUANTIZATION = 15


class PoolKind(enum.IntEnum):
    """A pool is one memory object on the device."""

    SCRATCH = 0
    WEIGHTS = 1


class StepKind(enum.IntEnum):
    """Who executes a step."""

    OPENCL = 0
    CPU = 1


class ArgKind(enum.IntEnum):
    """What an ARG's value is: an index of a pool or image, the bits of a number, or a size of local memory in bytes."""

    POOL = 0
    IMAGE = 1
    INT = 2
    FLOAT = 3
    LOCAL = 4


class StepFlag(enum.IntFlag):
    """Properties of a step."""

    SPLITTABLE = 1  # right in any work group, and in parts with a global offset
    TUNABLE = 2
    FLOAT = 4  # what the step writes, and its weights, are float, whatever the plan's precision
    HALF = 8  # ... are half
    ONE_GROUP = 32  # its first dimension is one work group, of any size: one that is smaller has a smaller global size
    WORDS = 16  # its packed weights are of four bytes, whatever it writes


def _record(*fields: tuple[Any, ...]) -> np.dtype[Any]:
    dtype = np.dtype(list(fields))
    if dtype.itemsize % 8:
        raise ValueError(f"record of {dtype.itemsize} bytes: pad it to a multiple of 8")
    return dtype


# crc32 covers the header before it and everything after it.
HEADER = _record(
    ("magic", "S8"),
    ("version", "<u4"),
    ("section_count", "<u4"),
    ("file_size", "<u8"),
    ("reserved", "<u4"),
    ("crc32", "<u4"),
)
SECTION = _record(("id", "<u4"), ("record_size", "<u4"), ("count", "<u8"), ("offset", "<u8"))

META = _record(
    ("data_size", "<u8"),
    ("data_crc32", "<u4"),
    ("precision", "<u4"),
    ("model", "<u4"),  # string
    ("gpu_family", "<u4"),  # string
    ("source_hash", "<u4"),  # string: hash of all kernel sources
    ("runtime_version", "<u4"),  # string
)
POOL = _record(("kind", "<u4"), ("reserved", "<u4"), ("size", "<u8"), ("data_offset", "<u8"))
IMAGE = _record(("width", "<u4"), ("height", "<u4"), ("format", "<u4"), ("reserved", "<u4"), ("data_offset", "<u8"))
PROGRAM = _record(
    ("name", "<u4"),  # string
    ("source", "<u4"),  # string
    ("source_hash", "<u4"),  # string; "<source_hash>|<options>" is the key of a compiled program
    ("options", "<u4"),  # string
)
STEP = _record(
    ("macs", "<u8"),
    ("name", "<u4"),  # string: the operator's name in the model
    ("op", "<u4"),  # string: the operator's type
    ("kernel", "<u4"),  # string: OpenCL kernel, or CPU operator
    ("tuning_key", "<u4"),  # string, empty where nothing can be tuned
    ("kind", "<u4"),
    ("program", "<u4"),  # index, NONE_U32 for a CPU step
    ("first_arg", "<u4"),
    ("arg_count", "<u4"),
    ("flags", "<u4"),
    ("work_dim", "<u4"),
    ("global_size", "<u4", (3,)),
    ("local_size", "<u4", (3,)),  # 0, 0, 0: the driver chooses
)
ARG = _record(("kind", "<u4"), ("value", "<u4"))
TENSOR = _record(
    ("offset", "<u8"),  # elements from the start of the pool
    ("name", "<u4"),  # string
    ("storage", "<u4"),
    ("element_type", "<u4"),
    ("role", "<u4"),
    ("step", "<u4"),  # the step that writes it, NONE_U32 for an input
    ("place", "<u4"),  # index of its pool, or of its image
    ("stride", "<u4"),  # NHWC: elements from pixel to pixel; else 0
    ("rank", "<u4"),
    ("shape", "<u4", (MAX_RANK,)),  # origin order
)
# Weights packed [group][ceil(rows/block)][col][block], zero-filled; a tuned entry may ask for another block.
PACK = _record(
    ("step", "<u4"),
    ("arg", "<u4"),  # position of the pool argument in the step; the element offset is the argument after it
    ("groups", "<u4"),
    ("rows", "<u4"),
    ("cols", "<u4"),
    ("block", "<u4"),
)
# For trials: after `step`, run the steps behind it up to and with `check_step`, then compare `tensor` (FLAT F32) with
# `count` floats in the data file.
EXPECT = _record(
    ("data_offset", "<u8"),
    ("count", "<u8"),
    ("step", "<u4"),
    ("check_step", "<u4"),
    ("tensor", "<u4"),
    ("reserved", "<u4"),
)

# What the integers of an input or output stand for: scale * (element - zero_point). One record, or one for each index
# of an axis, in order; plans without such tensors lack the section.
QUANTIZATION = _record(
    ("zero_point", "<i8"),
    ("scale", "<f4"),
    ("tensor", "<u4"),  # index
    ("axis", "<u4"),  # NONE_U32: the record is for all elements
    ("reserved", "<u4"),
)

# A fingerprint, and the entries that are valid for it. All strings.
SET = _record(
    ("soc", "<u4"),
    ("gpu", "<u4"),
    ("driver", "<u4"),
    ("opencl", "<u4"),
    ("gpu_family", "<u4"),
    ("source_hash", "<u4"),
    ("runtime_version", "<u4"),
    ("device_model", "<u4"),
    ("first_entry", "<u4"),
    ("entry_count", "<u4"),
)
TUNED = _record(
    ("default_ns", "<u8"),
    ("tuned_ns", "<u8"),
    ("key", "<u4"),  # string: STEP.tuning_key
    ("kernel", "<u4"),  # string
    ("options", "<u4"),  # string: build options of the chosen variant
    ("block", "<u4"),  # weights' packing; 0: as in the plan
    ("work_dim", "<u4"),
    ("reserved", "<u4"),
    ("global_size", "<u4", (3,)),
    ("local_size", "<u4", (3,)),
)
BINARY = _record(("offset", "<u8"), ("size", "<u8"), ("key", "<u4"), ("reserved", "<u4"))

RECORDS: dict[SectionId, np.dtype[Any]] = {
    SectionId.STRINGS: np.dtype("u1"),
    SectionId.META: META,
    SectionId.POOL: POOL,
    SectionId.IMAGE: IMAGE,
    SectionId.PROGRAM: PROGRAM,
    SectionId.STEP: STEP,
    SectionId.ARG: ARG,
    SectionId.TENSOR: TENSOR,
    SectionId.PACK: PACK,
    SectionId.EXPECT: EXPECT,
    SectionId.QUANTIZATION: QUANTIZATION,
    SectionId.SET: SET,
    SectionId.TUNED: TUNED,
    SectionId.BINARY: BINARY,
    SectionId.BLOB: np.dtype("u1"),
}
