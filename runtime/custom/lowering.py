"""Lowers users' operators: their kernel on buffers or images, else their C function as a step of the CPU."""

import dataclasses
import math

import numpy as np

from runtime.custom.binding import MAX_EXTENT, BoundOperator
from runtime.custom.c_library import c_kernel
from runtime.custom.declaration import Attributes, OpenCLKernel, Shape
from runtime.custom.user_code import called
from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Node
from runtime.kernels.spec import ArgumentForm, Kernel, MemoryType, Variant
from runtime.layout.image import ImageLayout
from runtime.lowering.assembly import image_size_of
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Launch, Tensors
from runtime.lowering.value import Value
from runtime.operators.table import node_macs
from runtime.plan.plan import ProfileInfo
from runtime.plan.records import StepKind
from runtime.types import ElementType, Storage

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


def refusal(bound: BoundOperator, node: Node, problem: str) -> UnsupportedError:
    """The error that names node, operator and problem."""
    return UnsupportedError(f"node '{node.name}' ({bound.title}): {problem}")


def shapes_of(builder: Builder, node: Node) -> tuple[list[Shape], Shape]:
    """Shapes of the inputs, () for an absent one, and of the output."""
    return [builder.graph.shape(name) if name else () for name in node.inputs], builder.graph.shape(node.output)


def check_constant(bound: BoundOperator, builder: Builder, node: Node, index: int) -> None:
    """Raises UnsupportedError for an input that must be constant and is not."""
    name, declared = node.input(index), bound.inputs[index]
    if name and declared.constant and not builder.graph.is_constant(name):
        raise refusal(bound, node, f"input {declared.name} ('{name}') is computed at run time; supported: a constant")


def emit_c(bound: BoundOperator, builder: Builder, node: Node, note: str) -> None:
    """A step of the CPU, which has floats in float32 whatever the plan's precision."""
    assert bound.c
    shapes, output = shapes_of(builder, node)
    ints, floats = bound.numbers(bound.c.declared, shapes, output, node.attrs)
    values = []
    for index in range(len(bound.inputs)):
        check_constant(bound, builder, node, index)
        values.append(_read_full(builder, node.input(index)))
    result = builder.write(node.output, Storage.FLAT)
    narrow = result.element == ElementType.F16
    y = Value(node.output, output, Storage.FLAT, ElementType.F32) if narrow else result
    elements = [math.prod(shape) if shape is not None else 0 for shape in (*bound.present(shapes), output)]
    dims = dict(
        zip(c_kernel(bound).ints, [_items(bound, shapes, output, node), *elements, *ints.values()], strict=True)
    )
    builder.launches.append(_c_launch(bound, builder, node, [*values, y], dims, tuple(floats.values()), note))
    if narrow:
        _cast(builder, node.output, y, result)


def _c_launch(
    bound: BoundOperator,
    builder: Builder,
    node: Node,
    values: list[Value],
    dims: dict[str, int],
    floats: tuple[float, ...],
    note: str,
) -> Launch:
    tensors = tuple((value, ArgumentForm.FLAT) for value in values)
    shown, macs = ProfileInfo(output_shape=values[-1].shape), node_macs(builder.graph, node)
    title, why = bound.declared.name, note or builder.note
    return Launch(
        *(node.name, title, c_kernel(bound), StepKind.CPU, Variant(), {}, dims, floats, tensors, ()),
        *(macs, shown, why, "", builder.target.precision),
    )


def _items(bound: BoundOperator, shapes: list[Shape], output: Shape, node: Node) -> int:
    assert bound.c
    if bound.c.declared.items is None:
        return 1
    found = called(f"{bound.title}: items", bound.c.declared.items, bound.present(shapes), output, node.attrs)
    if not isinstance(found, int) or not 1 <= found <= MAX_EXTENT:
        raise ModelError(f"{bound.title}: its function `items` returned {found!r}; expected: an int of at least 1")
    return found


def _read_full(builder: Builder, name: str) -> Value:
    """A tensor row-major, floats in float32."""
    if not name:
        return Value("absent", (1,), Storage.FLAT, ElementType.F32, data=np.zeros(1, np.float32))
    if builder.graph.is_constant(name) and builder.graph.tensors[name].dtype == np.float32:
        data = np.ascontiguousarray(builder.graph.constants[name], np.float32)
        return Value(name, data.shape, Storage.FLAT, ElementType.F32, data=data)
    value = builder.read(name, Storage.FLAT)
    if value.element != ElementType.F16:
        return value
    wide = Value(f"{name}:float32", value.shape, Storage.FLAT, ElementType.F32)
    _cast(builder, name, value, wide)
    return wide


def _cast(builder: Builder, name: str, source: Value, value: Value) -> None:
    """Converts between float16 and float32 on the CPU."""
    builder.cast(f"{name}:cast", "Cast", source, value)
