"""The choice of a model's plan: what a deployment file asks of it, what tuning kept, and what is told of it."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from farm.config.deployment import Model, Runtime
from farm.config.execution import Execution
from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.models import cpu_choice
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import PRECISIONS, Prepared, data_types
from farm.kept_choices import NOTHING, ChoiceSubject, FoundChoice, find_choice
from farm.rows.run import NoFile, SelectionUse
from farm.workspace import Workspace
from runtime.errors import ConfigError
from runtime.graph import Graph
from runtime.lowering.choice import GraphChoice, graph_hash
from runtime.lowering.options import Options
from runtime.plan.artifacts import fingerprint_of
from runtime.selection.memory import MemoryGoal
from runtime.selection.selection import GraphSelection
from runtime.target import Target
from runtime.types import Precision, Precisions

NOT_KEPT = NoFile()


@dataclasses.dataclass(frozen=True)
class PlannedChoice:
    """The choice that a plan is made by, None for the default plan, and how a row tells of it.

    `precision`: that of the choice; None leaves the first that the deployment file allows.
    """

    choice: GraphChoice | None = None
    use: SelectionUse | NoFile = NOT_KEPT
    file: Path | None = None
    precision: Precision | None = None

    def target(self, target: Target) -> Target:
        """What to lower the model to on a unit: a target in the precision that was chosen."""
        return target if self.precision is None else dataclasses.replace(target, precision=self.precision)


DEFAULT_PLAN = PlannedChoice()


def subject_of(prepared: Prepared, target: Target) -> ChoiceSubject:
    """What a choice for a model on a target is kept under."""
    return ChoiceSubject(
        model=prepared.name,
        precision=",".join(sorted(PRECISIONS[each].label for each in prepared.settings.data_types_on("gpu"))),
        allow_cpu=target.allow_cpu,
        winograd=prepared.settings.winograd,
        activation_limit_mb=prepared.settings.activation_limit_mb,
        activation_slowdown=prepared.settings.activation_slowdown,
    )


def choice_of_files(
    files: Sequence[Path], prepared: Prepared, runtime: Runtime, target: Target, is_named: bool = False
) -> PlannedChoice:
    """The first choice of some files that fits a model on a target; the default plan, with the reason, where none does.

    Raises ConfigError where `is_named`, and the user's file has none that fits.
    """
    if runtime == "cpu" or not files:
        return DEFAULT_PLAN
    fingerprint, graph = fingerprint_of(target), _hash_of(_Graph(prepared.graph))
    subject = subject_of(prepared, target)
    found = [(path, find_choice(path, fingerprint, subject, graph)) for path in files]
    path, best = next(
        ((path, one) for path, one in found if one.choice),
        next(((path, one) for path, one in found if one.reason), (files[0], NOTHING)),
    )
    if is_named and best.choice is None:
        raise ConfigError(f"--selection {path}: {_without(best.reason, path) or f'has no choice for {prepared.name}'}")
    if best.kept is None:
        return PlannedChoice(use=_use(path, best))
    return PlannedChoice(best.choice, _use(path, best), path, best.kept.plan_precision)


def _use(path: Path, found: FoundChoice) -> SelectionUse | NoFile:
    if found.kept is None:
        return (
            SelectionUse(match="none", file=str(path), reason=_without(found.reason, path))
            if found.reason
            else NOT_KEPT
        )
    kept = found.kept
    return SelectionUse(match="exact", file=str(path), predicted_ms=kept.predicted_ms, measured_ms=kept.measured_ms)


def _without(reason: str, path: Path) -> str:
    """The reason without the file's name at its start."""
    return reason.removeprefix(f"{path}: ")


@dataclasses.dataclass(frozen=True, eq=False)
class _Graph:
    """A graph as a key: the same object, not an equal one."""

    graph: Graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Graph) and other.graph is self.graph

    def __hash__(self) -> int:
        return id(self.graph)


@functools.lru_cache(8)
def _hash_of(key: _Graph) -> str:
    """The hash covers the weights' shapes or content: it is computed once for all units."""
    return graph_hash(key.graph)


@dataclasses.dataclass(frozen=True)
class ModelChoice:
    """How a model is lowered: by a choice over its graph, or as tuning chose for the runtime cpu, or by the rules."""

    planned: PlannedChoice = DEFAULT_PLAN
    cpu: CpuChoice | None = None

    def options(self, prepared: Prepared, keep: tuple[str, ...] = ()) -> Options:
        """For the lowering."""
        options = prepared.options(keep, self.planned.choice)
        return dataclasses.replace(options, cpu=self.cpu.options) if self.cpu else options

    def target(self, target: Target) -> Target:
        """What to lower the model to: a target in the precision that tuning chose."""
        return self.planned.target(target)

    def execution(self, execution: Execution) -> Execution:
        """What the user said of the execution, and what was chosen where that says nothing."""
        return cpu_choice.with_choice(execution, self.cpu)


def model_choice(
    unit: Unit, probe: ProbeAnswer, prepared: Prepared, runtime: Runtime, target: Target, memory: str | None = None
) -> ModelChoice:
    """What the build folder has for a unit that a probe describes, whichever unit of its SoC that was tuned on.

    No choice holds where the user wants one memory type throughout.
    """
    workspace = Workspace(prepared.deployment.library_name)
    if runtime != "cpu":
        files = [] if memory else workspace.selection_files(unit.abi, unit.soc)
        return ModelChoice(choice_of_files(files, prepared, runtime, target))
    valid_for = cpu_choice.validity(prepared.graph, probe.cpu)
    found = (cpu_choice.read(path, valid_for) for path in workspace.cpu_choice_files(prepared.name, unit.abi, unit.soc))
    return ModelChoice(cpu=next(filter(None, found), None))


BYTES_PER_MB = 1_000_000


def memory_goal(settings: Model) -> MemoryGoal:
    """The limit of a model's activations in bytes, and the share of time that may be given for less memory."""
    limit_mb = settings.activation_limit_mb
    return MemoryGoal(None if limit_mb is None else int(limit_mb * BYTES_PER_MB), settings.activation_slowdown)


def chosen_data_type(precisions: Precisions, selection: GraphSelection) -> str:
    """The data type of a choice among precisions: those that its operators have."""
    return data_types(selection.choice.precisions or precisions)


def ms_by_data_type(found: Mapping[Precisions, GraphSelection]) -> dict[str, float]:
    """The predicted time of the cheapest choice in each data type, in the order given.

    Where the cheapest choice among all precisions has one of them throughout, it is that of this data type.
    """
    told: dict[str, float] = {}
    for precisions, selection in found.items():
        told.setdefault(chosen_data_type(precisions, selection), selection.milliseconds)
    return told
