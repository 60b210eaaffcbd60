"""Launches one buffer kernel between guard regions; every test of a buffer kernel goes through `check`.

Inputs lie in wider tensors full of NaN, which poisons a result that a foreign element decides. The output lies in a
buffer full of a sentinel, which must survive everywhere but in the output's elements.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import farm.emulation
from runtime.kernels.buffer.spec import BufferKernel
from runtime.kernels.codes import BYTES_FIXED, Binary
from runtime.kernels.source import build_options, program_source
from runtime.kernels.spec import ArgumentForm, Variant
from runtime.layout.buffer import pack_rows
from runtime.layout.integer_rows import integer_rows
from runtime.reference.device import family_of
from runtime.semantics.unary import Unary
from runtime.target import Target, has_subgroups
from runtime.types import Dot, ElementType, Precision
from tests.opencl import EXHAUSTIVE
from tests.runtime import joined
from tests.runtime.families import ORACLES
from tests.runtime.kernel_cases import Case

_DOT_PRODUCTS = (Path(farm.emulation.__file__).parent / "gpu" / "dot_products.cl").read_text()
SENTINEL = 77.0
OUTSIDE = 1 << 20
WEIGHT_SLACK = 64
# An offset and gaps that leave nothing aligned.
OFFSET, GAP = 37, 5
TOLERANCE = {Precision.FP32: 2e-5, Precision.FP16_STORAGE: 2e-3, Precision.FP16: 4e-2}


@functools.cache
def context_of(device: Any) -> Any:
    """Returns a context that lives on: on Intel's driver a queue does not keep its context alive."""
    return cl.Context([device])


@functools.cache
def queue(device: Any) -> Any:
    return cl.CommandQueue(context_of(device))


@functools.cache
def target(device: Any, precision: Precision) -> Target:
    return Target(
        soc="host",
        abi="x86_64",
        gpu_family=family_of(device),
        precision=precision,
        max_work_group_size=device.max_work_group_size,
        max_work_item_sizes=tuple(device.max_work_item_sizes),
        local_memory_bytes=device.local_mem_size,
        fp16="cl_khr_fp16" in device.extensions,
        subgroups=has_subgroups(device.extensions.split()),
    )


def precisions(device: Any) -> list[Precision]:
    """The precisions that the device has."""
    has_half = target(device, Precision.FP32).fp16
    return [Precision.FP32, Precision.FP16_STORAGE] + [Precision.FP16] * has_half


@functools.lru_cache(maxsize=64)
def program(device: Any, kernel: BufferKernel, options: str) -> Any:
    has_dots = "cl_khr_integer_dot_product" in device.extensions
    wanted = [each for each in options.split() if has_dots or not each.startswith("-cl-std")]
    return cl.Program(context_of(device), dot_products(options) + program_source(kernel)).build(options=wanted)


def dot_products(options: str) -> str:
    """What a program begins with that uses instructions which the driver may not have."""
    return _DOT_PRODUCTS if "-DDOT=" in options else ""


def entry(device: Any, kernel: BufferKernel, options: str) -> Any:
    """A new pyopencl kernel from a program of its own."""
    return cl.Kernel(program(device, kernel, options), kernel.name)


def positive(case: Case) -> bool:
    """Whether the function is only defined for positive numbers."""
    codes = (case.defines.get("UNARY"), case.defines.get("BINARY"))
    return codes[0] in (Unary.LOG, Unary.SQRT) or codes[1] == Binary.POW


def dense_arrays(case: Case, precision: Precision) -> dict[str, Any]:
    """Seeded values for every input, in float64, as the precision stores them."""
    random = np.random.default_rng(5)
    stored = np.float32 if precision == Precision.FP32 else np.float16
    arrays = {}
    for name, shape in case.kernel.shapes(case.dims, case.defines).items():
        if name in case.tables:
            arrays[name] = np.array(case.tables[name], np.int32)
            continue
        # Recurrent weights are small, or the steps would amplify what half precision rounds off.
        values = random.uniform(0.2 if positive(case) else -1, 1, shape) * (0.25 if name == "r" else 1)
        arrays[name] = values.astype(stored).astype(np.float64)
        kind = element_type(case, name, precision)
        if kind in (np.int32, np.int64):
            arrays[name] = random.integers(-9, 10, shape).astype(np.float64)
        if kind is np.uint8 and case.kernel.name == "elements":
            arrays[name] = random.integers(0, 2, shape).astype(np.float64)
        elif kind is np.uint8:
            arrays[name] = random.integers(0, 256, shape).astype(np.float64)
        if name == "mask" and case.dims["masked"] == 2:
            arrays[name][: case.dims["keys"]] = -np.inf
        if name == "w" and "WEIGHT_BITS" in case.defines:
            arrays[name] = integer_weights(shape, case.defines)
        elif name == "w" and is_fixed(case):
            arrays[name] = random.integers(-127, 128, shape) / 128
            arrays[name][-case.dims["channels"] :] = 128  # by which sums are whole
    if "zeros" in arrays:
        arrays["zeros"][:] = 128 if case.defines.get("DOT") == Dot.ARM else 0
    return arrays


def is_fixed(case: Case) -> bool:
    """Whether whole numbers are computed from whole numbers."""
    return bool(case.defines.get("BYTES", 0) & BYTES_FIXED)


def integer_weights(shape: tuple[int, ...], defines: Mapping[str, int]) -> Any:
    """Weights [groups, rows, cols] of a scale (1 by fixed point), the greatest integer everywhere; or halves."""
    random, most = np.random.default_rng(6), {16: 2**15, 8: 127, 4: 7}[defines["WEIGHT_BITS"]]
    if most > 2**7:  # halves
        return (
            (random.uniform(-1, 1, shape) * 2.0 ** random.integers(-24, 1, shape)).astype(np.float16).astype(np.float64)
        )
    parted = (-1, defines["WEIGHT_GROUP"] or shape[2])
    integers = random.integers(-most, most + 1, shape).reshape(parted)
    integers[:, 0] = most
    scales = random.uniform(0.5 / most, 1 / most, (len(integers), 1)).astype(np.float32)
    if defines.get("BYTES", 0) & BYTES_FIXED:
        scales[:] = 1
    return (integers.astype(np.float32) * scales).reshape(shape).astype(np.float64)


def integer_words(case: Case, weights: Any) -> Any:
    """The words of integer weights."""
    found = integer_rows(weights.astype(np.float32))
    assert found and (found.bits, found.group) == (case.defines["WEIGHT_BITS"], case.defines["WEIGHT_GROUP"])
    assert found.in_words(case.dims["in_c"])
    return found.words()


def element_type(case: Case, name: str, precision: Precision) -> type[np.number[Any]]:
    """A table holds int32, and a copy's sides may be float32, whatever the precision."""
    if name in case.tables:
        return np.int32
    if kind := case.defines.get(f"{name.upper()}_TYPE", 0):
        return {ElementType.BOOL: np.uint8, ElementType.I32: np.int32, ElementType.I64: np.int64}[ElementType(kind)]
    operands = {"a": 4, "b": 4} if case.kernel.name == "binary_bytes" else {}
    if case.defines.get("BYTES", 0) & ({"x": 4, "zeros": 4, "table": 1, "y": 1} | operands).get(name, 0):
        return np.uint8
    wide = precision == Precision.FP32 or case.defines.get({"x": "SRC_F32", "y": "DST_F32"}.get(name, ""), 0)
    return np.float32 if wide else np.float16


def guard(form: ArgumentForm, is_output: bool) -> float:
    """Returns what surrounds a tensor: the sentinel for an output, an index far outside for a table, else NaN."""
    return SENTINEL if is_output else OUTSIDE if form == ArgumentForm.TABLE else np.nan


class Memory:
    """A tensor argument in a buffer of its own, between guards; `index` says where the elements lie.

    Without the `tail`, the buffer ends where the tensor does: a simulator then sees each access behind it.
    """

    def __init__(self, form: ArgumentForm, shape: tuple[int, ...], fill: float, dtype: Any, tail: int = OFFSET) -> None:
        pixels, channels = shape if form == ArgumentForm.VIEW else (1, math.prod(shape))
        self.stride = channels + GAP if form == ArgumentForm.VIEW else 0
        self.index = OFFSET + np.arange(pixels)[:, None] * (channels + GAP) + np.arange(channels)
        slack = WEIGHT_SLACK if form == ArgumentForm.WEIGHTS else 0
        self.host = np.full(self.index[-1, -1] + 1 + slack + tail, fill, dtype)
        self.host[self.index[-1, -1] + 1 :][:slack] = 0

    def scalars(self, form: ArgumentForm) -> list[np.int32]:
        return [np.int32(OFFSET)] + [np.int32(self.stride)] * (form == ArgumentForm.VIEW)


def launch(
    case: Case,
    variant: Variant,
    precision: Precision,
    local: tuple[int, ...] | None,
    device: Any,
    tail: int = OFFSET,
    built: joined.Entry | None = None,
) -> tuple[Any, Any]:
    """Launches a case, checks that the guards are intact, and returns what the kernel wrote and what NumPy computes.

    `built` has the kernel of these options where several are built as one program.
    """
    kernel, dims = case.kernel, case.dims
    dense = dense_arrays(case, precision)
    signed = {"x": dense["x"] - 128} if case.defines.get("DOT") == Dot.ARM else {}
    expected = ORACLES[kernel.name](dense | signed, dims, case.defines, case.floats)
    arguments: list[Any] = []
    context = context_of(device)
    output, output_buffer = Memory(ArgumentForm.FLAT, (1,), 0, np.float32), None
    for name, form in kernel.tensors:
        dtype = element_type(case, name, precision)
        is_output = name == kernel.tensors[-1][0]
        shape = dense[name].shape
        values = dense[name]
        if form == ArgumentForm.WEIGHTS and len(shape) == 3:
            assert kernel.block is not None
            if "WEIGHT_BITS" in case.defines:
                values, dtype = integer_words(case, values), np.int32
            values = pack_rows(values, kernel.block(variant))
            shape = values.shape
        whole = {np.int32: OUTSIDE, np.int64: OUTSIDE, np.uint8: SENTINEL}
        fill = SENTINEL if is_output else whole.get(dtype, guard(form, is_output))
        memory = Memory(form, shape, fill, dtype, tail)
        if is_output:
            output = memory
        else:
            memory.host[memory.index] = values.reshape(memory.index.shape)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(context, flags, hostbuf=memory.host)
        output_buffer = buffer if is_output else output_buffer
        arguments += [buffer, *memory.scalars(form)]
    arguments += [np.int32(dims[name]) for name in kernel.ints]
    arguments += [np.float32(value) for value in case.scalars]
    options = build_options(variant, precision, case.defines)
    launched = built(options) if built else entry(device, kernel, options)
    launched.set_args(*arguments)
    items = kernel.work_items(dims, variant)
    local = local or kernel.local_size(dims, variant, target(device, precision))
    size = tuple(-(-item // group) * group for item, group in zip(items, local, strict=True))
    cl.enqueue_nd_range_kernel(queue(device), launched, size, local)
    written = np.empty_like(output.host)
    cl.enqueue_copy(queue(device), written, output_buffer)
    places = output_places(case, output, expected.shape)
    actual = written[places].astype(np.float64)
    written[places] = SENTINEL
    assert (written == SENTINEL).all(), "elements that are not the output's were written"
    return actual, expected.reshape(places.shape)


def output_places(case: Case, memory: Memory, shape: tuple[int, ...]) -> Any:
    """Index of each output element in the buffer."""
    dims = case.dims
    steps = {
        "normalization": ("y_batch_stride", "y_pixel_stride", "y_channel_stride"),
        "matmul": ("ys0", "ys1", "ys2", "ym", "yn"),
        "attention": ("ys0", "ys1", "ys2", "ys3"),
        "reduce": ("y_outer_stride", "y_inner_stride"),
        "softmax": ("y_outer_stride", "y_stride", "y_inner_stride"),
        "copy": tuple(f"ys{axis}" for axis in range(6)),
        **dict.fromkeys(("unary", "lookup", "binary", "binary_bytes", "pad"), tuple(f"ys{axis}" for axis in range(4))),
    }.get(case.kernel.name)
    if steps is None:
        return memory.index.reshape(-1)
    grid = np.indices(shape)
    return OFFSET + sum(axis * dims[step] for axis, step in zip(grid, steps, strict=True))


def check(
    case: Case,
    device: Any,
    variant: Variant | None = None,
    precision: Precision = Precision.FP32,
    local: tuple[int, ...] | None = None,
    tail: int = OFFSET,
    built: joined.Entry | None = None,
) -> None:
    """Runs the case (default variant and local size unless given) and compares within the precision's tolerance."""
    wanted = target(device, precision)
    chosen = variant or case.kernel.default_variant(case.dims, wanted)
    assert chosen is not None
    assert not case.kernel.fits(case.dims, chosen, wanted)
    actual, expected = launch(case, chosen, precision, local, device, tail, built)
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
    tolerance, atol = TOLERANCE[precision], TOLERANCE[precision] * scale
    if is_fixed(case):
        np.testing.assert_array_equal(actual, expected)
    if case.defines.get("BYTES", 0) & 1:  # what lies in the middle of two steps may be either
        atol = max(1, atol)
        assert precision != Precision.FP32 or (actual != expected).mean() < 0.01, "too many bytes are a step off"
    np.testing.assert_allclose(actual, expected, atol=atol, rtol=tolerance)


@dataclasses.dataclass(frozen=True)
class Launch:
    """A launch of a case, called `name`; the local size is the default one unless given."""

    name: str
    case: Case
    variant: Variant
    precision: Precision
    local: tuple[int, ...] | None = None

    @property
    def options(self) -> str:
        return build_options(self.variant, self.precision, self.case.defines)


def check_all(kernel: BufferKernel, launches: list[Launch], device: Any) -> None:
    """Checks many launches of a kernel, which is built once for them, or once for each where all is asked for."""
    options = [each.options for each in launches]
    built = (
        None
        if EXHAUSTIVE
        else joined.entries(
            context_of(device), kernel, program_source(kernel), options, dot_products(" ".join(options))
        )
    )
    faults = [fault for each in launches if (fault := _fault(each, device, built))]
    assert not faults, "\n".join(faults)


def _fault(wanted: Launch, device: Any, built: joined.Entry | None) -> str:
    """What is wrong with a launch; empty where nothing is."""
    try:
        check(wanted.case, device, wanted.variant, wanted.precision, wanted.local, built=built)
    except (AssertionError, cl.Error) as error:
        return f"{wanted.name}, {wanted.variant.name}, {wanted.precision.name}, local {wanted.local}: {error}"
    return ""
