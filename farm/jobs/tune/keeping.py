"""Keeps a choice that won: beside the tuned parameters, with what was predicted and measured in the manifest."""

import dataclasses
import datetime
import json

from farm import artifacts
from farm.artifacts import ChoiceRecord
from farm.jobs.choices.model_choice import subject_of
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.tune.proof import Proof
from farm.jobs.tune.search import ModelTuning
from farm.kept_choices import ChoiceSet, KeptChoice
from farm.rows.row import versions
from runtime.plan.artifacts import fingerprint_of


def keep_choice(opened: OpenUnit, tuned: ModelTuning, proof: Proof) -> None:
    """Publishes the choice that a model's plan was made by, and the plan: it has won against the one in force."""
    choice, chosen = tuned.version.choice, tuned.chosen
    assert choice and chosen, "only a chosen plan is kept"
    subject, figures = subject_of(tuned.prepared, tuned.target), chosen.figures
    predicted_ms, fingerprint = figures.predicted_ms or 0.0, fingerprint_of(tuned.target)
    kept = KeptChoice(
        **subject.model_dump(),
        choice=json.loads(choice.to_json()),
        predicted_ms=predicted_ms,
        measured_ms=proof.new.latency_ms.median,
        chosen_precision=tuned.target.precision.label if "," in subject.precision else "",
    )
    record = ChoiceRecord(
        fingerprint=dataclasses.asdict(fingerprint),
        device_model=opened.device_model,
        unit=opened.unit.name,
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions=versions(),
        model=subject.model,
        graph=choice.graph,
        settings=subject.model_dump(exclude={"model"}),
        predicted_ms=predicted_ms,
        predicted_before_ms=figures.predicted_before_ms or 0.0,
        gap=figures.gap or 0.0,
        origins=figures.origins,
        default_ms=proof.default.latency_ms,
        choice_ms=proof.new.latency_ms,
        ratio=figures.time_ratio or 0.0,
        ratio_ci=figures.time_ratio_ci or (0.0, 0.0),
        trials=figures.trials,
        device_s=figures.device_s,
    )
    opened.lease.check(certain=True)  # a successor may have published since
    path = opened.planner.selection_file(tuned.prepared.deployment.library_name)
    artifacts.publish_choice(path, ChoiceSet(fingerprint, opened.device_model, (kept,)), record)
    write_plan(*opened.planner.plan(tuned.prepared, "gpu", tuned.target, choice=choice))
