"""Lowers users' operators: their kernel on buffers or images, else their C function as a step of the CPU."""

from __future__ import annotations

import dataclasses

import numpy as np

from runtime.custom.binding import BoundOperator
from runtime.custom.cpu_lowering import check_constant, emit_c, refusal, shapes_of
from runtime.custom.declaration import Attributes, OpenCLKernel, Shape
from runtime.custom.user_code import called
from runtime.errors import ModelError
from runtime.graph import Node
from runtime.kernels.spec import ArgumentForm, Kernel, MemoryType
from runtime.layout.image import ImageLayout
from runtime.lowering.assembly import image_size_of
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.value import Value
from runtime.operators.table import node_macs
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

IMAGE_RANK = 4
_STORAGE = {ArgumentForm.VIEW: Storage.NHWC, ArgumentForm.IMAGE: Storage.IMAGE}


def lower_to_images(bound: BoundOperator, builder: Builder, node: Node) -> str:
    """Emits the kernel on images, or returns why there can be none."""
    if MemoryType.IMAGE not in bound.kernels:
        return "no kernel on images"
    declared, kernel = bound.kernels[MemoryType.IMAGE]
    dims, _ = bound.numbers(declared, *shapes_of(builder, node), node.attrs)
    if reason := _image_problem(bound, kernel, builder, node):
        return reason
    if kernel.default_variant(dims, builder.target) is None:
        return kernel.fits(dims, kernel.variants[0], builder.target)
    _emit(bound, builder, node, declared, kernel)
    return ""


def lower_to_buffers(bound: BoundOperator, builder: Builder, node: Node) -> None:
    """Emits the kernel on buffers, or the C function where there is no kernel or none fits; UnsupportedError says why
    neither can be."""
    reason = "no OpenCL kernel" if MemoryType.BUFFER not in bound.kernels else ""
    if builder.on_cpu:
        if bound.c is None:
            raise refusal(bound, node, "no C source; runs on gpu only, so set runtime: gpu")
        emit_c(bound, builder, node, "")
        return
    if not reason:
        declared, kernel = bound.kernels[MemoryType.BUFFER]
        reason = _buffer_problem(bound, builder, node)
    if not reason:
        _emit(bound, builder, node, declared, kernel)
    elif bound.c and builder.has_cpu:
        emit_c(bound, builder, node, f"CPU: {reason}")
    elif bound.c:
        raise refusal(bound, node, f"{reason}; its C source runs on cpu only, so set runtime: cpu or cpu+gpu")
    else:
        raise refusal(bound, node, reason)


def _image_problem(bound: BoundOperator, kernel: Kernel, builder: Builder, node: Node) -> str:
    """Why a tensor cannot lie in an image of this device."""
    for name, form in _named(bound, kernel, node):
        if form != ArgumentForm.IMAGE:
            continue
        shape = builder.graph.shape(name)
        if len(shape) != IMAGE_RANK:
            return f"'{name}' has {len(shape)} axes, an image has {IMAGE_RANK}"
        width, height = image_size_of(Value(name, shape, Storage.IMAGE, builder.element))
        if width > builder.target.image2d_max_width or height > builder.target.image2d_max_height:
            return f"'{name}' needs an image of {width} x {height} pixels, more than the device has"
    return ""


def _buffer_problem(bound: BoundOperator, builder: Builder, node: Node) -> str:
    """Why the kernel on buffers cannot run here."""
    declared, kernel = bound.kernels[MemoryType.BUFFER]
    for name, form in _named(bound, kernel, node):
        rank = len(builder.graph.shape(name))
        if form == ArgumentForm.VIEW and rank != IMAGE_RANK:
            return f"'{name}' has {rank} axes, a view has 4"
    dims, _ = bound.numbers(declared, *shapes_of(builder, node), node.attrs)
    if kernel.default_variant(dims, builder.target) is None:
        return kernel.fits(dims, kernel.variants[0], builder.target)
    return ""


def _named(bound: BoundOperator, kernel: Kernel, node: Node) -> list[tuple[str, ArgumentForm]]:
    """Each tensor of the node that is there, with its form."""
    forms = dict(kernel.tensors)
    read = [(name, forms[each.name]) for each, name in zip(bound.inputs, node.inputs, strict=False) if name]
    return [*read, (node.output, kernel.tensors[-1][1])]


def _emit(bound: BoundOperator, builder: Builder, node: Node, declared: OpenCLKernel, kernel: Kernel) -> None:
    shapes, output = shapes_of(builder, node)
    ints, floats = bound.numbers(declared, shapes, output, node.attrs)
    forms = dict(kernel.tensors)
    tensors: Tensors = {}
    for index, each in enumerate(bound.inputs):
        check_constant(bound, builder, node, index)
        tensors[each.name] = _read(builder, node.input(index), forms[each.name])
    argument, form = kernel.tensors[-1]
    tensors[argument] = _written(builder, node.output, form)
    defines = _defines(bound, declared, shapes, node.attrs)
    shown = ProfileInfo(output_shape=output)
    builder.launch(kernel, node.name, bound.declared.name, tensors, ints, floats, defines, shown)
    builder.launches[-1] = dataclasses.replace(builder.launches[-1], macs=node_macs(builder.graph, node))


def _defines(
    bound: BoundOperator, declared: OpenCLKernel, shapes: list[Shape], attributes: Attributes
) -> dict[str, int]:
    """What the user asks, and HAS_<INPUT> for each optional input."""
    given = bound.present(shapes)
    own = called(f"{bound.title}: defines", declared.defines, given, attributes)
    if any(not isinstance(value, int) for value in own.values()):
        raise ModelError(f"{bound.title}: its function `defines` gives {dict(own)!r}; expected: ints")
    pairs = zip(bound.inputs, given, strict=True)
    return {**own, **{f"HAS_{each.name.upper()}": int(shape is not None) for each, shape in pairs if each.optional}}


def _read(builder: Builder, name: str, form: ArgumentForm) -> Value:
    """A tensor as an argument of this form; one that is absent is some zeros, which the kernel does not read."""
    if not name:
        return _absent_image(builder) if form == ArgumentForm.IMAGE else builder.zeros(1)
    if form == ArgumentForm.IMAGE:
        return builder.read_image(name, builder.graph.shape(name))
    return builder.read(name, _STORAGE.get(form, Storage.FLAT))


def _written(builder: Builder, name: str, form: ArgumentForm) -> Value:
    return builder.write(name, _STORAGE.get(form, Storage.FLAT))


def _absent_image(builder: Builder) -> Value:
    return builder.constant_image("absent", np.zeros((1, 1, 1, 1), np.float32), ImageLayout.CHANNEL_MAJOR)
