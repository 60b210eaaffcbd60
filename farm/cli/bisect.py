"""`farm bisect`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from farm.cli import FAILED, clusters, store_options, view, work
from farm.cli.envelope import CommandResult, Document
from farm.cluster.address import ClusterChoice
from farm.config import samples
from farm.config.deployment import FARMRT, Deployment, Runtime
from farm.config.inventory import Unit
from farm.jobs.bisect.commits import Commits, EngineVersions, FarmCommits, ModelCommits
from farm.jobs.bisect.job import BisectionResult, BisectOptions, Bisector, BisectStep
from farm.jobs.compare import checkout
from farm.jobs.engines.ready import runtimes_of
from farm.jobs.fleet.dispatch import FleetOptions
from farm.rows.compare import CompareRow
from farm.safe_text import one_line
from farm.tables import table
from farm.tables.bisect import change_text, operators_table
from farm.units.selection import Selection
from runtime.errors import ConfigError

HOW_TO_GO_ON = "interrupted; the same command goes on from here"


def bisect(
    good: str,
    bad: str,
    model_file: str,
    choice: Selection,
    model: str | None,
    runtime: Runtime | None,
    repository: Path | None,
    build: str,
    engine: str,
    turns: int,
    most_turns: int,
    margin_percent: float,
    fresh: bool,
    memory: str | None,
    fleet: FleetOptions,
    store: str | None,
    cluster: ClusterChoice | None,
    as_json: bool,
) -> CommandResult:
    """`farm bisect`; returns the exit status."""
    if engine and (repository or build or cluster):
        raise ConfigError("--engine goes through the versions of one, from here: leave out --repository and --cluster")
    commits = _repository(model_file, repository, build, engine)
    hashes = commits.between(good, bad)
    source = commits.at(hashes[0]).source
    name = _model(source, model)
    on = _runtime(source, name, runtime, engine)
    wanted = BisectOptions(name, on, turns, max(turns, most_turns), margin_percent, memory)
    with clusters.place_of(cluster) as place:
        unit = _unit(place.units_for(source, choice))
        rows: list[CompareRow] = []
        try:
            with view.shown(interrupted=HOW_TO_GO_ON) as progress, store_options.keeping(store) as keeper:
                bisector = Bisector(commits, hashes, unit, wanted, fleet, progress, place.compare)
                if fresh:
                    bisector.forget()
                for row in _told_rows(bisector):
                    rows.append(row)
                    keeper.record(row)
        except KeyboardInterrupt:
            return work.interrupted(HOW_TO_GO_ON, as_json)
    assert bisector.result, "it has ended"
    return _finish(commits, hashes, bisector.result, rows, as_json)


def _told_rows(bisector: Bisector) -> Iterator[CompareRow]:
    """The rows of all steps as they come, each step told, and that of the last duet."""
    for step in bisector.steps():
        if step.row:
            yield step.row
        store_options.tell(_step_line(step))
    if bisector.result and bisector.result.duet:
        yield bisector.result.duet


def _step_line(step: BisectStep) -> str:
    """`0a1b2c3d4e5f +0.3 % (-0.5 to +1.1): good`."""
    change = f" {change_text(step.change)}" if step.change else ""
    found = step.problem or step.found or "measured longer"
    return f"{step.commit[: checkout.SHORT]}{change}: {found}"


def _repository(model_file: str, repository: Path | None, build: str, engine: str) -> Commits:
    if engine:
        return EngineVersions(engine, samples.deployment_file(model_file))
    if repository is not None:
        return ModelCommits(repository.resolve(), Path(model_file), build)
    if build:
        raise ConfigError("--build makes models of a repository of models: --repository FOLDER is missing")
    return FarmCommits(checkout.repository(), samples.deployment_file(model_file))


def _model(source: Deployment, model: str | None) -> str:
    if model in source.models:
        return model
    known = ", ".join(source.models)
    if model is None and len(source.models) == 1:
        return known
    raise ConfigError(f"{source.path}: {f'no model {model}' if model else '--model is missing'}; there are: {known}")


def _runtime(source: Deployment, model: str, runtime: Runtime | None, engine: str) -> Runtime:
    there = runtimes_of(engine or FARMRT, source.models[model], is_named=True)
    if runtime and runtime not in there:
        raise ConfigError(f"{source.path}: {model} runs on {' and '.join(there)}, not on {runtime}")
    return runtime or ("gpu" if "gpu" in there else "cpu")


def _unit(units: Sequence[Unit]) -> Unit:
    """One; the first of several, which is said."""
    if len(units) > 1:
        store_options.tell(f"{len(units)} units match; on {units[0].name}")
    return units[0]


def _finish(
    commits: Commits, hashes: Sequence[str], result: BisectionResult, rows: Sequence[CompareRow], as_json: bool
) -> CommandResult:
    status = 0 if result.suspects else FAILED
    subjects = {commit: commits.subject(commit) for commit in result.suspects}
    if as_json:
        members = {
            "good": hashes[0],
            "bad": hashes[-1],
            "ratio": result.whole.ratio,
            "ratio_ci": [result.whole.low, result.whole.high],
            "suspects": [{"commit": commit, "subject": subjects[commit]} for commit in result.suspects],
            "skipped": list(result.skipped),
        }
        return Document(status, rows, members)
    for line in _told(commits.noun, hashes, result, subjects):
        click.echo(one_line(line))
    if result.duet and result.duet.operators:
        table.show([operators_table(result.duet.operators)])
    return status


def _told(noun: str, hashes: Sequence[str], result: BisectionResult, subjects: dict[str, str]) -> list[str]:
    whole = f"BAD over GOOD: {change_text(result.whole)}, {len(hashes) - 1} {noun}"
    if not result.suspects:
        return [whole, "no change beyond the noise and the margin between GOOD and BAD: nothing to bisect"]
    many = f"one of {len(subjects)} {noun}, the others were passed over"
    lines = [whole, "found:" if len(subjects) == 1 else f"found: {many}:"]
    lines += [f"  {commit[: checkout.SHORT]} {said}" for commit, said in subjects.items()]
    return [*lines, f"its duet: {result.duet.verdict or result.duet.reason}"] if result.duet else lines
