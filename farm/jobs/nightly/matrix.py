"""`farm nightly`: the matrix of nightly.yml on all its units at once, each row as soon as its unit is through."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from farm.config.deployment import Deployment
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.progress import UNWATCHED, Watch
from farm.jobs.models.prepare import Failed, Prepared, TestData, prepare_all
from farm.jobs.nightly.case import Subject
from farm.jobs.nightly.unit import Asked, UnitNight, is_good
from farm.jobs.run import LoadOptions
from farm.model import fetch
from farm.nightly.configuration import NightlyConfiguration, Setting
from farm.rows.nightly import NightlyRow
from farm.rows.series import Case

Places = Sequence[tuple[Deployment, Sequence[Unit]]]  # which deployment file is measured on which units


def nightly_job(
    places: Places, asked: Asked, fleet: FleetOptions = FLEET, watch: Watch = UNWATCHED
) -> Iterator[NightlyRow]:
    """A row for each case that has none yet. A unit that was lost goes on where it was."""
    nights = [UnitNight(unit, found, asked) for unit, found in subjects_of(asked, places).items()]
    jobs = [Job([night.unit], night.run, is_good, night.failed) for night in nights]
    for rows in run_jobs(jobs, dataclasses.replace(fleet, spread=False), watch):
        yield from rows


def subjects_of(asked: Asked, places: Places) -> Mapping[Unit, list[Subject]]:
    """What each unit still has to measure; models are converted once for all units."""
    found: dict[Unit, list[Subject]] = {}
    for deployment, units in places:
        models = prepare_all(deployment)
        data = {model.name: _test_data(model) for model in models}
        for unit in units:
            for model in models:
                subjects = _subjects(asked.nightly, unit, model, data[model.name])
                found.setdefault(unit, []).extend(each for each in subjects if each.case not in asked.done)
    return {unit: subjects for unit, subjects in found.items() if subjects}


def cases_of(nightly: NightlyConfiguration, places: Places) -> Mapping[Unit, list[Case]]:
    """The cases of each unit, without converting anything."""
    found: dict[Unit, list[Case]] = {}
    for deployment, units in places:
        for unit in units:
            for name, model in deployment.models.items():
                for runtime in (each for each in model.runtimes if each in nightly.runtimes):
                    cases = (Case(unit.name, deployment.library_name, name, runtime, each) for each in nightly.settings)
                    found.setdefault(unit, []).extend(cases)
    return {unit: cases for unit, cases in found.items() if cases}


def _subjects(
    nightly: NightlyConfiguration, unit: Unit, model: Prepared | Failed, data: TestData | None
) -> Iterator[Subject]:
    runtimes = [runtime for runtime in model.settings.runtimes if runtime in nightly.runtimes]
    for runtime in runtimes:
        for name, setting in nightly.settings.items():
            case = Case(unit.name, model.deployment.library_name, model.name, runtime, name)
            yield Subject(case, model, runtime, _load_options(nightly, setting), data)


def _test_data(model: Prepared | Failed) -> TestData | None:
    if isinstance(model, Failed):
        return None
    return TestData(model, fetch.Fetcher(model.deployment).validation_inputs(model.name))


def _load_options(nightly: NightlyConfiguration, setting: Setting) -> LoadOptions:
    return LoadOptions(_file(nightly, setting.tuned), _file(nightly, setting.kernels), setting.memory)


def _file(nightly: NightlyConfiguration, word: str | None) -> Path | None:
    """`none`, or a path from the file's folder."""
    if word is None or word == "none":
        return None if word is None else Path(word)
    return nightly.path.parent / word
