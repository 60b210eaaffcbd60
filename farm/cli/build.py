"""`farm build`: compiles farmrt."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from farm import safe_text
from farm.cli.envelope import CommandResult, Document
from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.jobs.build import BuildFailure, BuildOptions, Built, abis_of, available_abis, build_job
from farm.jobs.models.operators import needed_features
from farm.model import deployments
from farm.tables import table
from farm.tables.table import Table
from runtime.errors import ConfigError
from runtime.native.features import Features, chosen_features
from runtime.native.toolchains import find_toolchain

COLUMNS = ("ABI", "Size", "Time", "Compiler", "Program")
LEFT = frozenset({"ABI", "Compiler", "Program", "Shared library"})


@dataclasses.dataclass(frozen=True)
class BuildRequest:
    """What the command line asks for, beside the deployment files."""

    abis: tuple[str, ...]
    every: bool
    without: tuple[str, ...]
    only_operators: bool
    shared: bool
    output: Path | None
    skip_missing: bool


def build(models: Sequence[GivenModel], wanted: BuildRequest, as_json: bool) -> CommandResult:
    """`farm build`; returns the exit status."""
    if wanted.abis and wanted.every:
        raise ConfigError("farm build: give --abi or --all, not both")
    if wanted.only_operators and not models:
        raise ConfigError("farm build: --only-operators needs the deployment files of the models: MODEL.yml ...")
    sources = [deployments.load(model) for model in models]
    options = BuildOptions(_features(sources, wanted), wanted.shared, wanted.output)
    abis, left_out = _abis(sources, wanted)
    outcomes = list(build_job(abis, options, lambda line: click.echo(line, err=True)))
    built = [outcome for outcome in outcomes if isinstance(outcome, Built)]
    missing = [outcome for outcome in outcomes if isinstance(outcome, BuildFailure)]
    if wanted.skip_missing:
        left_out, missing = [*left_out, *missing], []
    status = int(bool(missing))
    if not as_json:
        _show(built, wanted.shared)
    _tell(missing, left_out, as_json)
    return Document(status, members=_members(built, missing, left_out)) if as_json else status


def _features(sources: Sequence[Deployment], wanted: BuildRequest) -> Features:
    return needed_features(sources, wanted.without) if wanted.only_operators else chosen_features(wanted.without)


def _abis(sources: Sequence[Deployment], wanted: BuildRequest) -> tuple[list[str], list[BuildFailure]]:
    """What to compile for, and what is left out without being asked for by name."""
    if wanted.every:
        return available_abis()
    for abi in () if wanted.skip_missing else wanted.abis:
        find_toolchain(abi)  # what is named here and cannot be made is a mistake, told before anything is compiled
    return list(dict.fromkeys(wanted.abis)) or abis_of(sources), []


def _members(
    built: Iterable[Built], missing: Iterable[BuildFailure], left_out: Iterable[BuildFailure]
) -> dict[str, object]:
    return {
        "built": [dataclasses.asdict(each) for each in built],
        "missing": {each.abi: each.reason for each in missing},
        "left_out": {each.abi: each.reason for each in left_out},
    }


def _show(built: Sequence[Built], shared: bool) -> None:
    if not built:
        return
    if built[0].operators is not None:
        click.echo(f"CPU operators: {' '.join(built[0].operators) or 'none'}")
    columns = [*COLUMNS, *(("Shared size", "Shared library") if shared else ())]
    table.show([Table("", columns, [_cells(each) for each in built], LEFT)])


def _tell(missing: Iterable[BuildFailure], left_out: Iterable[BuildFailure], as_json: bool) -> None:
    for each in missing:
        click.echo(safe_text.one_line(f"{each.abi}: not built: {each.reason}"), err=True)
    for each in left_out:
        if not as_json:
            click.echo(safe_text.one_line(f"left out: {each.reason}"), err=True)


def _cells(built: Built) -> list[str]:
    size = [] if built.shared_bytes is None else [f"{built.shared_bytes:,} B", built.shared]
    return [built.abi, f"{built.size_bytes:,} B", f"{built.seconds:.1f} s", built.compiler, built.program, *size]
