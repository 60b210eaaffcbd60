"""Launches one image kernel and checks what no kernel may do: every test of an image kernel goes through `launch`.

Input images are surrounded by NaN, which poisons a result that a pixel from outside the tensor decides. The output
image is larger than the tensor and full of a sentinel, which must survive; components without a channel must be zero.
"""

import contextlib
import functools
from typing import Any

import numpy as np
import pyopencl as cl

from runtime.kernels.source import build_options, program_source
from runtime.kernels.spec import ArgumentForm, needs_half
from runtime.kernels.table import IMAGE_KERNELS as KERNELS
from runtime.layout.image import PIXELS, ImageLayout, image_size, to_image
from runtime.oracle.evaluate import compute
from runtime.semantics import unary
from runtime.semantics.unary import Unary, UnaryFunction
from runtime.target import Target
from runtime.types import Precision
from tests.opencl import EXHAUSTIVE, default_device
from tests.runtime import joined

SENTINEL = 77.0
TARGET = Target(soc="host", abi="x86_64")
TABLE = {kernel.name: kernel for kernel in KERNELS}
TOLERANCE = {Precision.FP32: 2e-5, Precision.FP16_STORAGE: 4e-3, Precision.FP16: 4e-2}
UNBOUNDED = (-np.inf, np.inf)
# Parameters of activations where the defaults would tell less.
PARAMETERS = {
    "clip": (-0.5, 0.75),
    "leaky_relu": (0.2,),
    "elu": (1.5,),
    "hard_sigmoid": (0.3, 0.4),
    "swish": (1.5,),
    "selu": (1.5, 1.25),
    "celu": (1.5,),
}


def _activation(function: UnaryFunction) -> tuple[tuple[float, float], dict[str, Any]]:
    values = PARAMETERS.get(function.activation) or tuple(each.default for each in function.parameters)
    alpha, beta = (*values, 0.0, 0.0)[:2]
    attributes = dict(zip(function.parameter_names, values, strict=True))
    return (alpha, beta), {"activation": function.activation, **attributes}


# ACTIVATION, its two floats, and how the oracle calls it.
ACTIVATIONS = {
    "none": (Unary.CLAMP, UNBOUNDED, {"activation": "none"}),
    "relu": (Unary.CLAMP, (0.0, np.inf), {"activation": "relu"}),
    **{code.function.activation: (code, *_activation(code.function)) for code in unary.ACTIVATIONS},
}


@functools.cache
def device():
    """Context and queue on the best driver."""
    context = cl.Context([default_device()])
    return context, cl.CommandQueue(context)


def precisions():
    """The precisions that the device has."""
    has_half = "cl_khr_fp16" in device()[0].devices[0].extensions
    return [Precision.FP32, Precision.FP16_STORAGE] + [Precision.FP16] * has_half


def element_type(precision):
    return np.float32 if precision == Precision.FP32 else np.float16


@functools.cache
def program(name, variant, precision, defines):
    options = build_options(variant, precision, dict(defines))
    return cl.Program(device()[0], program_source(TABLE[name])).build(options=options.split())


_JOINED = {}


@contextlib.contextmanager
def built_at_once(name, builds):
    """Launches of a kernel take these (variant, precision, defines) from one program, if not all is asked for."""
    kernel, options = TABLE[name], [build_options(*build) for build in builds]
    if not EXHAUSTIVE:
        built = joined.entries(device()[0], kernel, program_source(kernel), options)
        _JOINED.update({(name, each): built for each in options})
    yield
    _JOINED.clear()


def entry(name, variant, precision, defines):
    """A new pyopencl kernel."""
    options = build_options(variant, precision, defines)
    if built := _JOINED.get((name, options)):
        return built(options)
    return cl.Kernel(program(name, variant, precision, tuple(defines.items())), name)


def plain_variants(name):
    """The variants of a kernel that need no half arithmetic."""
    return [variant for variant in TABLE[name].variants if not needs_half(variant, TARGET)]


def launch(name, tensors, dims, floats=(), defines=None, variant=None, precision=Precision.FP32, local=(2, 3, 1)):
    """Runs a kernel; returns its output in origin order as float32.

    `tensors`: arrays in origin order for image inputs, one-dimensional arrays for buffers, by argument name. A buffer
    output is given with its content before the launch, and returned. Absent inputs (no residual) are the first one.
    """
    kernel = TABLE[name]
    variant = variant or kernel.default_variant(dims, TARGET)
    assert not kernel.fits(dims, variant, TARGET)
    images = kernel.images(dims, defines or {})
    output, form = kernel.tensors[-1]
    memory = {
        argument: input_memory(tensors[argument], kind, images.get(argument), precision)
        for argument, kind in kernel.tensors[:-1]
        if tensors.get(argument) is not None
    }
    is_image = form == ArgumentForm.IMAGE
    memory[output] = output_image(images[output], precision) if is_image else buffer(tensors[output])
    launched = entry(name, variant, precision, defines or {})
    launched.set_args(*arguments(kernel, memory, dims, floats))
    grid = kernel.work_items(dims, variant)
    size = tuple(-(-items // group) * group for items, group in zip(grid, local, strict=True))
    cl.enqueue_nd_range_kernel(device()[1], launched, size, local)
    if is_image:
        return checked_output(memory[output], images[output], precision)
    return read_buffer(memory[output], tensors[output])


def arguments(kernel, memory, dims, floats):
    for argument, form in kernel.tensors:
        yield memory.get(argument) or next(iter(memory.values()))
        if form != ArgumentForm.IMAGE:
            yield np.int32(dims.get(f"{argument}_offset", 0))
    yield from (np.int32(dims[name]) for name in kernel.ints)
    yield from (np.float32(value) for value in floats)


PIXELS_OF = {
    "float32": cl.channel_type.FLOAT,
    "float16": cl.channel_type.HALF_FLOAT,
    "int8": cl.channel_type.SIGNED_INT8,
}


def image_of(pixels):
    context, queue = device()
    kind = PIXELS_OF[pixels.dtype.name]
    size = (pixels.shape[1], pixels.shape[0])
    image = cl.create_image(context, cl.mem_flags.READ_WRITE, cl.ImageFormat(cl.channel_order.RGBA, kind), shape=size)
    cl.enqueue_copy(queue, image, np.ascontiguousarray(pixels), origin=(0, 0), region=size)
    return image


def input_memory(array, form, image, precision):
    """Activations lie in a larger image full of NaN; constants have images of their own size."""
    if form != ArgumentForm.IMAGE:
        return buffer(array)
    layout, shape = image or (ImageLayout.CHANNEL_MAJOR, array.shape)
    assert array.shape == shape
    pixels = to_image(array if array.dtype == np.int8 else array.astype(element_type(precision)), layout)
    if layout in (ImageLayout.CHANNEL_MAJOR, ImageLayout.HEIGHT_MAJOR):
        guard = 77 if pixels.dtype == np.int8 else np.nan
        pixels = np.pad(pixels, ((0, 2), (0, 3), (0, 0)), constant_values=guard)
    return image_of(pixels)


def output_image(image, precision):
    width, height = image_size(*image)
    return image_of(np.full((height + 2, width + 3, 4), SENTINEL, element_type(precision)))


def checked_output(memory, image, precision):
    layout, shape = image
    width, height = image_size(layout, shape)
    pixels = np.empty((height + 2, width + 3, 4), element_type(precision))
    cl.enqueue_copy(device()[1], pixels, memory, origin=(0, 0), region=(width + 3, height + 2))
    assert (pixels[height:] == SENTINEL).all(), "rows below the tensor were written"
    assert (pixels[:, width:] == SENTINEL).all(), "columns beside the tensor were written"
    values = PIXELS[layout].arrangement.unpack(pixels[:height, :width], shape)
    np.testing.assert_array_equal(pixels[:height, :width], to_image(values, layout), "components without a channel")
    return values.astype(np.float32)


def buffer(array):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(device()[0], flags, hostbuf=np.ascontiguousarray(array))


def read_buffer(memory, like):
    values = np.empty_like(like)
    cl.enqueue_copy(device()[1], values, memory)
    return values


def random(seed, *shape):
    """Values of about [-1, 1] that float16 holds exactly, so that only the kernel's own rounding shows."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float16).astype(np.float32)


def extents(shape):
    """The dims of an image of this shape."""
    return dict(zip(("batch", "channels", "height", "width"), shape, strict=True))


def fused(kernel, op, tensors, shape, dims, attributes, activation, residual, **launch_options):
    """What a product with a fused activation makes, and the oracle's value.

    `tensors` are x, w and b, and where the kernel has the weights otherwise, these; `shape` is the output's.
    """
    code, floats, activated = ACTIVATIONS[activation]
    x, w, b, *packed = tensors
    added = {"residual": random(4, *shape)} if residual else {}
    expected = oracle(op, [x, w, b, added.get("residual")], attributes | activated)
    defines = {"ACTIVATION": int(code), "RESIDUAL": int(residual)}
    given = {"x": x, "w": packed[0] if packed else w, "b": b} | added
    return launch(kernel, given, dims, floats, defines, **launch_options), expected


def oracle(op, inputs, attributes):
    """The operator's value in float64."""
    return compute(op, [None if array is None else array.astype(np.float64) for array in inputs], attributes)


def assert_close(actual, expected, precision, told=""):
    """Agreement within the precision's tolerance, relative to the greatest value."""
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
    np.testing.assert_allclose(
        actual, expected, atol=TOLERANCE[precision] * scale, rtol=TOLERANCE[precision], err_msg=told
    )
