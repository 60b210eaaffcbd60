"""How each command is sent to hosts: as which command lines, with which files, and the rows that each of them owes.

farm run, farm benchmark   a command line for each model, so that jobs take turns on a unit
farm tune                  one for all models, which are searched together
farm compare, farm bisect  one for two deployment files, with the sources of two farms where builds are compared
farm opbench               one without any model
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from farm.cluster.job_files import DEPLOYMENT, artifacts_of, files_of_models
from farm.config.deployment import FARMRT, Deployment, Model, Runtime
from farm.jobs.fleet.job_rows import KnownSettings, Settings, known_in_engine
from farm.workspace import journal_files


@dataclasses.dataclass(frozen=True)
class OwedRow:
    """A row that a command line owes: whose it is on whatever unit, and the settings that are known beforehand."""

    library: str
    model: str
    runtime: Runtime
    settings: Settings
    engine: str = FARMRT


@dataclasses.dataclass(frozen=True)
class SentWork:
    """A command line for a unit.

    Attributes:
        name: what it is called in the queue.
        arguments: what it is given beside its options.
        files: path in the job's folder -> file.
        owed: its rows; those that do not come are rows of what went wrong.
    """

    name: str
    arguments: tuple[str, ...]
    files: Mapping[str, Path]
    owed: tuple[OwedRow, ...]

    @property
    def cost(self) -> float:
        """Bytes of its files: what takes long to send takes long to run, roughly."""
        return float(sum(path.stat().st_size for path in set(self.files.values())))


Lanes = Callable[[Model], Iterable[tuple[Runtime, str]]]  # the runtimes and engines that a model runs in
Works = Callable[[Path], list[SentWork]]
"""Makes the works of a command, given a folder for what must be written; raises ConfigError for what cannot be sent."""


def in_farmrt(model: Model) -> Iterator[tuple[Runtime, str]]:
    """A model's runtimes, all in farmrt."""
    return ((runtime, FARMRT) for runtime in model.runtimes)


def each_model(deployment: Deployment, known_settings: KnownSettings, lanes: Lanes = in_farmrt) -> Works:
    """A command line for each model, with its artifacts, so that a row is what it would be here."""

    def works(scratch: Path) -> list[SentWork]:
        return [
            SentWork(
                *(model, (DEPLOYMENT,), files_of_models(deployment, [model], scratch) | _artifacts([deployment])),
                tuple(_owed(deployment, [model], known_settings, lanes)),
            )
            for model in deployment.models
        ]

    return works


def all_models(
    name: str, deployments: Sequence[Deployment], known_settings: KnownSettings, lanes: Lanes = in_farmrt
) -> Works:
    """One command line for all models of all files, with artifacts and journals: what was tuned before counts."""

    def works(scratch: Path) -> list[SentWork]:
        files = _artifacts(deployments) | {str(path): path for path in journal_files()}
        owed: list[OwedRow] = []
        for number, deployment in enumerate(deployments):
            files |= files_of_models(deployment, list(deployment.models), scratch, f"{number}/")
            owed += _owed(deployment, list(deployment.models), known_settings, lanes)
        arguments = tuple(f"{number}/{DEPLOYMENT}" for number in range(len(deployments)))
        return [SentWork(name, arguments, files, tuple(owed))]

    return works


def no_model(name: str, owed: OwedRow) -> Works:
    """One command line without a model."""
    return lambda scratch: [SentWork(name, (), {}, (owed,))]


def _artifacts(deployments: Sequence[Deployment]) -> dict[str, Path]:
    libraries = dict.fromkeys(deployment.library_name for deployment in deployments)
    return {name: path for library in libraries for name, path in artifacts_of(library).items()}


def _owed(
    deployment: Deployment, models: Sequence[str], known_settings: KnownSettings, lanes: Lanes
) -> Iterator[OwedRow]:
    for model in models:
        settings = deployment.models[model]
        for runtime, engine in lanes(settings):
            known = known_in_engine(known_settings(settings, runtime), engine)
            yield OwedRow(deployment.library_name, model, runtime, known, engine)
