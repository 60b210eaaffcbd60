"""How a plan was executed: threads and their CPUs, hints to the driver, launches, and the memory that it took."""

from typing import Literal

from farm.rows.record import Record

HintOutcome = Literal["default", "applied", "not supported", "refused"]


class CpuUse(Record):
    """Threads that share the CPU operators.

    `cpus` are those that were chosen for them (`0-3,6`), `cpus_in_force` what the kernel said of each thread while it
    worked (Cpus_allowed_list of its status in /proc); `policy` is what was asked for.
    """

    threads: int
    instruction_set: str = ""
    policy: str = "none"
    cpus: str = ""
    cpus_in_force: tuple[str, ...] = ()

    @property
    def is_in_force(self) -> bool:
        """Whether every thread was on the chosen CPUs, as far as the kernel tells; always without a policy."""
        return self.policy == "none" or set(self.cpus_in_force) == {self.cpus}


class HintUse(Record):
    """What became of a hint to the GPU's driver: `extension` is the OpenCL extension that took or refused it."""

    asked: Literal["default", "low", "normal", "high"]
    outcome: HintOutcome
    extension: str = ""


class LaunchLimit(Record):
    """What limit_opencl_kernel_time did: launches of a round, and how many steps were split into several."""

    launches: int
    split_steps: int


class PeakMemory(Record):
    """The most memory that farmrt took, where that can be known; `reason` says why a figure is missing.

    `resident_bytes` is the highest resident set since the model was loaded (`resident_since` is then `load`), else
    since farmrt was started (`start`). `gpu_bytes` is what the GPU's driver holds for farmrt, by `gpu_source`.
    """

    resident_bytes: int | None = None
    resident_since: Literal["load", "start"] = "load"
    gpu_bytes: int | None = None
    gpu_source: str = ""
    reason: str = ""


class HintFigures(Record):
    """What became of the hints; None where no step runs on OpenCL."""

    gpu_perf_hint: HintUse | None = None
    gpu_priority_hint: HintUse | None = None


class ExecutionFigures(HintFigures):
    """How a plan was executed. `cpu` is None where no step runs there, `launch_limit` where launches are not split.

    `smaller_groups` counts the steps whose kernels the device allows no work group as large as planned;
    `refused_kernels` are variants that its driver does not build or that compute wrongly, so that the plan has others.
    """

    cpu: CpuUse | None = None
    smaller_groups: int = 0
    refused_kernels: tuple[str, ...] = ()
    launch_limit: LaunchLimit | None = None
    peak_memory: PeakMemory | None = None
