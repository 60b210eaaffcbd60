"""Whether the tuned files of the build folder are still good for a unit: whole, valid for its driver, a gain."""

import dataclasses
from pathlib import Path

from farm import artifacts
from farm.condition.throttling import RetryPolicy
from farm.config.deployment import Runtime
from farm.config.execution import DEFAULT, Execution
from farm.jobs.compare.interleaved import DEFAULTS, Effort, PlanFile, TunedFiles, measure_in_turns
from farm.jobs.fleet import kernel_trial
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import judge_further, keeping
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import Validation, compare_outputs
from farm.rows.row import Ending
from runtime.statistics.ratios import Ratio

QUICK = Effort(processes=8)
NOTICEABLE = 0.01  # what is slower by less costs nobody anything
NO_FILES = "no tuned files"


@dataclasses.dataclass(frozen=True)
class TunedCheck:
    """Whether the stored tuned files are still good, in words; the ratio of tuned over default where it was measured.

    `ending` is given only where the outputs with these files are wrong.
    """

    verdict: str = ""
    ratio: Ratio | None = None
    ending: Ending | None = None


def check_tuned(
    opened: OpenUnit,
    prepared: Prepared,
    runtime: Runtime,
    data: TestData,
    memory: str | None = None,
    effort: Effort = QUICK,
    rest: RetryPolicy | None = None,
    execution: Execution = DEFAULT,
) -> TunedCheck:
    """Checks the stored tuned files of a model; an empty check for the CPU, which has none.

    Raises JobError where farmrt fails with these files.
    """
    if runtime == "cpu":
        return TunedCheck()
    tuned_file, kernels_file = _stored(opened, prepared)
    if tuned_file is None:
        return TunedCheck(NO_FILES)
    if damage := _damage(tuned_file, kernels_file):
        return TunedCheck(damage)
    target = opened.planner.target(prepared, runtime, memory)
    planned = opened.planner.choice_in_force(prepared, runtime, target, memory)
    plan, plan_file = opened.planner.plan(prepared, runtime, planned.target(target), choice=planned.choice)
    write_plan(plan, plan_file)
    model = kernel_trial.TriedModel(prepared, plan, plan_file, tuned_file)
    kernels_file = kernel_trial.choose(opened, model, kernels_file, put_aside=True).file
    execution = execution.over(prepared.settings.execution)
    tuned = opened.load(plan_file, tuned_file, kernels_file, model.limited, execution=execution).tuned
    if tuned is None or tuned.match != "exact":
        return TunedCheck(_not_valid(tuned.reason if tuned else "", opened.unit.soc))
    opened.progress.stage(f"{prepared.name}: default against tuned")
    ways = (DEFAULTS, TunedFiles(tuned_file, kernels_file))
    one_plan = PlanFile(plan, plan_file, model.limited, execution)
    measured, throttling = measure_in_turns(opened, one_plan, ways, data, effort, rest)
    default, with_files = measured
    validation = compare_outputs(prepared, plan.target, data.expected, with_files.outputs)
    files = (tuned_file, kernels_file)
    load = keeping(opened, prepared, plan.target, planned.choice, files, execution=execution)
    validation = judge_further(opened, prepared, data, validation, load)
    return _checked(validation, with_files.over(default), throttling.throttled)


def _stored(opened: OpenUnit, prepared: Prepared) -> tuple[Path | None, Path | None]:
    """The tuned parameters and compiled kernels of the build folder for this unit."""
    files = opened.planner.artifact_files(prepared.deployment.library_name)
    tuned, kernels = (path if path.is_file() else None for path in files)
    return tuned, kernels


def _damage(*files: Path | None) -> str:
    """What is wrong with the files themselves; empty where nothing is."""
    findings = (finding for path in files if path for finding in artifacts.verify(path, {}))
    bad = [finding for finding in findings if not finding.good]
    return f"damaged: {bad[0].path.name}: {bad[0].text.removeprefix(f'{bad[0].path}: ')}" if bad else ""


def _not_valid(reason: str, soc: str) -> str:
    return f"not valid for this driver: {reason}; run farm tune --soc {soc}"


def _checked(validation: Validation, ratio: Ratio | None, throttled: str) -> TunedCheck:
    if not validation.is_ok:
        reason = f"with the tuned files: {validation.ending.reason}"
        ending = Ending(status=validation.ending.status, reason=reason)
        return TunedCheck(f"wrong result {reason}", ending=ending)
    if throttled or ratio is None:
        return TunedCheck(f"not measured: {throttled or 'too few processes ran'}")
    return TunedCheck(verdict(ratio), ratio)


def verdict(ratio: Ratio) -> str:
    """What a ratio of tuned over default says, in a sentence with its confidence interval."""
    low, high = ratio.gain_interval
    if ratio.is_faster:
        return f"better: {ratio.gain_percent:.1f} % faster ({low:.1f} to {high:.1f})"
    if ratio.low > 1.0 + NOTICEABLE:
        return f"worse than the default by {-ratio.gain_percent:.1f} % ({-high:.1f} to {-low:.1f})"
    return f"no gain: time {-ratio.gain_percent:+.1f} % ({-high:+.1f} to {-low:+.1f})"
