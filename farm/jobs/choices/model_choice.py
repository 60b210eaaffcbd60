"""What tuning kept of how a model is lowered and executed: the choice of its plan, and how the CPU runtime runs it."""

from __future__ import annotations

import dataclasses

from farm.config.deployment import Runtime
from farm.config.execution import Execution
from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.choices.in_force import DEFAULT_PLAN, PlannedChoice, choice_of_files
from farm.jobs.models import cpu_choice
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import Prepared
from farm.workspace import Workspace
from runtime.lowering.options import Options
from runtime.target import Target


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
