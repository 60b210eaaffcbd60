"""`farm artifacts`: what tuning left."""

import dataclasses
from pathlib import Path
from typing import Any

import click

from farm import artifacts, safe_text
from farm.artifacts import Artifact, ArtifactFinding, ArtifactSet
from farm.cli.envelope import CommandResult, Document
from farm.config.inventory import Unit
from farm.jobs.fleet.opening import open_unit
from farm.jobs.sharing.share import share_results
from farm.kept_choices import ChoiceSet
from farm.store.address import parse_address
from farm.store.bundle_archive import folder_of
from farm.tables import table
from farm.tables.artifacts import artifact_table, content_tables
from farm.units import lookup
from farm.units.selection import Selection
from runtime.errors import FormatError, JobError
from runtime.plan.artifacts import Fingerprint, KernelSet, fingerprint_of

NO_ARTIFACTS = "none yet; `farm tune` writes them"


def list_files(as_json: bool) -> CommandResult:
    """`farm artifacts list`; returns the exit status."""
    paths = artifacts.find()
    readable = [artifact for path in paths if (artifact := _readable(path))]
    status = int(len(readable) < len(paths))
    if as_json:
        return Document(status, members={"artifacts": [_summary(artifact) for artifact in readable]})
    if readable:
        table.show([artifact_table(readable)])
    elif not paths:
        click.echo(NO_ARTIFACTS)
    return status


def _readable(path: Path) -> Artifact | None:
    """The artifact, or None and a line on stderr where it is damaged."""
    try:
        return artifacts.read(path)
    except FormatError as error:
        click.echo(str(error), err=True)
        return None


def show_file(file: Path, as_json: bool) -> CommandResult:
    """`farm artifacts show`."""
    artifact = artifacts.read(file)
    if as_json:
        return Document(members=_summary(artifact) | {"sets": [_content(one_set) for one_set in artifact.sets]})
    table.show(content_tables(artifact))
    return 0


def verify_files(
    files: tuple[Path, ...], choice: Selection, offline: bool, opencl: str | None, as_json: bool
) -> CommandResult:
    """`farm artifacts verify`; returns the exit status."""
    paths = files or artifacts.find()
    units = lookup.chosen_units(choice) if paths and not offline else []
    known = {unit.name: device for unit in units if unit.abis and (device := _fingerprint(unit, opencl))}
    findings = [finding for path in paths for finding in artifacts.verify(path, _suiting(path, known))]
    status = int(not all(finding.good for finding in findings))
    if as_json:
        return Document(status, members={"findings": [_plain(finding) for finding in findings]})
    if not paths:
        click.echo(f"nothing to verify: {NO_ARTIFACTS}")
    for finding in findings:
        click.echo(f"{'ok   ' if finding.good else 'WRONG'}  {finding.path}: {finding.text}")
    return status


def _plain(finding: ArtifactFinding) -> dict[str, Any]:
    return {"file": str(finding.path), "ok": finding.good, "text": finding.text}


def merge_files(files: tuple[Path, ...], output: Path, as_json: bool) -> CommandResult:
    """`farm artifacts merge`."""
    replacements = artifacts.merge(files, output)
    merged = artifacts.read(output)
    if as_json:
        kept = [dataclasses.asdict(replacement) for replacement in replacements]
        return Document(members=_summary(merged) | {"replacements": kept})
    for replacement in replacements:
        click.echo(f"{replacement.key}: kept the one of {replacement.winner} ({replacement.reason})")
    click.echo(f"{output}: {merged.kind}, {len(merged.sets)} sets of {len(files)} files")
    return 0


def share_files(place: str, store: str | None, as_json: bool) -> CommandResult:
    """`farm artifacts share`; the exit status is 1 where something was left out."""
    bundles = folder_of(parse_address(store))
    shared = share_results(place, bundles, lambda text: click.echo(safe_text.one_line(text), err=True))
    for line in shared.left_out:
        click.echo(safe_text.one_line(f"left out: {line}"), err=True)
    status = int(bool(shared.left_out))
    if as_json:
        return Document(status, members=dataclasses.asdict(shared))
    click.echo(f"taken over from {len(shared.others)} hosts: {shared.sets} sets, {shared.trials} trials")
    given = f"{shared.given} files and {shared.bundles} bundles, {table.size(shared.sent_bytes)} of them new"
    click.echo(f"shared as {shared.host}: {given}")
    return status


def _fingerprint(unit: Unit, opencl: str | None) -> Fingerprint | None:
    """What files for the unit must be valid for; None and a line on stderr where it cannot be asked."""
    try:
        with open_unit(unit, opencl) as opened:
            return fingerprint_of(opened.probe.target(unit.soc))
    except JobError as error:
        click.echo(safe_text.one_line(f"not compared with a unit: {error}"), err=True)
        return None


def _suiting(path: Path, known: dict[str, Fingerprint]) -> dict[str, Fingerprint]:
    """Units whose SoC the file is for; a damaged file is for none, and verifying it says so."""
    try:
        socs = {one_set.fingerprint.soc for one_set in artifacts.read(path).sets}
    except FormatError:
        return {}
    return {name: device for name, device in known.items() if device.soc in socs}


def _summary(artifact: Artifact) -> dict[str, Any]:
    sets = [_head(one_set) | {"entry_count": artifacts.entry_count(one_set)} for one_set in artifact.sets]
    return {"file": str(artifact.path), "kind": artifact.kind, "size_bytes": artifact.size_bytes, "sets": sets}


def _head(one_set: ArtifactSet) -> dict[str, Any]:
    return {"device_model": one_set.device_model, "fingerprint": dataclasses.asdict(one_set.fingerprint)}


def _content(one_set: ArtifactSet) -> dict[str, Any]:
    if isinstance(one_set, ChoiceSet):
        return _head(one_set) | {"choices": [choice.model_dump() for choice in one_set.choices]}
    if isinstance(one_set, KernelSet):
        return _head(one_set) | {
            "programs": [{"key": key, "size_bytes": len(data)} for key, data in one_set.binaries.items()]
        }
    return _head(one_set) | {"entries": [dataclasses.asdict(entry) for entry in one_set.entries]}
