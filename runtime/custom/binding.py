"""Binds a declaration to its source files: the rows of our tables that a user's operator becomes."""

import dataclasses
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runtime.custom.declaration import (
    Attributes,
    CFunction,
    InputDeclaration,
    Numbers,
    OpenCLKernel,
    OperatorDeclaration,
    Shape,
    Shapes,
    check_declaration,
    inputs_of,
    output_type,
    tensor_forms,
)
from runtime.custom.user_code import called
from runtime.errors import ConfigError, ModelError
from runtime.graph import Array
from runtime.host.regular_file import open_regular
from runtime.kernels.buffer.spec import default_buffer_local_size
from runtime.kernels.spec import (
    ArgumentForm,
    Dims,
    Kernel,
    MemoryType,
    Variant,
    WorkItems,
    always_fits,
    within_local_limit,
)
from runtime.operators.row import CustomOperator
from runtime.operators.row import Operator as Row
from runtime.target import Target

MAX_EXTENT = 2**31 - 1
DIGEST_DIGITS = 12


@dataclasses.dataclass(frozen=True, eq=False)
class BoundC:
    """A C function with its text. `name`: the CPU operator in plans, which holds the content's hash."""

    declared: CFunction
    text: str
    name: str


@dataclasses.dataclass(frozen=True, eq=False)
class BoundOperator:
    """A user's operator that can be used.

    Attributes:
        module: the file that declares it.
        digest: of the module and all source files.
        kernels: the kernel for each memory, with what was declared of it.
    """

    declared: OperatorDeclaration
    module: Path
    inputs: tuple[InputDeclaration, ...]
    digest: str
    kernels: Mapping[MemoryType, tuple[OpenCLKernel, Kernel]]
    c: BoundC | None

    @property
    def title(self) -> str:
        """`acme::GatedSilu`, as people know it."""
        return f"{self.declared.domain}::{self.declared.name}"

    def present(self, shapes: Sequence[Shape]) -> Shapes:
        """Shapes of all inputs, None for those that are absent: the graph has () for them, or nothing at the end."""
        padded = [*shapes, *[()] * (len(self.inputs) - len(shapes))]
        return [
            None if each.optional and shape == () else shape for each, shape in zip(self.inputs, padded, strict=True)
        ]

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        """The output's shape; raises ModelError where the user's function fails, or returns what is no shape."""
        found = called(f"{self.title}: shape function", self.declared.shape, self.present(shapes), attributes)
        if not _is_shape(found):
            raise ModelError(f"{self.title}: its shape function returned {found!r}; expected: a tuple of sizes")
        return tuple(int(size) for size in found)

    def compute(self, arguments: Sequence[Array | None], attributes: Attributes) -> Array:
        """What the reference computes; raises ModelError where it fails, or returns another shape than it should."""
        padded = [*arguments, *[None] * (len(self.inputs) - len(arguments))]
        found: Any = called(f"{self.title}: reference", self.declared.reference, padded, attributes)
        shape = self.shape([() if each is None else each.shape for each in padded], attributes)
        if not isinstance(found, np.ndarray | np.generic):
            raise ModelError(f"{self.title}: its reference returned {type(found).__name__}, not an array")
        if found.shape != shape:
            raise ModelError(
                f"{self.title}: its reference returned shape {found.shape}, its shape function says {shape}"
            )
        return np.asarray(found).astype(self._result_type(padded), copy=False)

    def _result_type(self, arguments: Sequence[Array | None]) -> np.dtype[Any]:
        """Floats keep the digits of the inputs, which are more where a caller wants more."""
        own = np.dtype(output_type(self.declared))
        floats = [each.dtype for each in arguments if each is not None and each.dtype.kind == "f"]
        return np.result_type(own, *floats) if own.kind == "f" and floats else own

    def row(self) -> Row:
        """The row of the graph's operators."""
        declared = self.declared
        needed = sum(not each.optional for each in self.inputs)
        return Row(
            inputs=(needed, len(self.inputs)),
            shape=self.shape,
            attributes={name: attribute.kind for name, attribute in declared.attributes.items()},
            macs=self._macs,
            custom=CustomOperator(
                domain=declared.domain,
                name=declared.name,
                defaults={name: a.default for name, a in declared.attributes.items() if a.default is not None},
                input_types=tuple(each.dtype for each in self.inputs),
                output_type=declared.output_type,
                input_ranges=tuple((each.low, each.high) for each in self.inputs),
                data_format=declared.data_format,
            ),
        )

    def _macs(self, shapes: Sequence[Shape], output: Shape) -> int:
        if self.declared.macs is None:
            return 0
        return int(called(f"{self.title}: macs", self.declared.macs, self.present(shapes), output))

    def numbers(
        self, of: OpenCLKernel | CFunction, shapes: Sequence[Shape], output: Shape, attributes: Attributes
    ) -> tuple[dict[str, int], dict[str, float]]:
        """The ints and floats of a launch by name; raises ModelError for one that is missing or no such number."""
        found = called(f"{self.title}: arguments", of.arguments, self.present(shapes), output, attributes)
        ints = {name: self._number(found, name, int) for name in of.ints.split()}
        return ints, {name: float(self._number(found, name, float)) for name in of.floats.split()}

    def _number(self, found: Numbers, name: str, kind: type[Any]) -> Any:
        value = found.get(name)
        allowed = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        if not isinstance(value, allowed) or isinstance(value, bool) or (kind is int and abs(value) > MAX_EXTENT):
            raise ModelError(
                f"{self.title}: its function `arguments` gives {name} = {value!r}; expected: {kind.__name__}"
            )
        return kind(value)


def bind(operator: OperatorDeclaration, module: Path, module_digest: str) -> BoundOperator:
    """An operator of a module, with its source files; ConfigError names module, operator and what is wrong."""
    if not isinstance(operator, OperatorDeclaration):
        raise ConfigError(f"{module}: OPERATORS holds {operator!r}, which is no Operator")
    title = f"{module}: operator {operator.domain}::{operator.name}"
    try:
        check_declaration(operator)
        texts = {kernel.memory: _source(module, kernel.source, kernel.entry) for kernel in operator.kernels}
        c_text = _source(module, operator.c.source, operator.c.function) if operator.c else ""
    except (ValueError, TypeError, AttributeError) as error:  # a value of a wrong type may fail in any check
        raise ConfigError(f"{title}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{title}: {error}") from None
    digest = _digest(module_digest, operator.name, *texts.values(), c_text)
    kernels = {
        MemoryType(kernel.memory): (kernel, _kernel(operator, kernel, texts[kernel.memory]))
        for kernel in operator.kernels
    }
    return BoundOperator(operator, module, inputs_of(operator), digest, kernels, _bound_c(operator, digest, c_text))


def _bound_c(operator: OperatorDeclaration, digest: str, text: str) -> BoundC | None:
    if operator.c is None:
        return None
    return BoundC(operator.c, text, f"{operator.domain}.{operator.name}@{digest}")


def _source(module: Path, source: str, entry: str) -> str:
    text = read_source(module.parent / source)
    if not re.search(rf"\b{entry}\s*\(", text):
        raise ConfigError(f"{source}: it has no function {entry}")
    return text


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGEST_DIGITS]


def _is_shape(found: Any) -> bool:
    return isinstance(found, tuple | list) and all(
        isinstance(size, int | np.integer) and not isinstance(size, bool) and 0 <= size <= MAX_EXTENT for size in found
    )


def _kernel(operator: OperatorDeclaration, declared: OpenCLKernel, text: str) -> Kernel:
    work_items = _checked_work_items(f"{operator.domain}::{operator.name}: work_items", declared.work_items)
    fits = declared.fits or always_fits

    def local_size(dims: Dims, variant: Variant, target: Target) -> WorkItems:
        return default_buffer_local_size(work_items(dims, variant), within_local_limit(target, declared.local_limit))

    return Kernel(
        name=declared.entry,
        source=declared.source,
        operator=operator.name,
        memory=MemoryType(declared.memory),
        tensors=tuple((name, ArgumentForm(form)) for name, form in tensor_forms(declared)),
        ints=tuple(declared.ints.split()),
        floats=tuple(declared.floats.split()),
        work_items=work_items,
        variants=declared.variants,
        defaults={"": declared.variants[:1], **{family: (each,) for family, each in declared.defaults.items()}},
        fits=lambda dims, variant, target: called(f"{operator.name}: fits", fits, dims, variant, target),
        local_size=local_size,
        splittable=declared.splittable,
        tunable=output_type(operator) == "float32",
        cpu=False,
        text=text,
        local_limit=declared.local_limit,
    )


def _checked_work_items(
    what: str, function: Callable[[Dims, Variant], WorkItems]
) -> Callable[[Dims, Variant], WorkItems]:
    """The user's function, which must return one to three extents of at least 1."""

    def checked(dims: Dims, variant: Variant) -> WorkItems:
        found = called(what, function, dims, variant)
        if not (_is_shape(found) and 1 <= len(found) <= 3 and math.prod(found) >= 1):
            raise ModelError(f"{what} returned {found!r}; expected: one to three extents of at least 1")
        return tuple(int(extent) for extent in found)

    return checked


MAX_SIZE_BYTES = 1 << 20

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_source(path: Path) -> str:
    """The text of a source file; every file in it comes once, with `#line` so that compilers name the user's lines.

    Raises ConfigError where a file is missing, is no text, or is larger than source code ever is.
    """
    return "".join(_expanded(path, set()))


def _expanded(path: Path, seen: set[Path]) -> Iterator[str]:
    seen.add(path.resolve())
    yield f'#line 1 "{path.name}"\n'
    for number, line in enumerate(_text(path).splitlines(), 1):
        include = _INCLUDE.match(line)
        inner = path.parent / include[1] if include else None
        if inner is None or not inner.is_file():
            yield f"{line}\n"
            continue
        if inner.resolve() not in seen:
            yield from _expanded(inner, seen)
        yield f'#line {number + 1} "{path.name}"\n'


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            content = file.read(MAX_SIZE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_SIZE_BYTES or b"\0" in content:
        raise ConfigError(f"{path}: is no source code, or larger than {MAX_SIZE_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
