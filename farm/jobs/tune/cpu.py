"""Tuning of the runtime cpu: what the search finds is proved against the default, and kept beside the plans."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.jobs.compare.interleaved import Effort
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import judge_further, keeping
from farm.jobs.models import cpu_choice
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import Prepared, TestData, validation_data
from farm.jobs.tune.cpu_search import search_cpu
from farm.jobs.tune.cpu_turns import measure_plans, written
from farm.jobs.tune.proof import Proof, gain_figures, gains, proved_again, run_figures, tuning_outcome, with_remedy
from farm.jobs.validate import Validation, compare_outputs
from farm.rows.row import Provenance, row_fingerprint
from farm.rows.run import RunFigures
from farm.rows.tune import TuneFigures, TuneOutcome, TuneResult
from runtime.target import Target
from tuner.budget import Deadline

PROOF = Effort(processes=10, turns=2)


def tune_cpu(opened: OpenUnit, prepared: Prepared, deadline: Deadline) -> TuneResult:
    """Searches, proves, and keeps what is better; the next plans of the model for this CPU are made so.

    After the deadline no further process of the proof is started.
    """
    data = validation_data(prepared)
    in_force = opened.planner.cpu_choice(prepared, "cpu")
    with TemporaryDirectory() as folder:
        found = search_cpu(opened, prepared, data, Path(folder))
        ways = [None, *([in_force] if in_force else []), found.choice]
        first = _prove(opened, prepared, ways, data, Path(folder), deadline.share(0.5))
        proof = proved_again(first, lambda: _prove(opened, prepared, ways, data, Path(folder), deadline))
        execution = cpu_choice.with_choice(prepared.settings.execution, found.choice)
        if proof.outcome == TuneOutcome.NEW:
            load = keeping(opened, prepared, _target(opened, prepared), cpu=found.choice, execution=execution)
            proof = _with(proof, judge_further(opened, prepared, data, proof.validation, load))
    path = opened.planner.cpu_choice_file(prepared)
    if proof.outcome == TuneOutcome.NEW:
        medians = {"default_ms": proof.default.latency_ms.median, "tuned_ms": proof.new.latency_ms.median}
        cpu_choice.write(path, found.choice.model_copy(update=medians))
    return TuneResult(
        ending=proof.validation.ending,
        device_model=opened.device_model,
        provenance=Provenance(fingerprint=row_fingerprint(_target(opened, prepared)), settings=_settings(found.choice)),
        throttling=proof.throttling,
        figures=RunFigures(**run_figures(proof.new, execution)),
        comparison=proof.validation.comparison,
        tuning=TuneFigures(
            **gain_figures(proof),
            trials=found.trials,
            device_s=found.seconds,
            artifacts=(str(path),) if path.is_file() else (),
        ),
    )


def _with(proof: Proof, validation: Validation) -> Proof:
    """A proof whose outputs were judged further."""
    if validation.is_ok:
        return proof
    ending = validation.ending
    return dataclasses.replace(
        proof, validation=validation, ending=ending, outcome=TuneOutcome.KEPT, reason=ending.reason
    )


def _target(opened: OpenUnit, prepared: Prepared) -> Target:
    return opened.planner.target(prepared, "cpu")


def _prove(
    opened: OpenUnit,
    prepared: Prepared,
    choices: Sequence[CpuChoice | None],
    data: TestData,
    folder: Path,
    deadline: Deadline,
) -> Proof:
    """`choices`: the default, perhaps what is in force, and the new one."""
    opened.progress.stage(f"{prepared.name}: default against {'in force and ' if len(choices) > 2 else ''}tuned")
    ways = [written(opened, prepared, choice, folder) for choice in choices]
    begin_s = deadline.clock()
    measured, throttling = measure_plans(opened, ways, data, dataclasses.replace(PROOF, deadline=deadline))
    validation = compare_outputs(prepared, _target(opened, prepared), data.expected, measured[-1].outputs)
    default, incumbent, new = measured[0], measured[1] if len(measured) > 2 else None, measured[-1]
    ending = validation.ending
    outcome, reason = tuning_outcome(True, ending, throttling, gains(default, incumbent, new))
    reason = with_remedy(reason, deadline.clock() - begin_s, new)
    return Proof(outcome, reason, ending, validation, default, incumbent, new, throttling)


def _settings(choice: CpuChoice) -> dict[str, object]:
    return {"memory": "cpu", "block": choice.block, "winograd_layers": len(choice.winograd)}
