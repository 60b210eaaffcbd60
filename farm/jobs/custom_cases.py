"""The cases of users' operators as those of `farm opbench`: graphs of one operator at the sizes that it declares."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farm.jobs.models.custom import operators_of_files
from runtime.custom.binding import BoundOperator
from runtime.custom.declaration import CaseDeclaration, Shapes
from runtime.custom.registry import register
from runtime.graph import Graph, Node, TensorInfo
from runtime.operators.case import SEED, OperatorCase
from runtime.operators.table import infer_dtype, infer_shape


@dataclasses.dataclass(frozen=True)
class CustomCase(OperatorCase):
    """A case of a user's operator; `given` has None for an optional input that is absent."""

    bound: BoundOperator = dataclasses.field(kw_only=True)
    given: Shapes = dataclasses.field(kw_only=True)

    def graph(self) -> Graph:
        """The graph; inputs that must be constant are seeded noise in their range."""
        random = np.random.default_rng(SEED)
        graph = Graph(self.name, [], ["y"], [], {}, {})
        names: list[str] = []
        for each, shape in zip(self.bound.inputs, self.given, strict=True):
            names.append("" if shape is None else each.name)
            if shape is None:
                continue
            if each.constant:
                graph.add_constant(each.name, random.uniform(each.low, each.high, shape).astype(each.dtype))
            else:
                graph.inputs.append(each.name)
                graph.tensors[each.name] = TensorInfo(shape, np.dtype(each.dtype))
        while names and not names[-1]:
            names.pop()
        graph.nodes.append(Node(self.op, self.name, names, ["y"], dict(self.attrs)))
        shapes = [graph.shape(name) if name else () for name in names]
        types = [graph.tensors[name].dtype for name in names if name]
        output = infer_shape(self.op, shapes, self.attrs)
        graph.tensors["y"] = TensorInfo(output, infer_dtype(self.op, types, self.attrs))
        return graph


def custom_cases(operators: Iterable[BoundOperator]) -> Iterator[CustomCase]:
    """A case for each size that the operators declare."""
    for bound in operators:
        for case in bound.declared.cases:
            yield custom_case(bound, case.shapes, case)


def cases_of_files(files: Sequence[Path]) -> tuple[CustomCase, ...]:
    """The cases of the operators of some files, and of those that are installed."""
    return tuple(custom_cases(operators_of_files(files)))


def custom_case(bound: BoundOperator, shapes: Shapes, case: CaseDeclaration) -> CustomCase:
    """A case of an operator with the attributes of a declared one, on these shapes."""
    declared = bound.declared
    op = register([bound])[declared.domain, declared.name]
    defaults = {name: attribute.default for name, attribute in declared.attributes.items()}
    attributes = {**defaults, **case.attributes}
    present = tuple(shape for shape in shapes if shape is not None)
    details = [f"{name}{_text(value)}" for name, value in case.attributes.items()]
    sizes = ["x".join(map(str, shape)) or "scalar" for shape in present]
    name = "_".join([f"{declared.domain}.{declared.name}", *sizes, *details])
    return CustomCase(name, op, present, (), attributes, bound=bound, given=tuple(shapes))


def grown(bound: BoundOperator, case: CaseDeclaration) -> Iterator[CustomCase]:
    """A case with each of its sizes made one larger, wherever it stands, where the shape function accepts that.

    So an operator that was declared on even sizes is checked on odd ones too.
    """
    sizes = {size for shape in case.shapes if shape is not None for size in shape}
    for size in sorted(sizes - {1}):
        shapes = [None if shape is None else tuple(n + (n == size) for n in shape) for shape in case.shapes]
        found = custom_case(bound, shapes, case)
        if _is_accepted(bound, shapes, found.attrs):
            yield found


def _is_accepted(bound: BoundOperator, shapes: Shapes, attributes: Any) -> bool:
    """Whether the user's shape function, asked apart since it says no by any exception, takes these shapes."""
    try:
        return math.prod(bound.declared.shape(shapes, attributes)) > 0
    except Exception:  # a refusal of sizes that nobody declared is no fault
        return False


def _text(value: Any) -> str:
    return "x".join(map(_text, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
