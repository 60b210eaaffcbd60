"""How the two sides of a comparison are sent to hosts: deployment files, or the sources of two farms and one file.

a/model.yml, b/model.yml        two versions of a model
a/sources/, b/sources/          two farms; a host compares them as folders
a/model.yml                     what two engines run, which a host finds by their names
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from farm.cluster.job_files import DEPLOYMENT, artifacts_of, files_of_models
from farm.cluster.sent_jobs import OwedRow, SentWork, Works
from farm.jobs.compare.builds import CompareOptions, shared_runtimes
from farm.jobs.compare.checkout import SOURCES, Checkout
from farm.jobs.compare.contender import Contender
from farm.jobs.fleet.job_rows import known_in_engine
from runtime.errors import ConfigError

SideNames = Mapping[str, Mapping[str, Any]]

SIDES = ("a", "b")
MADE = ("__pycache__", "build")  # folders of a checkout that no source lies in


def works(both: tuple[Contender, Contender], options: CompareOptions) -> Works:
    """One command line that compares both on a unit."""

    def made(scratch: Path) -> list[SentWork]:
        source = both[0].source
        named = [name for name in source.models if not options.models or name in options.models]
        runtimes = {name: shared_runtimes(name, both, options.runtimes) for name in named}
        models = [name for name in named if runtimes[name]]
        if not models:
            raise ConfigError(f"{source.path}: no model that both have runs on {' or '.join(options.runtimes)}")
        files = artifacts_of(source.library_name) | files_of_models(source, models, scratch, "a/")
        more, words = _SENT[both[0].side.kind](both, models, scratch)
        settings = {"turns": options.turns, **options.execution.given}
        owed = [
            OwedRow(source.library_name, model, runtime, known_in_engine(settings, engine), engine)
            for model in models
            for engine in (both[1].engine_of(model),)
            for runtime in runtimes[model]
        ]
        return [SentWork("compare", words, files | more, tuple(owed))]

    return made


def _sent_builds(both: Sequence[Contender], *_: Any) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The sources of both, or of the one that is compared with itself; and the words for them on the host."""
    farms = dict(zip(SIDES, (contender.checkout for contender in both), strict=True))
    sent = {side: farm for side, farm in farms.items() if farm and (side == "a" or farm != farms["a"])}
    files = {name: path for side, farm in sent.items() for name, path in _sources(farm, side).items()}
    return files, (*(f"{side if side in sent else 'a'}/sources" for side in SIDES), f"a/{DEPLOYMENT}")


def _sent_models(
    both: Sequence[Contender], models: Sequence[str], scratch: Path
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The files of B where it is another model than A; and the words for both on the host."""
    if both[1].source.path == both[0].source.path:
        return {}, (f"a/{DEPLOYMENT}", f"a/{DEPLOYMENT}")
    other = both[1].source
    theirs = [name for name in map(both[1].model_name, models) if name in other.models]
    files = artifacts_of(other.library_name) | files_of_models(other, theirs, scratch, "b/")
    return files, (f"a/{DEPLOYMENT}", f"b/{DEPLOYMENT}")


def _sent_engines(both: Sequence[Contender], *_: Any) -> tuple[dict[str, Path], tuple[str, ...]]:
    """No file but the model's, and the words for both."""
    return {}, (*(contender.engine for contender in both), f"a/{DEPLOYMENT}")


_SENT = {"model": _sent_models, "build": _sent_builds, "engine": _sent_engines}


def adapted(both: Sequence[Contender]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Gives a row's sides the names and commits that they have here."""
    names = side_names(both)
    return lambda data: with_side_names(data, names)


def side_names(both: Sequence[Contender]) -> SideNames:
    """What the two are called here, and what they are, as members of a row's sides."""
    return {
        arm: contender.side.model_dump(include={"name", "kind", "commit", "changed"})
        for arm, contender in zip(SIDES, both, strict=True)
    }


def with_side_names(data: Mapping[str, Any], names: SideNames) -> dict[str, Any]:
    """A row's data with these names; without any it stays as it is."""
    return {**data, **{arm: {**data[arm], **members} for arm, members in names.items()}}


def _sources(checkout: Checkout, side: str) -> dict[str, Path]:
    """All sources of a farm: path in the job's folder -> file."""
    return {
        f"{side}/sources/{path.relative_to(checkout.folder)}": path
        for package in SOURCES
        for path in sorted((checkout.folder / package).rglob("*"))
        if path.is_file() and not set(MADE) & set(path.relative_to(checkout.folder).parts)
    }
