"""`farm run --input_dir`: a loaded model runs on many samples, one after another, summed up in one row."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from farm import atomic_file
from farm.config.deployment import Runtime
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import LoadKeeping, judge_further
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import Validation, compare_with_reference, thresholds_for, with_half_range
from farm.model.oracle import Oracle
from farm.model.sample_folder import Sample, file_prefix, find_samples, read_sample
from farm.rows.latency import Latency
from farm.rows.record import Record
from farm.rows.result import OK
from farm.rows.row import Ending, Throttling
from farm.rows.run import MeanMetrics, OutputComparison, SampleReport
from farm.rows.status import Status
from farm.workspace import Workspace
from runtime.errors import JobError, unwritten
from runtime.graph import Array
from runtime.plan.plan import Plan

NS_PER_MS = 1e6


class Samples:
    """The samples of a model, found and checked once, and its oracle, for all units."""

    def __init__(self, prepared: Prepared, folder: Path, compares: bool) -> None:
        self.folder = folder
        self.found = find_samples(folder, prepared.inputs)
        self._oracle = Oracle(prepared.source, prepared.custom) if compares else None

    @property
    def compares(self) -> bool:
        """Whether each sample's outputs are compared with the oracle's."""
        return self._oracle is not None

    def expected(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The oracle's outputs."""
        assert self._oracle, "asked only where outputs are compared"
        return self._oracle.outputs(inputs)


@dataclasses.dataclass(frozen=True)
class OnUnit:
    """A model that is loaded on a unit; `hashes` are of all that its outputs follow from but the samples."""

    opened: OpenUnit
    prepared: Prepared
    runtime: Runtime
    plan: Plan
    hashes: Mapping[str, str]
    output_folder: Path | None
    load: LoadKeeping

    @property
    def name(self) -> str:
        """The part of file names that says which model, unit and runtime it is."""
        return f"{self.prepared.name}.{self.opened.unit.name}.{self.runtime}"


@dataclasses.dataclass(frozen=True)
class SampledRun:
    """What all samples gave together; `first_ms` is the very first round's."""

    first_ms: float
    latency: Latency
    validation: Validation
    report: SampleReport
    throttling: Throttling


def run_samples(model: OnUnit, samples: Samples) -> SampledRun:
    """Runs every sample once, those of an interrupted run excepted; their outputs go to files where that is wanted."""
    folder = Workspace(model.prepared.deployment.library_name).folder / "samples"
    settings = {
        "thresholds": repr(thresholds_for(model.prepared, model.plan.target)),
        "compares": str(samples.compares),
    }
    journal = SampleJournal(folder / f"{model.name}.jsonl", {**model.hashes, **settings})
    model.opened.write_inputs(read_sample(samples.found[0], model.prepared.inputs))
    first_ms = model.opened.first_round().very_first_ms
    outcomes, throttling = _outcomes(model, samples, journal)
    validation = _validation(outcomes) if samples.compares else Validation()
    report = _report(samples, outcomes)
    if samples.compares:
        worst = _data(model, samples, report.worst)
        validation = with_half_range(validation, model.plan.target, worst)
        validation = judge_further(model.opened, model.prepared, worst, validation, model.load)
    journal.remove()
    return SampledRun(first_ms, Latency.of([each.round_ms for each in outcomes]), validation, report, throttling)


def _outcomes(model: OnUnit, samples: Samples, journal: SampleJournal) -> tuple[list[SampleOutcome], Throttling]:
    outcomes, throttling = [], Throttling()
    for number, sample in enumerate(samples.found, 1):
        key = journal.key(sample)
        outcome = journal.find(key)
        if outcome is None or not _outputs_are_kept(model, sample):
            of_all = f"sample {number} of {len(samples.found)}"
            model.opened.progress.stage(f"{model.prepared.name} ({model.runtime}): {of_all}")
            outcome, of_sample = _run_sample(model, samples, sample, key)
            throttling = of_sample if of_sample.throttled else throttling
            journal.add(outcome)
        outcomes.append(outcome)
    return outcomes, throttling


def _run_sample(model: OnUnit, samples: Samples, sample: Sample, key: str) -> tuple[SampleOutcome, Throttling]:
    opened = model.opened
    inputs = read_sample(sample, model.prepared.inputs)
    opened.write_inputs(inputs)
    measured, throttling = opened.cool(opened.first_round)
    validation = Validation()
    if samples.compares or model.output_folder:
        outputs = opened.read_outputs(model.plan)
        _keep_outputs(model, sample, outputs)
        if samples.compares:
            validation = compare_with_reference(
                model.prepared, model.runtime, model.plan.target.precision, lambda: samples.expected(inputs), outputs
            )
    outcome = SampleOutcome(
        key=key,
        name=sample.name,
        round_ms=measured.wall_ns[0] / NS_PER_MS,
        ending=validation.ending,
        comparison=validation.comparison,
    )
    return outcome, throttling


def _output_files(model: OnUnit, sample: Sample) -> dict[str, Path]:
    """Where outputs are kept, by their names; nowhere unless that is wanted."""
    if model.output_folder is None:
        return {}
    folder = model.output_folder / model.name
    return {each.name: folder / f"{file_prefix(each.name)}{sample.name}.npy" for each in model.plan.outputs}


def _keep_outputs(model: OnUnit, sample: Sample, outputs: Mapping[str, Array]) -> None:
    for name, path in _output_files(model, sample).items():
        with atomic_file.replacing(path) as file:
            np.save(file, outputs[name])


def _outputs_are_kept(model: OnUnit, sample: Sample) -> bool:
    return all(path.is_file() for path in _output_files(model, sample).values())


def _data(model: OnUnit, samples: Samples, name: str) -> TestData:
    """The inputs of a sample."""
    sample = next(each for each in samples.found if each.name == name)
    return TestData(model.prepared, read_sample(sample, model.prepared.inputs))


def _wrong(outcomes: Sequence[SampleOutcome]) -> list[SampleOutcome]:
    return [each for each in outcomes if each.ending.status != Status.OK]


def _worst(outcomes: Sequence[SampleOutcome]) -> SampleOutcome:
    """A wrong one before one that is right; of these the one with the most noise."""

    def rank(each: SampleOutcome) -> tuple[int, float]:
        noise, order = each.comparison.sqnr_db, (Status.WRONG_RESULT, Status.NO_REFERENCE, Status.OK)
        return order.index(each.ending.status), float("-inf") if noise is None else noise

    return min(outcomes, key=rank)


def _validation(outcomes: Sequence[SampleOutcome]) -> Validation:
    """The worst figures of all samples, and each output's own of the worst sample."""
    wrong, worst = _wrong(outcomes), _worst(outcomes)
    ending = OK
    if wrong:
        fault = "have no reference" if worst.ending.status == Status.NO_REFERENCE else "are wrong"
        counted = f"{len(wrong)} of {len(outcomes)} samples {fault}"
        ending = Ending(
            status=worst.ending.status, reason=f"{counted}; the worst, {worst.name!r}: {worst.ending.reason}"
        )
    return Validation(ending, worst.comparison.model_copy(update=_worst_figures(outcomes)))


def _worst_figures(outcomes: Sequence[SampleOutcome]) -> dict[str, float | int | None]:
    counts = ("nan_count", "inf_count")
    return {
        **{name: _extreme(outcomes, name, min) for name in ("cosine", "sqnr_db", "pixel_accuracy")},
        **{name: _extreme(outcomes, name, max) for name in ("max_abs_error", "max_rel_error")},
        **{name: sum(getattr(each.comparison, name) or 0 for each in outcomes) for name in counts},
    }


def _extreme(outcomes: Sequence[SampleOutcome], name: str, summary: Callable[[Sequence[float]], float]) -> float | None:
    """The worst of a figure; None, which stands for an endless one, is worse than any."""
    values = [getattr(each.comparison, name) for each in outcomes]
    return None if None in values else summary(values)


def _mean(outcomes: Sequence[SampleOutcome], name: str) -> float | None:
    """The mean of a figure over the samples that have it."""
    values = [value for each in outcomes if (value := getattr(each.comparison, name)) is not None]
    return statistics.fmean(values) if values else None


def _report(samples: Samples, outcomes: Sequence[SampleOutcome]) -> SampleReport:
    folder, count = str(samples.folder), len(outcomes)
    if not samples.compares:
        return SampleReport(folder=folder, count=count)
    mean = MeanMetrics(**{name: _mean(outcomes, name) for name in MeanMetrics.model_fields})
    worst = _worst(outcomes).name
    return SampleReport(folder=folder, count=count, wrong=len(_wrong(outcomes)), worst=worst, mean=mean)


# Keeps what samples of a run gave, as they come: a run that is interrupted goes on where it was.
#
# A file of JSON lines, one a sample, keyed by all that changes its answer. It lies in the build folder until the run
# has its row; a last line that a killed process left incomplete is dropped.
class SampleOutcome(Record):
    """What one sample gave: the time of its round, and its outputs compared with those that were expected."""

    key: str
    name: str
    round_ms: float
    ending: Ending
    comparison: OutputComparison


class SampleJournal:
    """The outcomes of one model on one unit and runtime.

    Args:
        path: the file; it and its folder are made.
        hashes: of all that an outcome follows from but the samples: programs, plan, settings.
    """

    def __init__(self, path: Path, hashes: Mapping[str, str]) -> None:
        self._path = path
        self._base = repr(sorted(hashes.items()))
        self._known: dict[str, SampleOutcome] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(ValidationError):
                    outcome = SampleOutcome.model_validate_json(line)
                    self._known[outcome.key] = outcome

    def key(self, sample: Sample) -> str:
        """Names a sample's outcome by the content of its files."""
        return sample.content_hash(self._base)

    def find(self, key: str) -> SampleOutcome | None:
        """The outcome that is known, if one is."""
        return self._known.get(key)

    def add(self, outcome: SampleOutcome) -> None:
        """Appends an outcome; JobError where it cannot be written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(b"\n" * self._ends_inside_a_line() + outcome.model_dump_json().encode() + b"\n")
        except OSError as error:
            raise unwritten(f"{self._path}: cannot be written", error, JobError) from None

    def remove(self) -> None:
        """Forgets everything: the run has its row."""
        self._path.unlink(missing_ok=True)

    def _ends_inside_a_line(self) -> bool:
        content = self._path.read_bytes()[-1:]
        return bool(content) and content != b"\n"
