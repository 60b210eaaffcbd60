"""What a user writes of an operator (docs/custom-operators.md shows one), and what is wrong with it, in one phrase."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from runtime.graph import Array
from runtime.kernels.spec import (
    USER_FLOATS,
    USER_INTS,
    USER_TENSORS,
    ArgumentForm,
    Defines,
    Dims,
    MemoryType,
    Variant,
    WorkItems,
)
from runtime.operators.row import AttributeKind, fits_kind
from runtime.target import Target
from runtime.types import ELEMENT_TYPES

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]  # of the inputs; None for an optional one that is absent
Given = Sequence[Any]  # the same, or arrays, as users' functions get them: without a type, so that they need no casts
Attributes = Mapping[str, Any]
Numbers = Mapping[str, int | float]
DataFormat = Literal["fixed", "transposable", "source"]


@dataclasses.dataclass(frozen=True)
class InputDeclaration:
    """An input.

    Attributes:
        name: how kernels and C functions name it.
        dtype: NumPy's name of its element type.
        optional: a model may leave it out; those that may come last.
        constant: its value must be known at conversion, as weights are.
        low, high: where noise for it lies when the operator is tried alone.
    """

    name: str
    dtype: str = "float32"
    optional: bool = False
    constant: bool = False
    low: float = -1.0
    high: float = 1.0


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute: its kind (int, count, float, bool, ints, floats, or a tuple of words), and what it is if absent."""

    kind: AttributeKind
    default: Any = None


@dataclasses.dataclass(frozen=True)
class CaseDeclaration:
    """A size on which the operator is checked and timed; an absent optional input is None."""

    shapes: Shapes
    attributes: Attributes = dataclasses.field(default_factory=dict)


def no_numbers(shapes: Shapes, output: Shape, attributes: Attributes) -> Numbers:
    """The arguments of a kernel that takes none beside its tensors."""
    return {}


def no_defines(shapes: Shapes, attributes: Attributes) -> Defines:
    """The build options of a kernel that has none beside its variant's."""
    return {}


@dataclasses.dataclass(frozen=True)
class OpenCLKernel:
    """A kernel that computes the operator.

    Attributes:
        source: the .cl file, beside the module.
        entry: the kernel's name in it.
        tensors: its tensor arguments, `x:flat y:view`: the inputs' names and last the output, `y`, each with a form
            (runtime.kernels.spec.ArgumentForm).
        ints, floats: names of its numbers, which follow the tensors in this order.
        arguments: input shapes, output shape and attributes -> value of each number.
        work_items: the ints and a variant -> global size, one to three extents; the launch may round them up.
        variants: sets of build options to choose from; the first is the default.
        defaults: GPU family (`adreno-6xx`, or `adreno`) -> its default variant.
        defines: build options that the attributes ask for.
        fits: why a variant cannot run these ints on a target, empty where it can.
        local_limit: largest local size on each axis; empty: any.
        memory: `buffer` or `image`, whatever its tensors lie in.
        splittable: it uses global ids only, so that a launch may be enqueued in parts and in smaller groups.
    """

    source: str
    entry: str
    tensors: str
    work_items: Callable[[Dims, Variant], WorkItems]
    ints: str = ""
    floats: str = ""
    arguments: Callable[[Given, Shape, Attributes], Numbers] = no_numbers
    variants: tuple[Variant, ...] = (Variant(),)
    defaults: Mapping[str, Variant] = dataclasses.field(default_factory=dict)
    defines: Callable[[Given, Attributes], Defines] = no_defines
    fits: Callable[[Dims, Variant, Target], str] | None = None
    local_limit: WorkItems = ()
    memory: str = MemoryType.BUFFER
    splittable: bool = True


@dataclasses.dataclass(frozen=True)
class CFunction:
    """A C function that computes the operator on CPUs.

    It is given a pointer for each input (NULL for one that is absent) and for the output, row-major; then the ints, as
    int32_t, and the floats; then, as int64_t, the first and the end of the items that this call computes.

    Attributes:
        source: the .c file, beside the module.
        function: the function's name in it.
        ints, floats, arguments: as of a kernel.
        items: input shapes, output shape and attributes -> into how many items the work may be divided among threads;
            None: it is not divided, and the function is called once with the items from 0 to 1.
    """

    source: str
    function: str
    ints: str = ""
    floats: str = ""
    arguments: Callable[[Given, Shape, Attributes], Numbers] = no_numbers
    items: Callable[[Given, Shape, Attributes], int] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class OperatorDeclaration:
    """An operator of a domain of one's own, with one output.

    Attributes:
        domain, name: as nodes in ONNX files have them.
        inputs: a text is an input of that name with all else as it usually is.
        shape: input shapes and attributes -> the output's shape; it raises ValueError for inputs that do not fit.
        reference: the inputs as arrays (None for an absent one) and attributes -> the output, in NumPy.
        attributes: by name; one without a default must be in every node.
        output_type: element type of the output; empty: the first input's.
        kernels: one for buffers, one for images, or none.
        c: the same for CPUs, or None.
        macs: input shapes and output shape -> multiply-accumulates; None: none worth counting.
        data_format: what the meaning of its axes is: `source` (what the model says), `fixed` (images in NCHW) or
            `transposable` (it works along axes that may be in another order).
        cases: on which it is checked and timed.
    """

    domain: str
    name: str
    inputs: Sequence[InputDeclaration | str]
    shape: Callable[[Given, Attributes], Sequence[int]]
    reference: Callable[[Given, Attributes], Array]
    attributes: Mapping[str, Attribute] = dataclasses.field(default_factory=dict)
    output_type: str = ""
    kernels: Sequence[OpenCLKernel] = ()
    c: CFunction | None = None
    macs: Callable[[Given, Shape], int] | None = None
    data_format: DataFormat = "source"
    cases: Sequence[CaseDeclaration] = ()


OUTPUT = "y"

_WORD = re.compile(r"[A-Za-z_]\w{0,63}")
_DOMAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_KINDS = ("int", "count", "float", "bool", "ints", "pair", "sides", "floats")
_FORMS = {
    MemoryType.BUFFER: (ArgumentForm.FLAT, ArgumentForm.VIEW, ArgumentForm.WEIGHTS),
    MemoryType.IMAGE: (ArgumentForm.IMAGE, ArgumentForm.FLAT, ArgumentForm.WEIGHTS),
}


def inputs_of(operator: OperatorDeclaration) -> tuple[InputDeclaration, ...]:
    """The inputs of an operator, those written as a name too."""
    return tuple(InputDeclaration(given) if isinstance(given, str) else given for given in operator.inputs)


def output_type(operator: OperatorDeclaration) -> str:
    """Element type of the output."""
    return operator.output_type or inputs_of(operator)[0].dtype


def check_declaration(operator: OperatorDeclaration) -> None:
    """Raises ValueError for the first thing that is wrong."""
    _check_name(operator)
    _check_inputs(operator)
    for name, attribute in operator.attributes.items():
        _check_attribute(name, attribute)
    if not operator.kernels and operator.c is None:
        raise ValueError("it has neither kernels nor c, so nothing could run it")
    _distinct([kernel.memory for kernel in operator.kernels], "kernels for one memory")
    for kernel in operator.kernels:
        _check_kernel(operator, kernel)
    if operator.c:
        _check_c(operator, operator.c)
    for case in operator.cases:
        _check_case(operator, case)


def _check_name(operator: OperatorDeclaration) -> None:
    if operator.domain == "farm" or operator.domain.split(".")[:2] == ["ai", "onnx"] or not operator.domain:
        raise ValueError(f"domain {operator.domain!r} is not yours: operators of ONNX and farm cannot be replaced")
    if not _DOMAIN.fullmatch(operator.domain):
        raise ValueError(f"domain {operator.domain!r}: use letters, digits, '.', '_' and '-'")
    _words([operator.name], "name")
    if operator.data_format not in ("fixed", "transposable", "source"):
        raise ValueError(f"data_format is {operator.data_format!r}; write source, fixed or transposable")


def _check_inputs(operator: OperatorDeclaration) -> None:
    inputs = inputs_of(operator)
    if not inputs or inputs[0].optional:
        raise ValueError("its first input is needed, and cannot be optional")
    _words([given.name for given in inputs], "inputs")
    _distinct([*(given.name for given in inputs), OUTPUT], f"inputs (the output is {OUTPUT})")
    for before, after in itertools.pairwise(inputs):
        if before.optional and not after.optional:
            raise ValueError(f"input {after.name} follows an optional one, so it must be optional too")
    for kind in (*(given.dtype for given in inputs), output_type(operator)):
        if kind not in ELEMENT_TYPES:
            raise ValueError(f"{kind!r} is no element type; there are {', '.join(sorted(ELEMENT_TYPES))}")
    for given in inputs:
        if not given.low < given.high:
            raise ValueError(f"input {given.name}: low {given.low:g} is not below high {given.high:g}")


def _check_attribute(name: str, attribute: Attribute) -> None:
    _words([name], "attributes")
    if not isinstance(attribute, Attribute):
        raise ValueError(f"attribute {name} is {attribute!r}; write Attribute(kind, default)")
    if not isinstance(attribute.kind, tuple) and attribute.kind not in _KINDS:
        raise ValueError(
            f"attribute {name}: {attribute.kind!r} is no kind; use {', '.join(_KINDS)} or a tuple of words"
        )
    if attribute.default is not None and not fits_kind(attribute.kind, attribute.default):
        raise ValueError(f"attribute {name}: its default {attribute.default!r} is no {attribute.kind}")


def _check_kernel(operator: OperatorDeclaration, kernel: OpenCLKernel) -> None:
    if kernel.memory not in list(MemoryType):
        raise ValueError(f"kernel {kernel.entry}: memory is {kernel.memory!r}; write buffer or image")
    forms = tensor_forms(kernel)
    _check_arguments(operator, kernel.entry, [name for name, _ in forms], kernel.ints, kernel.floats)
    types = {given.name: given.dtype for given in inputs_of(operator)} | {OUTPUT: output_type(operator)}
    constants = {given.name for given in inputs_of(operator) if given.constant}
    for name, form in forms:
        _check_form(kernel, name, form, types[name], name in constants)
    if not kernel.variants or not all(isinstance(each, Variant) for each in kernel.variants):
        raise ValueError(f"kernel {kernel.entry}: variants are what variant(...) makes, at least one")


def _check_form(kernel: OpenCLKernel, name: str, form: str, kind: str, is_constant: bool) -> None:
    allowed = _FORMS[MemoryType(kernel.memory)] if kind == "float32" else (ArgumentForm.FLAT,)
    if form not in allowed:
        raise ValueError(f"kernel {kernel.entry}: {name} ({kind}) is {form!r}; it may be {', '.join(allowed)}")
    if form == ArgumentForm.WEIGHTS and not is_constant:
        raise ValueError(f"kernel {kernel.entry}: {name} is weights, so its Input needs constant=True")


def _check_c(operator: OperatorDeclaration, c: CFunction) -> None:
    names = [*(given.name for given in inputs_of(operator)), OUTPUT]
    _check_arguments(operator, c.function, names, c.ints, c.floats)
    for count, most, what in (
        (len(names), USER_TENSORS, "tensors"),
        (len(c.ints.split()), USER_INTS, "ints"),
        (len(c.floats.split()), USER_FLOATS, "floats"),
    ):
        if count > most:
            raise ValueError(f"C function {c.function}: {count} {what}; {most} are supported")


def _check_arguments(operator: OperatorDeclaration, entry: str, tensors: list[str], ints: str, floats: str) -> None:
    expected = [given.name for given in inputs_of(operator)]
    if sorted(tensors[:-1]) != sorted(expected) or tensors[-1:] != [OUTPUT]:
        wanted = f"{', '.join(expected)} in any order, then {OUTPUT}"
        raise ValueError(f"{entry}: its tensors are {', '.join(tensors) or 'none'}; expected: {wanted}")
    names = [*tensors, *ints.split(), *floats.split()]
    _words([entry, *names], "arguments")
    _distinct(names, f"arguments of {entry}")


def _check_case(operator: OperatorDeclaration, case: CaseDeclaration) -> None:
    inputs = inputs_of(operator)
    absent = {given.name for given, shape in zip(inputs, case.shapes, strict=False) if shape is None}
    optional = {given.name for given in inputs if given.optional}
    if len(case.shapes) != len(inputs) or not absent <= optional:
        raise ValueError(
            f"a case has the shapes {list(case.shapes)} for {len(inputs)} inputs; only optional ones may be None"
        )
    for name, value in case.attributes.items():
        if name not in operator.attributes or not fits_kind(operator.attributes[name].kind, value):
            raise ValueError(f"a case has the attribute {name} = {value!r}, which the operator does not take")


def tensor_forms(kernel: OpenCLKernel) -> list[tuple[str, str]]:
    """Name and form of each tensor argument."""
    return [(name, form or "flat") for name, _, form in (word.partition(":") for word in kernel.tensors.split())]


def _words(words: Iterable[str], what: str) -> None:
    for word in words:
        if not _WORD.fullmatch(word):
            raise ValueError(f"{what}: {word!r} is no name; use letters, digits and '_'")


def _distinct(words: Collection[str], what: str) -> None:
    twice = [word for index, word in enumerate(words) if word in list(words)[:index]]
    if twice:
        raise ValueError(f"two {what} are called {twice[0]}")
