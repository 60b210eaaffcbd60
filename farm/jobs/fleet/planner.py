"""How models are lowered for one unit: its target, what tuning left for it, and the files that all that lies in."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from farm.config.deployment import Runtime
from farm.config.inventory import Unit
from farm.farmrt.answers import DeviceAnswer, OpenClAnswer, ProbeAnswer
from farm.jobs.choices.model_choice import DEFAULT_PLAN, ModelChoice, PlannedChoice, choice_of_files
from farm.jobs.fleet.opencl_library import check_opencl
from farm.jobs.models import cpu_choice, plans
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import Prepared
from farm.rows.run import SelectionUse
from farm.units import tried_kernels
from farm.workspace import Workspace
from runtime.errors import UnsupportedError
from runtime.kernels import table
from runtime.kernels.source import all_sources_hash
from runtime.kernels.spec import MemoryType
from runtime.lowering.choice import GraphChoice
from runtime.plan.plan import Plan
from runtime.target import Target, multiplies_halves
from runtime.types import Precision


@dataclasses.dataclass(frozen=True)
class Planner:
    """A unit as lowering sees it: as farmrt probed it, with the model of device that names its artifacts."""

    unit: Unit
    probe: ProbeAnswer
    device_model: str

    def artifact_files(self, library: str) -> tuple[Path, Path]:
        """Where a library's tuned parameters and compiled kernels for this unit lie, or would."""
        workspace, names = Workspace(library), (self.unit.abi, self.device_model, self.unit.soc)
        return workspace.tuned_file(*names), workspace.kernels_file(*names)

    def selection_file(self, library: str) -> Path:
        """Where a library's kept choices for this unit lie, or would."""
        return Workspace(library).selection_file(self.unit.abi, self.device_model, self.unit.soc)

    def choice_in_force(
        self, prepared: Prepared, runtime: Runtime, target: Target, memory: str | None = None
    ) -> PlannedChoice:
        """The kept choice that a model's plan is made by here; none where the user wants a memory type throughout.

        Nor where it needs kernels that the driver was seen to refuse since it was kept.
        """
        if memory:
            return DEFAULT_PLAN
        files = [self.selection_file(prepared.deployment.library_name)]
        found = choice_of_files(files, prepared, runtime, target)
        if found.choice and target.refused:
            try:
                self.plan(prepared, runtime, found.target(target), choice=found.choice)
            except UnsupportedError as error:
                return PlannedChoice(use=SelectionUse(match="none", file=str(found.file), reason=str(error)))
        return found

    def target(self, prepared: Prepared, runtime: Runtime, memory: str | None = None) -> Target:
        """What to lower a model to on this unit, without what its driver was seen to refuse; see `choose_target`."""
        if runtime != "cpu":
            check_opencl(self.unit, self.probe.opencl.library or "")
        return self.without_refused(choose_target(self.unit, self.probe, prepared, runtime, memory))

    @functools.cached_property
    def refused(self) -> Mapping[str, str]:
        """What does not work with the unit's driver, as `Target.refused` names it, with what was seen; read once."""
        return tried_kernels.refused(self.unit, self.builder_key)

    def refuse(self, found: Mapping[str, str]) -> None:
        """Keeps further such variants, for this session and later ones."""
        tried_kernels.refuse(self.unit, self.builder_key, found)
        vars(self)["refused"] = {**self.refused, **found}

    @property
    def builder_key(self) -> str:
        """Names the driver and the sources that it built: with others of either all variants are tried anew."""
        return f"{self.probe.driver_key} {all_sources_hash()}"

    def without_refused(self, target: Target) -> Target:
        """A target without what the driver was seen to refuse; without images where nothing gets there or back."""
        if target.memory == "cpu":
            return target
        refused = target.refused | frozenset(self.refused)
        converts = not refused.intersection(_conversions(target))
        return dataclasses.replace(target, refused=refused, memory=target.memory if converts else "buffer")

    def cpu_choice_file(self, prepared: Prepared) -> Path:
        """Where tuning keeps how a model is executed on this unit's CPU."""
        workspace = Workspace(prepared.deployment.library_name)
        return workspace.cpu_choice_file(prepared.name, self.unit.abi, self.device_model, self.unit.soc)

    def cpu_choice(self, prepared: Prepared, runtime: Runtime) -> CpuChoice | None:
        """How tuning executes a model on this unit's CPU; None where it was not tuned, or is for another runtime."""
        if runtime != "cpu":
            return None
        return cpu_choice.read(self.cpu_choice_file(prepared), cpu_choice.validity(prepared.graph, self.probe.cpu))

    def model_choice(
        self, prepared: Prepared, runtime: Runtime, target: Target, memory: str | None = None
    ) -> ModelChoice:
        """How tuning has a model lowered and executed on this unit."""
        planned = self.choice_in_force(prepared, runtime, target, memory)
        return ModelChoice(planned, self.cpu_choice(prepared, runtime))

    def plan(
        self,
        prepared: Prepared,
        runtime: Runtime,
        target: Target,
        keep: tuple[str, ...] = (),
        choice: GraphChoice | None = None,
        kind: str = "",
        cpu: CpuChoice | None = None,
    ) -> tuple[Plan, Path]:
        """Lowers a model, by a choice or as tuning chose for the CPU where one is given.

        Returns the plan and the file below the build folder that is its own, or that of another `kind`.
        """
        plan = plans.lowered(prepared, target, ModelChoice(PlannedChoice(choice), cpu).options(prepared, keep))
        kind = kind or (f"{runtime}.layers" if keep else runtime)
        workspace = Workspace(prepared.deployment.library_name)
        path = workspace.plan_file(prepared.name, self.unit.abi, self.unit.soc, kind)
        return plan, plans.own_file(path, target, self.unit.name)


def _conversions(target: Target) -> set[str]:
    """What a plan on images has anyway, as `Target.refused` names it; none of a plan without images."""
    kernels = (table.find_kernel(name, MemoryType.IMAGE) for name in ("buffer_to_image", "image_to_buffer"))
    names = {each.refused_name(each.variants[0], target.precision) for each in kernels}
    return names if target.memory == "image" else set()


def choose_target(
    unit: Unit, probe: ProbeAnswer, prepared: Prepared, runtime: Runtime, memory: str | None = None
) -> Target:
    """What to lower a model to on a unit that `farmrt probe` describes.

    Raises:
        UnsupportedError: the unit cannot run it so; the text says what could be changed.
    """
    if runtime == "cpu":
        precision = prepared.precision(runtime)
        if precision.computes_in_half and not multiplies_halves(probe.cpu.features):
            precision = Precision.FP16_STORAGE
        return probe.target(unit.soc, memory="cpu", precision=precision)
    device = _usable_device(unit, probe.opencl, memory)
    precisions = prepared.precisions(has_half=device.fp16)
    if not precisions:
        reason = f"{device.name} has no fp16 arithmetic; set data_type: fp16_fp32 or fp32_fp32"
        raise UnsupportedError(f"unit {unit.name!r}: {reason}")
    settings = {"memory": memory} if memory else {}
    return probe.target(unit.soc, precision=precisions[0], allow_cpu=prepared.settings.falls_back, **settings)


def _usable_device(unit: Unit, opencl: OpenClAnswer, memory: str | None) -> DeviceAnswer:
    device, where = opencl.device, f"unit {unit.name!r}"
    if device is None:
        reason = opencl.error or "none was found"
        raise UnsupportedError(
            f"{where} has no OpenCL driver ({reason}); `farm doctor --device {unit.name}` says what to do, "
            "or set runtime: cpu"
        )
    if memory == "image" and not device.images:
        raise UnsupportedError(f"{where}: {device.name} has no images; use --memory buffer")
    return device
