"""Prunes a store: deletes whole runs with their rows and points (no named baselines), and unused bundles."""

import dataclasses
import datetime
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, delete, func, select

from farm.rows.bundle import BundleManifest
from farm.rows.run_info import RunInfo
from farm.store import schema
from farm.store.bundle_archive import BundleArchive
from farm.store.engine import translated_errors
from farm.store.lines import RUNNING
from farm.store.store import Store
from runtime.errors import StoreError


@dataclasses.dataclass(frozen=True)
class PruneResult:
    """How many runs and rows were deleted."""

    runs: int
    rows: int


def prune_store(
    store: Store, before: datetime.datetime | None = None, keep_runs: int | None = None, dry_run: bool = False
) -> PruneResult:
    """Deletes runs that began before a moment, and are not among the newest `keep_runs` of their name.

    Runs that go on, and baselines, stay. `dry_run`: only says how many would go.
    """
    run_ids = [
        run.id for run in prunable_runs(store.runs(), before, keep_runs) if run.id not in store.baselines().values()
    ]
    with store.reading() as connection:
        rows = sum(_rows_of(connection, part) for part in _parts(run_ids))
    if run_ids and not dry_run:
        with store.writing() as connection:
            for part in _parts(run_ids):
                connection.execute(delete(schema.runs).where(schema.runs.c.id.in_(part)))
            with_points = select(schema.points.c.series_id)
            connection.execute(delete(schema.series).where(schema.series.c.id.not_in(with_points)))
        _compact(store)
    return PruneResult(len(run_ids), rows)


def prunable_runs(runs: list[RunInfo], before: datetime.datetime | None, keep_runs: int | None) -> list[RunInfo]:
    """Selects the runs to delete; `runs` are newest first."""
    newer_runs: dict[str, int] = {}
    prunable = []
    for run in runs:
        newer_runs[run.name] = newer_runs.get(run.name, 0) + 1
        is_old = before is None or datetime.datetime.fromisoformat(run.started) < before
        if run.state != RUNNING and is_old and (keep_runs is None or newer_runs[run.name] > keep_runs):
            prunable.append(run)
    return prunable


def _parts(ids: list[int], size: int = 500) -> list[list[int]]:
    """Databases limit the length of a statement."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _rows_of(connection: Connection, runs: list[int]) -> int:
    query = select(func.count()).select_from(schema.rows).where(schema.rows.c.run_id.in_(runs))
    return int(connection.execute(query).scalar_one())


def _compact(store: Store) -> None:
    """Shrinks a SQLite file, unless it is in use; PostgreSQL reclaims space by itself."""
    if store.address.path:
        try:
            with translated_errors(store.address):
                connection = store.engine.raw_connection()
                try:
                    connection.cursor().execute("VACUUM")
                finally:
                    connection.close()
        except StoreError:
            return


# Makes room in the archive of bundles: what nothing refers to goes first, the oldest before all others.
#
# In use are the bundles that a night may compare itself with: of each case as many of the newest as a night looks back,
# and those of runs that are a named baseline. Where these alone are more than the limit, the oldest of them go too, but
# never the newest of a case: that is the last good one.
IN_USE_NIGHTS = 31  # a night looks back 30


@dataclasses.dataclass(frozen=True)
class BundlePruneResult:
    """How many bundles and files went, or would go, and their bytes."""

    bundles: int
    files: int
    size_bytes: int


def prune_bundles(
    archive: BundleArchive,
    limit_bytes: int,
    baselines: Collection[int] = (),
    runs: Collection[int] | None = None,
    dry_run: bool = False,
) -> BundlePruneResult:
    """Removes bundles until their files take no more than the limit.

    Args:
        archive: the bundles.
        limit_bytes: the most that may stay.
        baselines: runs whose bundles are in use, however old.
        runs: the runs that the store still has; bundles of others go first. None: of all.
        dry_run: removes nothing.
    """
    with archive.locked():
        manifests = archive.manifests()
        sizes = {path.name: path.stat().st_size for path in archive.blobs()}
        victims = [one for one in manifests if runs is not None and one.run not in runs]
        victims += _beyond([one for one in manifests if one not in victims], sizes, limit_bytes, baselines)
        orphans = set(sizes) - _named([one for one in manifests if one not in victims])
        if not dry_run:
            _remove(archive, victims, orphans, runs)
    bundles = sum(bool(one.files) for one in victims)
    return BundlePruneResult(bundles, len(orphans), sum(sizes[digest] for digest in orphans))


def _beyond(
    manifests: Sequence[BundleManifest], sizes: Mapping[str, int], limit_bytes: int, baselines: Collection[int]
) -> list[BundleManifest]:
    """The bundles that have to go until the files of the others are within the limit."""
    users = Counter(digest for manifest in manifests for digest in set(manifest.files.values()))
    used_bytes = sum(sizes.get(digest, 0) for digest in users)
    victims = []
    for manifest in removal_order(manifests, baselines):
        if used_bytes <= limit_bytes:
            break
        victims.append(manifest)
        for digest in set(manifest.files.values()):
            users[digest] -= 1
            used_bytes -= 0 if users[digest] else sizes.get(digest, 0)
    return victims


def removal_order(manifests: Sequence[BundleManifest], baselines: Collection[int]) -> list[BundleManifest]:
    """The bundles that may go, in this order: not in use, then in use, each the oldest first; the newest never."""
    newer: Counter[tuple[str, ...]] = Counter()
    ranked: list[tuple[bool, BundleManifest]] = []
    for manifest in sorted((one for one in manifests if one.files), key=lambda one: -one.run):
        place = newer[manifest.series]
        newer[manifest.series] += 1
        if place:
            ranked.append((place < IN_USE_NIGHTS or manifest.run in baselines, manifest))
    return [manifest for _, manifest in sorted(ranked, key=lambda item: (item[0], item[1].run))]


def _named(manifests: Sequence[BundleManifest]) -> set[str]:
    return {digest for manifest in manifests for digest in manifest.files.values()}


def _remove(
    archive: BundleArchive, victims: Sequence[BundleManifest], orphans: Collection[str], runs: Collection[int] | None
) -> None:
    """Manifests first, so that none names a file that is gone; what a night's duet said stays as long as its run."""
    for manifest in victims:
        if runs is not None and manifest.run not in runs:
            archive.remove_manifest(manifest)
        else:
            archive.write(manifest.model_copy(update={"files": {}}))
    for blob in archive.blobs():
        if blob.name in orphans:
            blob.unlink(missing_ok=True)
