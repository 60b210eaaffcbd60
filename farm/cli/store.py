"""`farm store`: what is kept, and bringing it elsewhere."""

import dataclasses
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import FAILED
from farm.cli.envelope import CommandResult, Document
from farm.rows.run_info import RunInfo
from farm.safe_text import word
from farm.store import Store, pruning, summary
from farm.store.bundle_archive import ArchiveSummary, BundleArchive, folder_of
from farm.store.exporting import ExportFormat, export_file, export_lines, export_tables
from farm.store.importing import ImportResult, import_file
from farm.store.pruning import BundlePruneResult, PruneResult, prune_bundles
from farm.store.summary import StoreSummary
from farm.tables import table
from farm.tables.table import Table
from runtime.errors import ConfigError

STANDARD_OUTPUT = "-"
SHORT_COMMIT = 12
MAX_NUMBERS = 10
BYTES_PER_MB = 1_000_000
COLUMNS = ("Run", "Name", "Began", "Ended", "State", "Rows", "Commit", "Command")


def info(count: int, store: str | None, as_json: bool) -> CommandResult:
    """`farm store info`."""
    with Store.open_to_read(store) as opened:
        totals, runs, rows = summary.summary(opened), opened.runs(limit=count), summary.rows_by_run(opened)
        bundles = _archive(opened).summary()
    if as_json:
        listed = [dataclasses.asdict(run) | {"rows": rows.get(run.id, 0)} for run in runs]
        kept = {"store": dataclasses.asdict(totals), "bundles": dataclasses.asdict(bundles)}
        return Document(members={**kept, "runs": listed})
    table.show([_summary_table(totals), _bundles_table(bundles), _runs_table(runs, rows)])
    return 0


def verify(store: str | None, as_json: bool) -> CommandResult:
    """`farm store verify`; the store itself is checked by counting what it holds."""
    with Store.open_to_read(store) as opened:
        totals, archive = summary.summary(opened), _archive(opened)
        problems = archive.problems()
        bundles = archive.summary()
    status = FAILED if problems else 0
    if as_json:
        kept = {"store": dataclasses.asdict(totals), "bundles": dataclasses.asdict(bundles)}
        return Document(status, members={**kept, "problems": problems})
    whole = f"{totals.store}: {totals.rows} rows; {bundles.bundles} bundles in {bundles.files} files"
    click.echo("\n".join([*problems, f"{whole}: {f'{len(problems)} problems' if problems else 'whole'}"]))
    return status


def _archive(store: Store) -> BundleArchive:
    return BundleArchive(folder_of(store.address))


def export(output: Path, kind: str, store: str | None, as_json: bool) -> CommandResult:
    """`farm store export`; only tables are listed without --json, since the user named any other file."""
    to_standard_output = kind == ExportFormat.JSONL and str(output) == STANDARD_OUTPUT
    if as_json and to_standard_output:
        raise ConfigError("store export -: with --json the document takes standard output; name a file")
    with Store.open_to_read(store) as opened:
        if to_standard_output:
            export_lines(opened, sys.stdout.buffer)
            return 0
        paths = _exported(opened, output, ExportFormat(kind))
    if as_json:
        files = [{"file": str(path), "size_bytes": path.stat().st_size} for path in paths]
        return Document(members={"format": kind, "files": files})
    if kind != ExportFormat.JSONL:
        click.echo("\n".join(map(str, paths)))
    return 0


def _exported(store: Store, output: Path, kind: ExportFormat) -> list[Path]:
    """Writes the store into a file, or as tables into a folder; returns the files."""
    if kind != ExportFormat.JSONL:
        return export_tables(store, output, kind)
    export_file(store, output)
    return [output]


def import_files(files: Sequence[Path], store: str | None, as_json: bool) -> CommandResult:
    """`farm store import`; returns the exit status."""
    with Store.open(store) as opened:
        imported = [_imported(opened, path, as_json) for path in files]
    status = FAILED if any(totals.damaged for totals in imported) else 0
    of_files = [{"file": str(path), **dataclasses.asdict(totals)} for path, totals in zip(files, imported, strict=True)]
    return Document(status, members={"files": of_files}) if as_json else status


def _imported(store: Store, path: Path, as_json: bool) -> ImportResult:
    """Takes a file over, all of it or nothing, and says what came of it."""
    with store.writing() as connection:
        totals = import_file(connection, path)
    if not as_json:
        click.echo(_import_line(path, totals))
    return totals


def prune(
    before: datetime.datetime | None,
    keep: int | None,
    bundles_mb: float | None,
    dry_run: bool,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """`farm store prune`."""
    if before is None and keep is None and bundles_mb is None:
        raise ConfigError("which runs? --before DATE, --keep N, or both; or --bundles MB")
    moment = before.replace(tzinfo=datetime.UTC) if before else None
    pruned = PruneResult(0, 0)
    with Store.open(store, create=False) as opened:
        if before is not None or keep is not None:
            pruned = pruning.prune_store(opened, moment, keep, dry_run)
        bundles = _pruned_bundles(opened, bundles_mb, dry_run)
    if as_json:
        deleted = {**dataclasses.asdict(pruned), "bundles": dataclasses.asdict(bundles)}
        return Document(members={"dry_run": dry_run, "deleted": deleted})
    said = [f"{pruned.runs} runs with {pruned.rows} rows"]
    if bundles_mb is not None or bundles.bundles:
        said.append(f"{bundles.bundles} bundles with {table.size(bundles.size_bytes)}")
    click.echo(f"{'would delete' if dry_run else 'deleted'} {', '.join(said)}")
    return 0


def _pruned_bundles(store: Store, limit_mb: float | None, dry_run: bool) -> BundlePruneResult:
    """Removes the bundles of deleted runs, then the oldest until the rest is within the limit."""
    archive = _archive(store)
    if not archive.folder.is_dir():
        return BundlePruneResult(0, 0, 0)
    limit_bytes = sys.maxsize if limit_mb is None else int(limit_mb * BYTES_PER_MB)
    runs = {run.id for run in store.runs()}
    return prune_bundles(archive, limit_bytes, store.baselines().values(), runs, dry_run)


def _bundles_table(bundles: ArchiveSummary) -> Table:
    cells = [
        ("bundles", str(bundles.bundles)),
        ("files", str(bundles.files)),
        ("size", table.size(bundles.size_bytes)),
        ("oldest", bundles.oldest or "-"),
    ]
    return Table(bundles.folder, ("Member", "Value"), [list(pair) for pair in cells], frozenset({"Member", "Value"}))


def _summary_table(totals: StoreSummary) -> Table:
    cells = [
        ("layout", str(totals.layout)),
        ("size", table.size(totals.size_bytes)),
        *((name, str(getattr(totals, name))) for name in ("runs", "rows", "series", "points")),
        ("first run", totals.first or "-"),
        ("last run", totals.last or "-"),
    ]
    return Table(totals.store, ("Member", "Value"), [list(pair) for pair in cells], frozenset({"Member", "Value"}))


def _runs_table(runs: Sequence[RunInfo], rows: dict[int, int]) -> Table:
    left = frozenset(COLUMNS) - {"Run", "Rows"}
    return Table("Runs", COLUMNS, [_cells(run, rows.get(run.id, 0)) for run in runs], left)


def _cells(run: RunInfo, rows: int) -> list[str]:
    times = (run.started.removesuffix("+00:00"), run.ended.removesuffix("+00:00") or "-")
    return [str(run.id), word(run.name), *times, run.state, str(rows), run.commit[:SHORT_COMMIT], word(run.command)]


def _import_line(path: Path, totals: ImportResult) -> str:
    line = f"{path}: {totals.runs} new runs, {totals.rows} new rows, {totals.known} rows that were there"
    if totals.damaged:
        numbers = ", ".join(map(str, totals.damaged[:MAX_NUMBERS])) + (
            ", ..." if len(totals.damaged) > MAX_NUMBERS else ""
        )
        line += f", {len(totals.damaged)} damaged lines passed over ({numbers})"
    return line
