"""Makes trial plans: each distinct tunable launch of some models, as an operator with its own input and expectation."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.kernels.source import build_options
from runtime.kernels.spec import Kernel, MemoryType, Variant, WorkItems
from runtime.lowering.assembly import assemble_plan, image_size_of, round_up
from runtime.lowering.builder import Builder
from runtime.lowering.choice import NodeChoice, graph_choice
from runtime.lowering.launch import Launch
from runtime.lowering.launcher import WEIGHT_SLACK
from runtime.lowering.lower import emit_launches, lower
from runtime.lowering.options import Options
from runtime.lowering.trial_inputs import trial_inputs
from runtime.lowering.value import Value
from runtime.oracle.evaluate import evaluate
from runtime.plan.plan import Expectation, Plan, ProfileInfo, Size3, Step
from runtime.plan.plan_data import LaidOutData
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import ELEMENT_BYTES, ElementType, Precision, Storage

_SEED = 20
_FLOAT_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Use:
    """A use of a launch: a model, and the step in it."""

    model: str
    step: str


@dataclasses.dataclass(frozen=True)
class TrialLaunch:
    """A distinct launch, with what may be varied of it and where models use it.

    `step` is its index in the trial plan, `poison` that of the step that fills its output with NaN (None: there is
    none); `local_size` the default, zeros where the driver chooses. `macs` and `bytes` are what it computes and, at
    least, touches: its output and its weights. `checked_in`: the least exact precision up to where its output is
    compared; None: its own.
    """

    key: str
    step: int
    poison: int | None
    kernel: Kernel
    dims: Mapping[str, int]
    defines: Mapping[str, int]
    precision: Precision
    variant: Variant
    local_size: Size3
    uses: tuple[Use, ...]
    macs: int = 0
    bytes: int = 0
    checked_in: Precision | None = None

    @property
    def tolerance(self) -> Precision:
        """The precision that decides how far its output may be off."""
        return self.precision if self.checked_in is None else self.checked_in

    def work_items(self, variant: Variant) -> WorkItems:
        """Logical global size under a variant."""
        return self.kernel.work_items(self.dims, variant)

    def global_size(self, variant: Variant, local_size: Sequence[int]) -> Size3:
        """Global size under a variant, rounded up to the local size."""
        items = self.work_items(variant)
        return round_up(items, tuple(local_size)[: len(items)])

    def options(self, variant: Variant) -> str:
        """Build options under a variant."""
        return build_options(variant, self.precision, self.defines)

    def block(self, variant: Variant) -> int:
        """Packing of the weights under a variant, 0 where it packs none."""
        return self.kernel.block(variant) if self.kernel.block else 0


@dataclasses.dataclass(frozen=True)
class TrialPlan:
    """A plan for farmrt's `trial`, its inputs, and what can be tried."""

    plan: Plan
    inputs: Mapping[str, Array]
    launches: tuple[TrialLaunch, ...]


def trial_plan(graphs: Sequence[Graph], target: Target, options: Options | None = None) -> TrialPlan:
    """One plan with the distinct tunable launches of all graphs; weights and inputs are the graphs' and seeded noise.

    Launches that differ only in names are one, so that it is measured once for all models.
    """
    chosen = dataclasses.replace(options or Options(), reuse_memory=False, keep=())
    uses = _uses(graphs, target, chosen)
    merged, as_merged = _merged(graphs, target, chosen)
    return plan_of_trials(emit_launches(merged, target, dataclasses.replace(as_merged, keep=merged.layers)), uses)


def plan_of_trials(builder: Builder, uses: Mapping[str, Sequence[Use]]) -> TrialPlan:
    """The plan of launches that were emitted for trials, with what each must write; those in `uses` can be tried."""
    mixes = len({launch.precision.element for launch in builder.launches}) > 1
    inputs = trial_inputs(builder.graph, np.random.default_rng(_SEED), in_half=mixes)
    poison_of = poison_outputs(builder)
    plan = _with_expectations(assemble_plan(builder), evaluate(builder.graph, inputs))
    distinct = [(index, step) for index, step in _distinct(plan) if step.tuning_key in uses]
    check = {expected.step: expected.check_step for expected in plan.expectations}
    launches = [
        _launch(index, poison_of.get(index), plan.steps[index : check[index] + 1], uses) for index, _ in distinct
    ]
    return TrialPlan(plan, inputs, tuple(launches))


def _uses(graphs: Sequence[Graph], target: Target, options: Options) -> dict[str, list[Use]]:
    uses: dict[str, list[Use]] = {}
    for graph in graphs:
        for step in lower(graph, target, options).steps:
            if step.tuning_key:
                uses.setdefault(step.tuning_key, []).append(Use(graph.name, step.name))
    return uses


def _merged(graphs: Sequence[Graph], target: Target, options: Options) -> tuple[Graph, Options]:
    """Joins the nodes that bring new launches into one graph, in which each node reads inputs of its own.

    Returned with the options that lower it as `options` lower the graphs; a choice is for a single one of these.
    """
    merged, chosen = Graph("trials", [], [], [], {}, {}), dict[str, NodeChoice]()
    tuning_keys: set[str] = set()
    for index, graph in enumerate(graphs):
        for node in graph.nodes:
            single = alone(graph, node, f"{index}:")
            if not single.inputs:
                continue
            own = {single.outputs[0]: options.choice.of(node)} if options.choice else {}
            steps = lower(single, target, _chosen_by(options, single, own)).steps
            keys = {step.tuning_key for step in steps if step.tuning_key}
            if keys - tuning_keys:
                tuning_keys |= keys
                chosen |= own
                append(merged, single)
    return merged, _chosen_by(options, merged, chosen)


def _chosen_by(options: Options, graph: Graph, nodes: Mapping[str, NodeChoice]) -> Options:
    """The options with a choice for a graph made of chosen nodes; without one where they have none."""
    return dataclasses.replace(options, choice=graph_choice(graph, nodes)) if options.choice else options


def alone(graph: Graph, node: Node, prefix: str) -> Graph:
    """Makes a graph of one node, with the names of its tensors made unique by `prefix`."""
    names = [f"{prefix}{node.name}:{i}:{name}" if name else "" for i, name in enumerate(node.inputs)]
    output = f"{prefix}{node.output}"
    copy = Node(node.op, prefix + node.name, names, [output], dict(node.attrs))
    tensors = {new: graph.tensors[old] for new, old in zip(names, node.inputs, strict=True) if old}
    tensors[output] = graph.tensors[node.output]
    pairs = [(new, old) for new, old in zip(names, node.inputs, strict=True) if old]
    constants = {new: graph.constants[old] for new, old in pairs if graph.is_constant(old)}
    inputs = [new for new, old in pairs if not graph.is_constant(old)]
    return Graph(node.name, inputs, [output], [copy], tensors, constants)


def append(merged: Graph, single: Graph) -> None:
    """Adds a graph of one node to the trials.

    Only the last node's output is an output of the graph; the others are kept layers, whose conversion follows right
    behind their node.
    """
    merged.nodes += single.nodes
    merged.inputs += single.inputs
    merged.outputs = single.outputs
    merged.tensors |= single.tensors
    merged.constants |= single.constants


def _with_expectations(plan: Plan, expected: Mapping[str, Array]) -> Plan:
    """Adds to a plan what each operator must write: the values behind the weights, and a record for each launch."""
    data = LaidOutData.beginning_with(plan.data)
    rows = []
    outputs = {tensor.step: index for index, tensor in enumerate(plan.tensors) if tensor.step is not None}
    offsets: dict[int, int] = {}
    for index, step in enumerate(plan.steps):
        if not step.tuning_key:
            continue
        check = min(writer for writer in outputs if writer >= index)
        values = expected[plan.tensors[outputs[check]].name].astype(np.float32)
        if check not in offsets:
            offsets[check] = data.append(values)
        rows.append(Expectation(index, check, outputs[check], offsets[check], values.size))
    return dataclasses.replace(plan, data=data, expectations=tuple(rows))


def _distinct(plan: Plan) -> list[tuple[int, Step]]:
    """The first step of each tuning key."""
    first: dict[str, tuple[int, Step]] = {}
    for index, step in enumerate(plan.steps):
        if step.tuning_key:
            first.setdefault(step.tuning_key, (index, step))
    return list(first.values())


def _launch(index: int, poison: int | None, steps: Sequence[Step], uses: Mapping[str, Sequence[Use]]) -> TrialLaunch:
    """A launch, from its own step to the one whose output is compared."""
    step, precisions = steps[0], [each.precision for each in steps if each.precision is not None]
    return TrialLaunch(
        key=step.tuning_key,
        step=index,
        poison=poison,
        kernel=step.kernel,
        dims=step.dims,
        defines=step.defines,
        precision=precisions[0],
        variant=step.variant,
        local_size=step.local_size,
        uses=tuple(uses[step.tuning_key]),
        macs=step.macs,
        bytes=_FLOAT_BYTES * (math.prod(step.shown.output_shape) + math.prod(step.shown.filter_shape)),
        checked_in=max(precisions),
    )


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
