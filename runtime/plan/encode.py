"""Encodes a plan as a plan file; records.py says what each field is."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.kernels.source import all_sources_hash, build_options, program_source, source_hash
from runtime.plan import records
from runtime.plan.container import StringTable, encode_container
from runtime.plan.plan import Arg, Plan, Step, Tensor
from runtime.plan.plan_data import crc32_of
from runtime.plan.records import NO_DATA, NONE_U32, PLAN_MAGIC, ArgKind, SectionId, StepKind
from runtime.version import RUNTIME_VERSION

Records = npt.NDArray[Any]


def encode_plan(plan: Plan) -> bytes:
    """The plan file's bytes; the data file's are `plan.data`."""
    strings = StringTable()
    programs, program_of = _programs(plan, strings)
    sections = {
        SectionId.META: _meta(plan, strings),
        SectionId.POOL: _pools(plan),
        SectionId.IMAGE: _images(plan),
        SectionId.PROGRAM: programs,
        SectionId.STEP: _steps(plan, program_of, strings),
        SectionId.ARG: _args(plan.steps),
        SectionId.TENSOR: _tensors(plan.tensors, strings),
        SectionId.PACK: _packs(plan.steps),
        SectionId.EXPECT: _expectations(plan),
    }
    if any(tensor.quantization for tensor in plan.tensors):
        sections[SectionId.QUANTIZATION] = _quantizations(plan.tensors)
    return encode_container(PLAN_MAGIC, sections | {SectionId.STRINGS: strings.section()})


def cpu_kernel(step: Step) -> str:
    """Returns a CPU step's kernel text: the operator's name, then what an OpenCL build would get as options."""
    options = dict(sorted(step.defines.items())) | dict(step.variant.defines)
    return " ".join([step.kernel.name, *(f"{key}={value}" for key, value in options.items())])


def _meta(plan: Plan, strings: StringTable) -> Records:
    meta = np.zeros(1, records.META)
    meta["data_size"], meta["data_crc32"] = len(plan.data), crc32_of(plan.data)
    meta["precision"] = plan.target.precision
    meta["model"] = strings.add(plan.model)
    meta["gpu_family"] = strings.add(plan.target.gpu_family)
    meta["source_hash"] = strings.add(all_sources_hash())
    meta["runtime_version"] = strings.add(RUNTIME_VERSION)
    return meta


def _pools(plan: Plan) -> Records:
    rows = np.zeros(len(plan.pools), records.POOL)
    for row, pool in zip(rows, plan.pools, strict=True):
        row["kind"], row["size"], row["data_offset"] = pool.kind, pool.size, pool.data_offset
    return rows


def _images(plan: Plan) -> Records:
    rows = np.zeros(len(plan.images), records.IMAGE)
    for row, image in zip(rows, plan.images, strict=True):
        row["width"], row["height"], row["format"] = image.width, image.height, image.format
        row["data_offset"] = NO_DATA if image.data_offset is None else image.data_offset
    return rows


def _programs(plan: Plan, strings: StringTable) -> tuple[Records, list[int]]:
    """Returns a record for each distinct program, and for each step the index of its program (NONE_U32 on the CPU)."""
    program_indices: dict[tuple[str, str], int] = {}
    kernels = []
    program_of = []
    for step in plan.steps:
        if step.kind == StepKind.CPU:
            program_of.append(NONE_U32)
            continue
        precision = plan.target.precision if step.precision is None else step.precision
        key = (source_hash(step.kernel), build_options(step.variant, precision, step.defines))
        if key not in program_indices:
            program_indices[key] = len(program_indices)
            kernels.append(step.kernel)
        program_of.append(program_indices[key])
    rows = np.zeros(len(program_indices), records.PROGRAM)
    for row, kernel, (digest, options) in zip(rows, kernels, program_indices, strict=True):
        row["name"], row["source"] = strings.add(kernel.source), strings.add(program_source(kernel))
        row["source_hash"], row["options"] = strings.add(digest), strings.add(options)
    return rows, program_of


def _steps(plan: Plan, program_of: Sequence[int], strings: StringTable) -> Records:
    rows = np.zeros(len(plan.steps), records.STEP)
    first_arg = 0
    for row, step, program in zip(rows, plan.steps, program_of, strict=True):
        kernel = cpu_kernel(step) if step.kind == StepKind.CPU else step.kernel.name
        row["macs"], row["name"], row["op"] = step.macs, strings.add(step.name), strings.add(step.op)
        row["kernel"], row["tuning_key"] = strings.add(kernel), strings.add(step.tuning_key)
        row["kind"], row["program"], row["flags"] = step.kind, program, step.flags
        row["first_arg"], row["arg_count"] = first_arg, len(step.args)
        row["work_dim"], row["global_size"], row["local_size"] = step.work_dim, step.global_size, step.local_size
        first_arg += len(step.args)
    return rows


def _args(steps: Sequence[Step]) -> Records:
    args = [arg for step in steps for arg in step.args]
    rows = np.zeros(len(args), records.ARG)
    for row, arg in zip(rows, args, strict=True):
        row["kind"], row["value"] = arg.kind, _bits(arg)
    return rows


def _bits(arg: Arg) -> int:
    form = {ArgKind.FLOAT: "<f", ArgKind.INT: "<i"}.get(arg.kind, "<I")
    bits: int = struct.unpack("<I", struct.pack(form, arg.value))[0]
    return bits


def _tensors(tensors: Sequence[Tensor], strings: StringTable) -> Records:
    rows = np.zeros(len(tensors), records.TENSOR)
    for row, tensor in zip(rows, tensors, strict=True):
        row["offset"], row["name"], row["storage"] = tensor.offset, strings.add(tensor.name), tensor.storage
        row["element_type"], row["role"] = tensor.element_type, tensor.role
        row["step"] = NONE_U32 if tensor.step is None else tensor.step
        row["place"], row["stride"], row["rank"] = tensor.place, tensor.stride, len(tensor.shape)
        row["shape"][: len(tensor.shape)] = tensor.shape
    return rows


def _quantizations(tensors: Sequence[Tensor]) -> Records:
    known = [(index, tensor.quantization) for index, tensor in enumerate(tensors) if tensor.quantization]
    rows = np.zeros(sum(len(each.scale) for _, each in known), records.QUANTIZATION)
    first = 0
    for index, each in known:
        part = rows[first : first + len(each.scale)]
        part["tensor"], part["axis"] = index, NONE_U32 if each.axis is None else each.axis
        part["scale"], part["zero_point"] = each.scale, each.zero_point
        first += len(part)
    return rows


def _packs(steps: Sequence[Step]) -> Records:
    packs = [(index, pack) for index, step in enumerate(steps) for pack in step.packs]
    rows = np.zeros(len(packs), records.PACK)
    for row, (index, pack) in zip(rows, packs, strict=True):
        row["step"], row["arg"], row["groups"] = index, pack.arg, pack.groups
        row["rows"], row["cols"], row["block"] = pack.rows, pack.cols, pack.block
    return rows


def _expectations(plan: Plan) -> Records:
    rows = np.zeros(len(plan.expectations), records.EXPECT)
    for row, expected in zip(rows, plan.expectations, strict=True):
        row["step"], row["check_step"], row["tensor"] = expected.step, expected.check_step, expected.tensor
        row["data_offset"], row["count"] = expected.data_offset, expected.count
    return rows
