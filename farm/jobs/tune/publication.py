"""Publishing what a search found for a library: each model is proved on the unit, then all are published at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from farm.jobs.compare.interleaved import TunedFiles
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import judge_further, keeping
from farm.jobs.models.prepare import TestData, validation_data
from farm.jobs.tune.collect import Draft, draft, publish_draft
from farm.jobs.tune.keeping import keep_choice
from farm.jobs.tune.proof import THE_SAME, Proof, prove
from farm.jobs.tune.schedule import TuningSchedule
from farm.jobs.tune.search import ModelTuning
from farm.rows.tune import TuneOutcome
from runtime.errors import DeviceLostError, JobError
from tuner.budget import Deadline


@dataclasses.dataclass(frozen=True)
class Publication:
    """The artifacts of a library on a SoC, and each model's proof, or why it has none, on the unit that published.

    `data` are the models' inputs with their reference outputs, computed once for all units.
    """

    unit: str
    files: TunedFiles
    proofs: Mapping[str, Proof | JobError]
    data: Mapping[str, TestData]

    def proof(self, opened: OpenUnit, tuned: ModelTuning) -> Proof:
        """A model's proof on a unit; one that did not publish measures the default against what is in force now.

        Raises JobError where the model could not be measured.
        """
        proof = self.proofs[tuned.prepared.name]
        if isinstance(proof, JobError):
            raise proof
        if opened.unit.name == self.unit:
            return proof
        in_force = tuned if proof.outcome == TuneOutcome.NEW else tuned.incumbent
        own = prove(opened, in_force, self.files, None, self.data[tuned.prepared.name], Deadline())
        return dataclasses.replace(own, outcome=proof.outcome, reason=proof.reason)


def prove_and_publish(
    opened: OpenUnit, library: str, models: Sequence[ModelTuning], settings: Mapping[str, Any], schedule: TuningSchedule
) -> Publication:
    """Proves the new parameters of each model of a library, within the schedule, then publishes those that are better.

    Raises DeviceLostError with nothing published: what the search found is in its journal.
    """
    proposed = draft(opened, library, models)
    data = {tuned.prepared.name: validation_data(tuned.prepared) for tuned in models}
    with TemporaryDirectory() as folder:
        new = proposed.files(opened, Path(folder))
        proofs = {
            tuned.prepared.name: _proof(opened, proposed, tuned, new, data[tuned.prepared.name], schedule)
            for tuned in models
        }
    proved = [(tuned, proof) for tuned in models if isinstance(proof := proofs[tuned.prepared.name], Proof)]
    accepted = [tuned for tuned, proof in proved if proof.outcome == TuneOutcome.NEW]
    evidence = [proof.evidence(tuned) for tuned, proof in proved if tuned in accepted or not proposed.in_force]
    publish_draft(opened, proposed, accepted, evidence, settings)
    for tuned, proof in proved:
        if tuned in accepted and tuned.is_new_plan:
            keep_choice(opened, tuned, proof)
    return Publication(opened.unit.name, proposed.destination.files, proofs, data)


def _proof(
    opened: OpenUnit, proposed: Draft, tuned: ModelTuning, new: TunedFiles, data: TestData, schedule: TuningSchedule
) -> Proof | JobError:
    changes, differs = proposed.changes(tuned), proposed.differs_from_default(tuned)
    incumbent = proposed.destination.files_there if changes and differs else None
    is_default, spent_s = not (tuned.has_news or changes or differs), schedule.spent_s
    ends = schedule.proof()
    try:
        proof = prove(
            opened, tuned, new, incumbent, data, ends, is_default=is_default, changes=changes, spent_s=spent_s
        )
    except DeviceLostError:
        raise
    except JobError as error:
        return error
    if proof.outcome == TuneOutcome.NEW and not changes:
        return dataclasses.replace(proof, outcome=TuneOutcome.KEPT, reason=THE_SAME)
    return judged_further(opened, proof, tuned, new, data) if proof.outcome == TuneOutcome.NEW else proof


def judged_further(opened: OpenUnit, proof: Proof, tuned: ModelTuning, new: TunedFiles, data: TestData) -> Proof:
    """What is about to be published is also right before squashing operators and with further inputs, or is not."""
    version = tuned.version
    load = keeping(opened, tuned.prepared, version.plan.target, version.choice, (new.tuned, new.kernels or new.built))
    validation = judge_further(opened, tuned.prepared, data, proof.validation, load)
    if validation.is_ok:
        return proof
    ending = validation.ending
    return dataclasses.replace(
        proof, outcome=TuneOutcome.KEPT, reason=ending.reason, ending=ending, validation=validation
    )
