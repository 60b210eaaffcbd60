"""By which kept choice a model's plan is made: the one beside its tuned parameters, where it fits device and graph."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

from farm.config.deployment import Runtime
from farm.jobs.models.prepare import PRECISIONS, Prepared
from farm.kept_choices import NOTHING, ChoiceSubject, FoundChoice, find_choice
from farm.rows.run import NoFile, SelectionUse
from runtime.errors import ConfigError
from runtime.graph import Graph
from runtime.lowering.choice import GraphChoice, graph_hash
from runtime.plan.artifacts import fingerprint_of
from runtime.target import Target
from runtime.types import Precision

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
