"""What the outputs of a model's own inputs do not show: the tensors before squashing operators, and further inputs.

Outputs of Softmax hide faults of what it reads, and one input those that it does not excite: with zeros little but the
biases is left. So each of some inputs is a case with the reference's values of outputs and of squashed tensors. Which
of them are evidence hangs on the precision: see `FurtherTensor`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import onnx

from farm.config.deployment import Input
from farm.model import metrics
from farm.model.arithmetic_limits import LARGEST_HALF
from farm.model.further_inputs import NUDGE, Inputs, further_inputs, nudged
from farm.model.oracle import Oracle
from runtime.errors import NoReferenceError
from runtime.graph import Array, Graph
from runtime.importers.farm_domain import DOMAIN, CustomNames
from runtime.importers.functions import domain_of
from runtime.operators.activations import ACTIVATION_OF
from runtime.passes.fusion import with_activation_apart
from runtime.types import Precision

STEPS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "Round", "Floor", "Ceil"})
FLOAT_NUDGE = 2.0**-24  # half a step of float32, as NUDGE is of half precision
LINEAR_NOISE = 1e-3  # up to here noise grows with the nudge; a normalised constant has as much of it from any nudge
NUDGE_MARGIN = 16  # noise of rounding within the model over that of rounding its input alone
OWN = ""


@dataclasses.dataclass(frozen=True)
class FurtherTensor:
    """A tensor as the reference has it.

    `what`: how it is called; `inner`: it is no output, but what a squashing operator reads. `half_noise`,
    `float_noise`: how much it moves, as a share of its power, where the input moves by half a step of half precision,
    or of float32.
    """

    what: str
    value: Array
    inner: bool
    half_noise: float = 0.0
    float_noise: float = 0.0

    def is_evidence(self, precision: Precision, allowed_noise: float) -> bool:
        """Whether a right plan of the precision must compute it: not where rounding the input alone moves it as far.

        What lies beyond half's range before a Softmax, such as a mask of -1e9, is right as an infinity too.
        """
        if self.inner and precision.stores_half and not float(np.abs(self.value).max()) <= LARGEST_HALF:
            return False
        noise = self.half_noise if precision.stores_half else self.float_noise
        return NUDGE_MARGIN * noise <= allowed_noise


@dataclasses.dataclass(frozen=True)
class FurtherCase:
    """Inputs, how they are called (OWN: the model's own), and what is compared: tensor of the graph -> reference."""

    name: str
    inputs: Inputs
    expected: Mapping[str, FurtherTensor]


@dataclasses.dataclass(frozen=True)
class FurtherCases:
    """All cases of a model.

    `graph`: the model's, with activations of their own where they are fused and squash. `kept`: its squashed tensors.
    `apart`: of these, those that such activations read -> what these write.
    """

    graph: Graph
    kept: tuple[str, ...] = ()
    apart: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cases: tuple[FurtherCase, ...] = ()


def further_cases(
    source: onnx.ModelProto,
    graph: Graph,
    custom: CustomNames,
    tensors: Sequence[Input],
    own: Inputs,
    given: Collection[str],
) -> FurtherCases:
    """The cases of a bounded model and of the graph that it was converted to; `given` inputs stay as in `own`.

    A model that finds a number of things has none: how many it finds of noise is chance. What the reference has no
    finite value of, or the same everywhere, is left out, and so are integers of further inputs.
    """
    if graph.padded or any(node.domain == DOMAIN for node in source.graph.node):
        return FurtherCases(graph)
    reference = _Reference(source, graph, custom)
    found = [_case(reference, OWN, own, functools.partial(nudged, tensors, own, ()))] if reference.kept else []
    for name, inputs in further_inputs(tensors, own, given).items():
        found.append(_case(reference, name, inputs, functools.partial(nudged, tensors, inputs, given)))
    cases = tuple(case for case in found if case.expected)
    return FurtherCases(reference.graph, reference.kept, reference.apart, cases)


class _Reference:
    """The oracle of a model whose squashed tensors are outputs too, as far as the graph still has them."""

    def __init__(self, source: onnx.ModelProto, graph: Graph, custom: CustomNames) -> None:
        self.graph = graph
        self.apart: dict[str, str] = {}
        self._squashed = {form: each for each in squashed_tensors(source) if (form := self._form(each))}
        names = {each.tensor for each in self._squashed.values()}
        self.steps = any(node.op_type in STEPS for node in source.graph.node)
        self._oracle = Oracle(_with_outputs(source, names), custom)

    @property
    def kept(self) -> tuple[str, ...]:
        """The graph's names of the squashed tensors."""
        return tuple(self._squashed)

    def _form(self, squashed: SquashingInput) -> str:
        """The graph's name of a squashed tensor, which then has one; empty where passes have dissolved it."""
        if form := _form(self.graph, squashed.tensor):
            return form
        result = _form(self.graph, squashed.result)
        node = self.graph.producer(result)
        if node is None or node.attrs.get("activation") != ACTIVATION_OF.get(squashed.operator, ""):
            return ""
        self.graph, form = with_activation_apart(self.graph, result, squashed.tensor)
        self.apart[form] = result
        return form

    def values(self, inputs: Inputs) -> dict[str, FurtherTensor]:
        """The tensors that show something, by the graph's names; none where there is no reference."""
        with contextlib.suppress(NoReferenceError):
            found = self._oracle.outputs(inputs)
            return {name: each for name, each in self._named(found) if self._shows(name, each.value)}
        return {}

    def _named(self, found: Mapping[str, Array]) -> Iterator[tuple[str, FurtherTensor]]:
        for name in self.graph.outputs:
            yield name, FurtherTensor(name, found[name], inner=False)
        for form, squashed in self._squashed.items():
            moved, value = self.graph.moved.get(form), found[squashed.tensor]
            if moved:
                value = value.transpose(moved.perm)
            yield form, FurtherTensor(f"{squashed.tensor}, the input of {squashed.operator}", value, inner=True)

    def _shows(self, name: str, value: Array) -> bool:
        if value.shape != self.graph.shape(name) or value.dtype != self.graph.tensors[name].dtype or not value.size:
            return False
        return bool(np.isfinite(value).all()) and bool((value != value.flat[0]).any())


def _case(reference: _Reference, name: str, inputs: Inputs, move: Callable[[float], Inputs]) -> FurtherCase:
    """The outputs of a model's own inputs are compared anyway, and are not in its case.

    `move`: the inputs, moved by a share of the largest value.
    """
    values, after = reference.values(inputs), reference.values(move(NUDGE))
    compared = {
        at: _noise(each.value, after[at].value)
        for at, each in values.items()
        if at in after and (each.inner or name != OWN) and each.value.dtype.kind == "f"
    }
    floats = {at: noise * (FLOAT_NUDGE / NUDGE) ** 2 for at, noise in compared.items()}
    if reference.steps:  # the model rounds within: a smaller nudge moves it as far
        floats = compared
    elif max(compared.values(), default=0.0) > LINEAR_NOISE:
        finely = reference.values(move(FLOAT_NUDGE))
        floats = {at: _noise(values[at].value, finely[at].value) if at in finely else math.inf for at in compared}
    expected = {
        at: dataclasses.replace(values[at], half_noise=noise, float_noise=floats[at]) for at, noise in compared.items()
    }
    return FurtherCase(name, inputs, expected)


def _noise(value: Array, moved: Array) -> float:
    """The power of the difference, as a share of the value's."""
    return float(10.0 ** (-metrics.compare(value, moved).sqnr_db / 10.0))


def _form(graph: Graph, tensor: str) -> str:
    """The graph's name of a tensor of its source that a node writes, in whatever order of axes; empty without one."""
    moved = (name for name in graph.layers if name in graph.moved and graph.moved[name].tensor == tensor)
    return tensor if tensor in graph.layers else next(moved, "")


def _with_outputs(model: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    if not names:
        return model
    extended = onnx.ModelProto()
    extended.CopyFrom(model)
    extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return extended


# Finds what the last operators of a model squash: Softmax and its like hide faults of what comes before them.
#
# A dropped bias moves a probability of 0.001 by a tenth of itself, which no threshold on outputs of up to 1 can see.
SQUASHING = frozenset(
    {"Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid", "Tanh", "Hardmax", "ArgMax", "ArgMin", "TopK"}
)
PASSING = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Cast", "Slice", "Split", "Concat"}
)


@dataclasses.dataclass(frozen=True)
class SquashingInput:
    """A tensor that an operator of this type reads, and what that writes of it."""

    tensor: str
    operator: str
    result: str


def squashed_tensors(model: onnx.ModelProto) -> tuple[SquashingInput, ...]:
    """What squashing operators read that only PASSING or squashing ones follow; outputs of the model are none."""
    writers = {name: node for node in model.graph.node for name in node.output if name}
    found: dict[str, SquashingInput] = {}
    seen, ahead = set(), [value.name for value in model.graph.output]
    while ahead:
        name = ahead.pop()
        node = writers.get(name)
        if node is None or name in seen or domain_of(node):
            continue
        seen.add(name)
        if node.op_type in SQUASHING and node.input[0] in writers:
            found[node.input[0]] = SquashingInput(node.input[0], node.op_type, name)
        if node.op_type in SQUASHING | PASSING:
            ahead += node.input if node.op_type == "Concat" else node.input[:1]
    outputs = {value.name for value in model.graph.output}
    return tuple(each for each in found.values() if each.tensor not in outputs)
