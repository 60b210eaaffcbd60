"""Adds steps that fill a launch's output with NaN before it, so that a trial that writes too little is detected."""

from __future__ import annotations

import dataclasses

import numpy as np

from runtime.kernels.spec import MemoryType
from runtime.lowering.assembly import image_size_of
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Launch
from runtime.lowering.launcher import WEIGHT_SLACK
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.plan.records import StepKind
from runtime.types import ELEMENT_BYTES, ElementType, Storage


def poison_outputs(builder: Builder) -> dict[int, int]:
    """Puts a poison step before every tunable launch; returns the index of the poison step by that of its launch.

    A launch that writes where it reads gets none, since that would destroy its input.
    """
    launches, builder.launches = builder.launches, []
    poison_of = {}
    for launch in launches:
        if launch.tuning_key and not _writes_where_it_reads(launch) and _poison(builder, launch):
            poison_of[len(builder.launches)] = len(builder.launches) - 1
        builder.launches.append(launch)
    return poison_of


def _writes_where_it_reads(launch: Launch) -> bool:
    return any(value.root is launch.output.root for value, _ in launch.tensors[:-1])


def _poison(builder: Builder, launch: Launch) -> bool:
    """Appends a launch's poison step and returns True, or returns False where OpenCL cannot run that step."""
    output, name = launch.output, f"{launch.name}:poison"
    if output.storage == Storage.IMAGE:
        _poison_image(builder, name, output)
    else:
        zeros = (0,) * len(output.shape)
        builder.strided_copy(name, "Poison", _nan(output.element), output, output.shape, zeros, output.strides)
    poison = dataclasses.replace(builder.launches.pop(), tuning_key="")
    if poison.kind == StepKind.OPENCL:
        builder.launches.append(poison)
    return poison.kind == StepKind.OPENCL


def _poison_image(builder: Builder, name: str, output: Value) -> None:
    """Writes every pixel: an image of any layout has the size of one with four channels of its height and width."""
    width, height = image_size_of(output.root)
    dims = {"batch": 1, "channels": 4, "height": height, "width": width}
    dims |= dict.fromkeys(("stride_n", "stride_c", "stride_h", "stride_w"), 0)
    tensors = {"x": _nan(ElementType.F32), "y": output}
    builder.launch(
        "buffer_to_image", name, "Poison", tensors, dims, None, {"SRC_F32": 1}, ProfileInfo(), "", MemoryType.IMAGE
    )


def _nan(element: ElementType) -> Value:
    dtype = np.float32 if ELEMENT_BYTES[element] == 4 else np.float16
    return Value("nan", (1,), Storage.FLAT, element, data=np.full(1 + WEIGHT_SLACK, np.nan, dtype))
