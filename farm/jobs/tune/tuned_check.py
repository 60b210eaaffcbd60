"""Whether the tuned files of the build folder are still good for a unit: whole, valid for its driver, a gain."""

from __future__ import annotations

from pathlib import Path

from farm import artifacts
from farm.condition.throttling import RetryPolicy
from farm.config.deployment import Runtime
from farm.jobs.compare.interleaved import Comparison, Effort, TunedFiles, compare
from farm.jobs.fleet.job_rows import Members
from farm.jobs.fleet.unit import OpenUnit, write_plan
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import output_members
from farm.rows.row import Status
from farm.workspace import Workspace
from tuner.statistics import Ratio

QUICK = Effort(turns=8, turn_ms=40.0)
NOTICEABLE = 0.01  # two processes that do the very same may differ by so much, with an interval that excludes 1
NO_FILES = "no tuned files"


def check_tuned(
    opened: OpenUnit,
    prepared: Prepared,
    runtime: Runtime,
    data: TestData,
    memory: str | None = None,
    effort: Effort = QUICK,
    rest: RetryPolicy | None = None,
) -> Members:
    """Members of a NightlyRow that tell of the stored tuned files; status and reason only where the outputs are wrong.

    Raises JobError where farmrt fails with these files.
    """
    if runtime == "cpu":
        return {}
    tuned_file, kernels_file = _stored(opened, prepared)
    if tuned_file is None:
        return {"tuned_verdict": NO_FILES}
    if damage := _damage(tuned_file, kernels_file):
        return {"tuned_verdict": damage}
    plan, plan_file = opened.plan(prepared, runtime, opened.target(prepared, runtime, memory))
    write_plan(plan, plan_file)
    limited = prepared.settings.limit_opencl_kernel_time
    used = opened.load(plan_file, tuned_file, kernels_file, limited)["tuned"]
    if used["match"] != "exact":
        return {"tuned_verdict": _not_valid(used["reason"], opened.unit.soc)}
    opened.watch.stage(f"{prepared.name}: default against tuned")
    files = TunedFiles(plan, plan_file, tuned_file, kernels_file, limited)
    return _members(prepared, runtime, data, compare(opened, files, data, effort, rest))


def _stored(opened: OpenUnit, prepared: Prepared) -> tuple[Path | None, Path | None]:
    """The tuned parameters and compiled kernels of the build folder for this unit."""
    workspace = Workspace(prepared.deployment.library_name)
    names = (opened.unit.abi, opened.device_model, opened.unit.soc)
    tuned, kernels = (
        path if path.is_file() else None for path in (workspace.tuned_file(*names), workspace.kernels_file(*names))
    )
    return tuned, kernels


def _damage(*files: Path | None) -> str:
    """What is wrong with the files themselves; empty where nothing is."""
    findings = (finding for path in files if path for finding in artifacts.verify(path, {}))
    bad = [finding for finding in findings if not finding.good]
    return f"damaged: {bad[0].path.name}: {bad[0].text.removeprefix(f'{bad[0].path}: ')}" if bad else ""


def _not_valid(reason: str, soc: str) -> str:
    return f"not valid for this driver: {reason}; run farm tune --soc {soc}"


def _members(prepared: Prepared, runtime: Runtime, data: TestData, compared: Comparison) -> Members:
    outputs = output_members(prepared, runtime, data.expected, compared.outputs)
    if outputs["status"] != Status.OK:
        reason = f"with the tuned files: {outputs['reason']}"
        return {"status": outputs["status"], "reason": reason, "tuned_verdict": f"wrong result {reason}"}
    if throttled := compared.heat["throttled"]:
        return {"tuned_verdict": f"not measured: {throttled}"}
    return {
        "tuned_ratio": compared.ratio.value,
        "tuned_ratio_ci": (compared.ratio.low, compared.ratio.high),
        "tuned_verdict": verdict(compared.ratio),
    }


def verdict(ratio: Ratio) -> str:
    """What a ratio of tuned over default says, in a sentence with its confidence interval."""
    low, high = ratio.gain_interval
    if ratio.is_faster:
        return f"better: {ratio.gain_percent:.1f} % faster ({low:.1f} to {high:.1f})"
    if ratio.low > 1.0 + NOTICEABLE:
        return f"worse than the default by {-ratio.gain_percent:.1f} % ({-high:.1f} to {-low:.1f})"
    return f"no gain: time {-ratio.gain_percent:+.1f} % ({-high:+.1f} to {-low:+.1f})"
