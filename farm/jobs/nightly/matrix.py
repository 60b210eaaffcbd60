"""`farm nightly`: the matrix of nightly.yml on all its units at once, each row as soon as its unit is through."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.config.deployment import FARMRT, Deployment, Model, Runtime
from farm.config.inventory import Unit
from farm.engines.registry import named_engines
from farm.jobs.engines.ready import EngineModels, runtimes_of
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import Failed, Prepared, TestData, prepare_all, validation_data
from farm.jobs.nightly.case import Subject
from farm.jobs.nightly.unit import NightSettings, UnitNight, is_good
from farm.nightly.configuration import NightlyConfiguration, Setting
from farm.rows.nightly import NightlyRow
from farm.rows.series import Case
from runtime.errors import ConfigError, FarmError

Places = Sequence[tuple[Deployment, Sequence[Unit]]]  # which deployment file is measured on which units


def nightly_job(
    places: Places, night: NightSettings, fleet: FleetOptions = FLEET, progress: ProgressView = SILENT
) -> Iterator[NightlyRow]:
    """A row for each case that has none yet. A unit that was lost goes on where it was."""
    with TemporaryDirectory() as scratch:
        models = EngineModels(Path(scratch))
        nights = [UnitNight(unit, subjects, night, models) for unit, subjects in subjects_of(night, places).items()]
        yield from rows_of(nights, fleet, progress)


def rows_of(unit_nights: Sequence[UnitNight], fleet: FleetOptions, progress: ProgressView) -> Iterator[NightlyRow]:
    """The rows of some units' nights, all at once."""
    jobs = [Job([unit_night.unit], unit_night.run, is_good, unit_night.failed) for unit_night in unit_nights]
    for rows in run_jobs(jobs, dataclasses.replace(fleet, spread=False), progress):
        yield from rows


def unmeasured_rows(unit: Unit, night: NightSettings, places: Places, error: FarmError) -> list[NightlyRow]:
    """The rows of a unit that could not be measured, with the blocks that there are; nothing is converted for them."""
    subjects = [
        subject
        for deployment, units in places
        if unit in units
        for name, settings in deployment.models.items()
        for subject in _subjects(night.nightly, unit, Failed(deployment, name, settings, error), None)
        if subject.case not in night.done
    ]
    return UnitNight(unit, subjects, night, EngineModels(Path())).rows()


def subjects_of(night: NightSettings, places: Places) -> Mapping[Unit, list[Subject]]:
    """What each unit still has to measure; models are converted once for all units."""
    of_unit: dict[Unit, list[Subject]] = {}
    for deployment, units in places:
        models = prepare_all(deployment)
        data = {model.name: _test_data(model) for model in models}
        for unit in units:
            for model in models:
                subjects = _subjects(night.nightly, unit, model, data[model.name])
                of_unit.setdefault(unit, []).extend(subject for subject in subjects if subject.case not in night.done)
    return {unit: subjects for unit, subjects in of_unit.items() if subjects}


def cases_of(nightly: NightlyConfiguration, places: Places) -> Mapping[Unit, list[Case]]:
    """The cases of each unit, without converting anything."""
    of_unit: dict[Unit, list[Case]] = {}
    for deployment, units in places:
        for unit in units:
            for name, model in deployment.models.items():
                lanes = _lanes(nightly, unit, deployment, name, model)
                of_unit.setdefault(unit, []).extend(case for case, _ in lanes)
    return {unit: cases for unit, cases in of_unit.items() if cases}


def _subjects(
    nightly: NightlyConfiguration, unit: Unit, model: Prepared | Failed, data: TestData | None
) -> Iterator[Subject]:
    for case, runtime in _lanes(nightly, unit, model.deployment, model.name, model.settings):
        yield Subject(case, model, runtime, _load_options(nightly, nightly.settings[case.setting]), data)


def _lanes(
    nightly: NightlyConfiguration, unit: Unit, deployment: Deployment, name: str, model: Model
) -> Iterator[tuple[Case, Runtime]]:
    """A model's cases on a unit, each with its runtime.

    Engines of nightly.yml stand beside each other as its runtimes do: where one takes a model on no runtime, there is
    no case. What a deployment file names is a case, which says why not.
    """
    for engine in engines_of(nightly, deployment, name, model):
        is_named = nightly.engine is None
        for runtime in runtimes_of(engine, model, is_named, nightly.runtimes):
            for setting, how in nightly.settings.items():
                if engine == FARMRT or how.is_for_all:
                    yield Case(unit.name, deployment.library_name, name, runtime, setting, engine), runtime


def engines_of(nightly: NightlyConfiguration, deployment: Deployment, name: str, model: Model) -> tuple[str, ...]:
    """The engines of a model; ConfigError, with its place in the file that says so, for a word that is none."""
    try:
        return named_engines(nightly.engine or model.engine)
    except ConfigError as error:
        if nightly.engine:
            raise nightly.error(("engine",), str(error)) from None
        raise deployment.error(("models", name, "engine"), str(error)) from None


def _test_data(model: Prepared | Failed) -> TestData | None:
    if isinstance(model, Failed):
        return None
    return validation_data(model)


def _load_options(nightly: NightlyConfiguration, setting: Setting) -> LoadOptions:
    files = _file(nightly, setting.tuned), _file(nightly, setting.kernels)
    return LoadOptions(*files, setting.memory, setting.execution, _file(nightly, setting.selection))


def _file(nightly: NightlyConfiguration, word: str | None) -> Path | None:
    """`none`, or a path from the file's folder."""
    if word is None or word == "none":
        return None if word is None else Path(word)
    return nightly.path.parent / word
