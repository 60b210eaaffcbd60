"""Models lowered once for each target, however many units share it, and the files that the plans are written to."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable
from pathlib import Path

from farm.jobs.models.prepare import Prepared
from runtime.errors import ConfigError, ModelError
from runtime.graph import Graph
from runtime.lowering.lower import Options, lower
from runtime.plan.plan import Plan
from runtime.plan.shared_data import with_shared_data
from runtime.target import Target

MOST_PLANS = 8  # a plan holds its weights, small ones in memory

_lowering = threading.Lock()
_owners: dict[Path, Target] = {}  # by absolute path: a process may change its working folder


@dataclasses.dataclass(frozen=True, eq=False)
class _Model:
    """A model's graph as a key: the same object, not an equal one."""

    graph: Graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Model) and other.graph is self.graph

    def __hash__(self) -> int:
        return id(self.graph)


def lowered(prepared: Prepared, target: Target, options: Options) -> Plan:
    """The plan of a model for a target; units that ask for the same at the same time wait for one lowering."""
    with _lowering:
        return _lowered(_Model(prepared.graph), target, options)


@functools.lru_cache(MOST_PLANS)
def _lowered(model: _Model, target: Target, options: Options) -> Plan:
    return lower(model.graph, target, options)


def sharing(plan: Plan, prepared: Prepared, lower_sibling: Callable[[Prepared], Plan]) -> Plan:
    """A model's plan, its weights in one data file with those of the siblings' plans that have much in common with it.

    A sibling that cannot be lowered shares nothing.
    """
    if not prepared.shares_weights:
        return plan
    of_siblings = {prepared.name: plan}
    for sibling in prepared.siblings:
        if sibling.name not in of_siblings:
            with contextlib.suppress(ModelError, ConfigError):
                of_siblings[sibling.name] = lower_sibling(sibling)
    names = [sibling.name for sibling in prepared.siblings if sibling.name in of_siblings]
    shared = with_shared_data([of_siblings[name] for name in names])
    return dict(zip(names, shared, strict=True)).get(prepared.name, plan)


def own_file(path: Path, target: Target, unit: str) -> Path:
    """The path, or one with the unit's name where a unit of the same SoC writes another target's plan there.

    The precision does not matter: tuning may choose another one for the same unit.
    """
    device = target.in_float
    with _lowering:
        owner = _owners.setdefault(path.absolute(), device)
    return path if owner == device else path.with_name(f"{unit}.{path.name}")
