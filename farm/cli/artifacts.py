"""`farm artifacts`: what tuning left."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from farm import artifacts, safe_text
from farm.artifacts import Artifact
from farm.config.inventory import Unit
from farm.jobs.fleet.unit import open_unit
from farm.tables import table
from farm.tables.tune import artifact_table, content_tables
from farm.units import lookup
from farm.units.selection import Choice
from runtime.artifacts import Fingerprint, KernelSet, TunedSet, fingerprint_of
from runtime.errors import FormatError, JobError
from runtime.target import target_from_probe


def list_files(as_json: bool) -> int:
    """`farm artifacts list`; returns the exit status."""
    paths = artifacts.find()
    found = [artifact for path in paths if (artifact := _readable(path))]
    if as_json:
        click.echo(json.dumps({"artifacts": [_summary(artifact) for artifact in found]}, indent=2))
    elif found:
        table.show([artifact_table(found)])
    elif not paths:
        click.echo("none yet; `farm tune` writes them")
    return int(len(found) < len(paths))


def _readable(path: Path) -> Artifact | None:
    """The artifact, or None and a line on stderr where it is damaged."""
    try:
        return artifacts.read(path)
    except FormatError as error:
        click.echo(str(error), err=True)
        return None


def show_file(file: Path, as_json: bool) -> None:
    """`farm artifacts show`."""
    artifact = artifacts.read(file)
    if as_json:
        click.echo(json.dumps(_summary(artifact) | {"sets": [_content(each) for each in artifact.sets]}, indent=2))
    else:
        table.show(content_tables(artifact))


def verify_files(files: tuple[Path, ...], choice: Choice, offline: bool, opencl: str | None) -> int:
    """`farm artifacts verify`; returns the exit status."""
    units = [] if offline else lookup.chosen_units(choice)
    known = {unit.name: found for unit in units if unit.abis and (found := _fingerprint(unit, opencl))}
    findings = [each for path in files or artifacts.find() for each in artifacts.verify(path, _suiting(path, known))]
    for each in findings:
        click.echo(f"{'ok   ' if each.good else 'WRONG'}  {each.path}: {each.text}")
    return int(not all(each.good for each in findings))


def merge_files(files: tuple[Path, ...], output: Path) -> None:
    """`farm artifacts merge`."""
    for choice in artifacts.merge(files, output):
        click.echo(f"{choice.key}: kept the one of {choice.winner} ({choice.reason})")
    merged = artifacts.read(output)
    click.echo(f"{output}: {merged.kind}, {len(merged.sets)} sets of {len(files)} files")


def _fingerprint(unit: Unit, opencl: str | None) -> Fingerprint | None:
    """What files for the unit must be valid for; None and a line on stderr where it cannot be asked."""
    try:
        with open_unit(unit, opencl) as opened:
            return fingerprint_of(target_from_probe(opened.probe, unit.soc))
    except JobError as error:
        click.echo(safe_text.one_line(f"not compared with a unit: {error}"), err=True)
        return None


def _suiting(path: Path, known: dict[str, Fingerprint]) -> dict[str, Fingerprint]:
    """Units whose SoC the file is for; a damaged file is for none, and verifying it says so."""
    try:
        socs = {each.fingerprint.soc for each in artifacts.read(path).sets}
    except FormatError:
        return {}
    return {name: each for name, each in known.items() if each.soc in socs}


def _summary(artifact: Artifact) -> dict[str, Any]:
    sets = [_head(each) | {"entry_count": _count(each)} for each in artifact.sets]
    return {"file": str(artifact.path), "kind": artifact.kind, "size_bytes": artifact.size_bytes, "sets": sets}


def _head(each: TunedSet | KernelSet) -> dict[str, Any]:
    return {"device_model": each.device_model, "fingerprint": dataclasses.asdict(each.fingerprint)}


def _count(each: TunedSet | KernelSet) -> int:
    return len(each.entries) if isinstance(each, TunedSet) else len(each.binaries)


def _content(each: TunedSet | KernelSet) -> dict[str, Any]:
    if isinstance(each, KernelSet):
        return _head(each) | {
            "programs": [{"key": key, "size_bytes": len(data)} for key, data in each.binaries.items()]
        }
    return _head(each) | {"entries": [dataclasses.asdict(entry) for entry in each.entries]}
