"""Executes a plan file with pyopencl; farmrt must agree with it on every plan."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyopencl as cl

from runtime.errors import FormatError, UnsupportedError
from runtime.graph import Array
from runtime.plan.container import Sections, decode_container, string_reader
from runtime.plan.plan_data import PlanData
from runtime.plan.records import NO_DATA, PLAN_MAGIC, ArgKind, PoolKind, SectionId, StepKind
from runtime.types import ELEMENT_NAMES, ElementType, ImageFormat, Role

_PIXELS: dict[ImageFormat, tuple[Any, np.dtype[Any]]] = {
    ImageFormat.FLOAT: (cl.channel_type.FLOAT, np.dtype(np.float32)),
    ImageFormat.HALF: (cl.channel_type.HALF_FLOAT, np.dtype(np.float16)),
    ImageFormat.BYTES: (cl.channel_type.SIGNED_INT8, np.dtype(np.int8)),
}


class Executor:
    """A loaded plan on one OpenCL device.

    Raises:
        FormatError: the plan is damaged, or the data is not the plan's.
        UnsupportedError: the plan has CPU steps, which only farmrt executes.
    """

    def __init__(self, plan: bytes, data: PlanData, device: Any) -> None:
        self._sections: Sections = decode_container(plan, PLAN_MAGIC, "plan")
        self._string = string_reader(self._sections)
        if len(data) != int(self._sections[SectionId.META][0]["data_size"]):
            raise FormatError(f"data: {len(data)} bytes, the plan was made with another number")
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context)
        content = bytes(data)
        self._pools = [self._pool(row, content) for row in self._sections[SectionId.POOL]]
        self._images = [self._image(row, content) for row in self._sections[SectionId.IMAGE]]
        self._programs = [self._program(row) for row in self._sections[SectionId.PROGRAM]]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name in origin order, for inputs of the same kind; each of the element type that the plan says."""
        for row in self._tensors(Role.INPUT):
            values = np.ascontiguousarray(inputs[self._string(row["name"])], _dtype(row))
            offset = int(row["offset"]) * values.itemsize
            cl.enqueue_copy(self._queue, self._pools[row["place"]], values, dst_offset=offset)
        for step in self._sections[SectionId.STEP]:
            self._launch(step)
        return {self._string(row["name"]): self._read(row) for row in self._tensors(Role.OUTPUT)}

    def _tensors(self, role: Role) -> list[Any]:
        return [row for row in self._sections[SectionId.TENSOR] if row["role"] == role]

    def _pool(self, row: Any, data: bytes) -> Any:
        flags = cl.mem_flags
        if row["kind"] == PoolKind.WEIGHTS:
            start = int(row["data_offset"])
            content = np.frombuffer(data, np.uint8, int(row["size"]), start)
            return cl.Buffer(self._context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=content)
        return cl.Buffer(self._context, flags.READ_WRITE, int(row["size"]))

    def _image(self, row: Any, data: bytes) -> Any:
        kind, dtype = _PIXELS[ImageFormat(row["format"])]
        shape = (int(row["width"]), int(row["height"]))
        image_format = cl.ImageFormat(cl.channel_order.RGBA, kind)
        image = cl.create_image(self._context, cl.mem_flags.READ_WRITE, image_format, shape=shape)
        if row["data_offset"] != NO_DATA:
            count = shape[0] * shape[1] * 4
            pixels = np.frombuffer(data, dtype, count, int(row["data_offset"])).reshape(shape[1], shape[0], 4)
            cl.enqueue_copy(self._queue, image, pixels, origin=(0, 0), region=shape)
        return image

    def _program(self, row: Any) -> Any:
        options = self._string(row["options"]).split()
        return cl.Program(self._context, self._string(row["source"])).build(options=options)

    def _launch(self, step: Any) -> None:
        if step["kind"] == StepKind.CPU:
            raise UnsupportedError(f"step '{self._string(step['name'])}' runs on the CPU; farmrt executes such plans")
        kernel = cl.Kernel(self._programs[step["program"]], self._string(step["kernel"]))
        first, count = int(step["first_arg"]), int(step["arg_count"])
        for index, arg in enumerate(self._sections[SectionId.ARG][first : first + count]):
            kernel.set_arg(index, self._argument(arg))
        rank = int(step["work_dim"])
        local = tuple(int(size) for size in step["local_size"][:rank])
        size = tuple(int(size) for size in step["global_size"][:rank])
        cl.enqueue_nd_range_kernel(self._queue, kernel, size, local if any(local) else None)

    def _argument(self, arg: Any) -> Any:
        kind, value = int(arg["kind"]), int(arg["value"])
        if kind == ArgKind.POOL:
            return self._pools[value]
        if kind == ArgKind.IMAGE:
            return self._images[value]
        if kind == ArgKind.LOCAL:
            return cl.LocalMemory(value)
        number = np.int32 if kind == ArgKind.INT else np.float32
        return number(struct.unpack("<i" if kind == ArgKind.INT else "<f", struct.pack("<I", value))[0])

    def _read(self, row: Any) -> Array:
        values = np.empty([int(size) for size in row["shape"][: row["rank"]]], _dtype(row))
        offset = int(row["offset"]) * values.itemsize
        cl.enqueue_copy(self._queue, values, self._pools[row["place"]], src_offset=offset)
        self._queue.finish()
        return values


def _dtype(row: Any) -> np.dtype[Any]:
    return np.dtype(ELEMENT_NAMES[ElementType(int(row["element_type"]))])
