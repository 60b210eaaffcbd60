"""How a loaded plan was executed, as part of a row: what ran where, what farmrt answered, what the unit says."""

from collections.abc import Sequence

from farm.condition.gpu_memory import GpuMemory, read_gpu_memory
from farm.config.deployment import Runtime
from farm.config.execution import Execution
from farm.farmrt.answers import LimitAnswer, LoadAnswer, RunAnswer
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.rows.execution import CpuUse, ExecutionFigures, HintFigures, LaunchLimit, PeakMemory
from farm.rows.forecast import CONVERSION_MARK
from farm.rows.run import Placement
from runtime.errors import DeadlineError
from runtime.plan.plan import Step
from runtime.plan.records import StepKind

NO_PEAK = "the kernel does not tell the highest resident set"
NO_GPU_USED = "runtime cpu uses no GPU memory"
GPU_IS_CPU = "the OpenCL device is the CPU: its memory is part of the resident set"
GPU_UNKNOWN = "neither the GPU's driver nor Android tells the memory of a process"


def hint_figures(load: LoadAnswer) -> HintFigures:
    """What became of the hints to the driver."""
    perf, priority = load.perf_hint, load.priority_hint
    return HintFigures(
        gpu_perf_hint=perf.use if perf else None,
        gpu_priority_hint=priority.use if priority else None,
    )


def execution_figures(
    load: LoadAnswer, execution: Execution, run: RunAnswer | None = None, memory: PeakMemory | None = None
) -> ExecutionFigures:
    """What farmrt answered to loading a plan and, where that is known, to running it."""
    return ExecutionFigures(
        **dict(hint_figures(load)),
        cpu=_cpu_use(load, execution, run.worker_cores if run else ()),
        smaller_groups=load.smaller_groups,
        refused_kernels=tuple(load.refused_kernels),
        launch_limit=_limit(run.limit if run else None),
        peak_memory=memory,
    )


def _limit(limit: LimitAnswer | None) -> LaunchLimit | None:
    return limit.use if limit else None


def _cpu_use(load: LoadAnswer, execution: Execution, in_force: Sequence[str]) -> CpuUse | None:
    if load.cpu is None:
        return None
    return CpuUse(
        threads=load.cpu.threads,
        instruction_set=load.cpu.isa,
        policy=execution.cpu_affinity_policy or "none",
        cpus=load.cpu.cores,
        cpus_in_force=tuple(in_force),
    )


def peak_memory(opened: OpenUnit, runtime: Runtime) -> PeakMemory:
    """The most that the unit's farmrt took since it loaded its plan; a figure that cannot be known has a reason."""
    answer = opened.session.memory()
    gpu, reason = _gpu_memory(opened, runtime, answer.process)
    reasons = [reason] if reason else []
    if not answer.peak_resident_bytes:
        reasons.insert(0, NO_PEAK)
    return PeakMemory(
        resident_bytes=answer.peak_resident_bytes or None,
        resident_since="load" if answer.since_load else "start",
        gpu_bytes=gpu.size_bytes,
        gpu_source=gpu.source,
        reason="; ".join(reasons),
    )


def _gpu_memory(opened: OpenUnit, runtime: Runtime, process: int) -> tuple[GpuMemory, str]:
    """What the GPU's driver holds for farmrt, or why that is not known."""
    if runtime == "cpu":
        return GpuMemory(), NO_GPU_USED
    try:
        gpu = read_gpu_memory(opened.transport, process)
    except DeadlineError as error:
        return GpuMemory(), str(error)
    device = opened.probe.opencl.device
    missing = GPU_IS_CPU if device and device.type == "cpu" else GPU_UNKNOWN
    return gpu, "" if gpu.size_bytes is not None else missing


def placement_of(steps: Sequence[Step], step_ns: Sequence[float] = ()) -> Placement:
    """Counts steps; `step_ns` are the times of all, conversions included, where they were measured."""
    counted = [step for step in steps if CONVERSION_MARK not in step.note]
    on_cpu = [step for step in counted if step.kind == StepKind.CPU]
    has_gpu = len(on_cpu) < len(counted)
    gpu_ns = sum(ns for step, ns in zip(steps, step_ns, strict=True) if step.kind != StepKind.CPU) if step_ns else 0.0
    return Placement(
        gpu=len(counted) - len(on_cpu),
        cpu=len(on_cpu),
        gpu_time_share=gpu_ns / sum(step_ns) if any(step_ns) else None,
        cpu_types=tuple(dict.fromkeys(step.op for step in on_cpu)) if has_gpu else (),
    )


def measured_placement(opened: OpenUnit, steps: Sequence[Step], round_ms: float) -> Placement:
    """The same with the time of each side, of one more round, where both have steps."""
    if len({step.kind for step in steps}) < 2:
        return placement_of(steps)
    answer = opened.session.run(1, rounds_deadline_s(1, round_ms), profile=True)
    return placement_of(steps, [step.ns[0] for step in answer.steps])
