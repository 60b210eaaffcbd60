"""A nightly run in the store: begun or gone on with, every block and row kept at once, judged at the end."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from farm.jobs.nightly.bundles import NightBundles, keep_bundles, night_bundles
from farm.jobs.nightly.stored_night import NIGHTS, last_good_name, load_night
from farm.jobs.nightly.unit import NightSettings
from farm.nightly.configuration import NightlyConfiguration
from farm.nightly.night import Night, NightOutcome
from farm.rows.bundle import BundleManifest
from farm.rows.duet import DuetPair
from farm.rows.nightly import Block, NightlyRow
from farm.rows.record import Record
from farm.rows.series import Case, case_of, digest
from farm.rows.status import Status
from farm.store import Store
from farm.store.bundle_archive import BundleArchive, folder_of
from farm.store.bundle_pruning import prune_bundles
from farm.store.shared_bundles import SharedBundles
from runtime.errors import ConfigError, FarmError, StoreError

PLAN = "plan"  # the note with what a run must know to go on; all others are blocks and pairs
DUET = "duet: "  # how the notes of pairs begin; no case's name has a colon
INTERRUPTED = "interrupted"
BYTES_PER_MB = 1_000_000

NightJob = Callable[[NightSettings], Iterator[NightlyRow]]
"""Measures what a night still lacks: here, or on the hosts of a cluster."""


def begin(store: Store, nightly: NightlyConfiguration, command: str, commit: str = "") -> int:
    """A new run; its number. `commit` is what is tested, unless the file says it."""
    run = store.begin(nightly.title, command, nightly.commit or commit)
    seed = secrets.randbelow(2**32) if nightly.seed is None else nightly.seed
    store.note_progress(run, PLAN, {"seed": seed, "digest": _digest(nightly)})
    return run


def resume(store: Store, nightly: NightlyConfiguration) -> int:
    """The last run of the file, which goes on; raises ConfigError where it ended, or the file has changed since."""
    last = next(iter(store.runs(name=nightly.title, limit=1)), None)
    if last is None or last.state != INTERRUPTED:
        state = "there is no run yet" if last is None else f"run {last.id} is {last.state}"
        raise ConfigError(f"--resume: {nightly.title}: {state}, nothing to go on with; start a run without --resume")
    if _plan(store, last.id).get("digest") != _digest(nightly):
        raise ConfigError(f"--resume: {nightly.path} has changed since run {last.id}; start a run without --resume")
    store.end(last.id, "running")
    return last.id


def measure(
    store: Store,
    run: int,
    nightly: NightlyConfiguration,
    job: NightJob,
    retries: int,
    say: Callable[[str], None],
    shared: SharedBundles | None = None,
) -> Night:
    """Has what is missing measured, and ends the run. What ends it early leaves it as interrupted, to be gone on with.

    `retries`: how often a block is measured again because farmrt was killed; `shared`: bundles of other hosts, among
    which tonight's are left, too.
    Raises StoreError where rows cannot be kept.
    """
    keeper = _RowKeeper(store, run, say)
    try:
        bundles = _bundles(store, run, nightly, shared, say)
        settings = dataclasses.replace(_night_settings(store, run, nightly, say), retries=retries, bundles=bundles)
        for row in job(settings):
            keeper.keep(row)
        keeper.finish()
    except BaseException:
        _end_interrupted(store, run)
        raise
    store.end(run)
    night = load_night(store, run, nightly.baseline)
    _keep_bundles(store, nightly, night, say)
    if shared and nightly.bundle_limit_mb:
        _share_bundles(shared, say)
    if night.outcome == NightOutcome.GOOD:
        store.set_baseline(last_good_name(nightly.title), run)
    return night


def _keep_bundles(store: Store, nightly: NightlyConfiguration, night: Night, say: Callable[[str], None]) -> None:
    """Settles what the night leaves for later ones, and makes room; what cannot be done is only said."""
    if not nightly.bundle_limit_mb:
        return
    archive = BundleArchive(folder_of(store.address))
    limit_bytes = int(nightly.bundle_limit_mb * BYTES_PER_MB)
    try:
        keep_bundles(archive, night)
        prune_bundles(archive, limit_bytes, store.baselines().values())
    except FarmError as error:
        say(str(error))
        return
    if (size_bytes := archive.summary().size_bytes) > limit_bytes:
        say(f"the last good bundles alone take {size_bytes / BYTES_PER_MB:.0f} MB, more than bundle_limit_mb")


def block_seconds(store: Store, name: str) -> dict[Case, float]:
    """How long a block of each case took in the last run that ended."""
    last = next((run for run in store.runs(name=name) if run.state == "finished"), None)
    rows = store.nightly_rows(last.id) if last else []
    return {case_of(row): row.busy_s / len(row.blocks) for row in rows if row.blocks and row.busy_s}


def _night_settings(store: Store, run: int, nightly: NightlyConfiguration, say: Callable[[str], None]) -> NightSettings:
    done = {case_of(row) for row in store.nightly_rows(run) if row.status in (Status.OK, Status.WRONG_RESULT)}
    history = dict(store.each_series(until=run - 1, nights=NIGHTS, name=nightly.title))
    seed, notebook = int(_plan(store, run)["seed"]), _Notebook(store, run, say)
    return NightSettings(nightly, run, seed, history, notebook, done)


def _bundles(
    store: Store, run: int, nightly: NightlyConfiguration, shared: SharedBundles | None, say: Callable[[str], None]
) -> NightBundles | None:
    """What earlier nights left here, and on other hosts as far as they can be asked."""
    if not nightly.bundle_limit_mb:
        return None
    others: list[BundleManifest] = []
    if shared:
        try:
            others, left_out = shared.manifests(nightly.title)
        except FarmError as error:
            left_out = [f"no bundles of other hosts: {error}"]
        for line in left_out:
            say(line)
    archive = shared.archive() if shared else BundleArchive(folder_of(store.address))
    return night_bundles(archive, store.run(run), store.runs(name=nightly.title), others)


def _share_bundles(shared: SharedBundles, say: Callable[[str], None]) -> None:
    """Leaves tonight's bundles where other hosts find them; that it cannot be done is only said."""
    try:
        shared.publish()
    except FarmError as error:
        say(f"bundles are not shared: {error}")


def _plan(store: Store, run: int) -> Mapping[str, Any]:
    return dict(store.progress(run)).get(PLAN, {})


def _digest(nightly: NightlyConfiguration) -> str:
    return digest(nightly.model_dump(mode="json"))


def _end_interrupted(store: Store, run: int) -> None:
    try:
        store.end(run, INTERRUPTED)
    except StoreError:  # a run whose process is gone counts as interrupted anyway
        return


class _RowKeeper:
    """Rows into the store, those that it did not take once more at the end."""

    def __init__(self, store: Store, run: int, say: Callable[[str], None]) -> None:
        self._store, self._run, self._say = store, run, say
        self._waiting: list[NightlyRow] = []

    def keep(self, row: NightlyRow) -> None:
        try:
            self._store.add(self._run, [row])
        except StoreError as error:
            self._say(f"{error}; tried again when all is measured")
            self._waiting.append(row)

    def finish(self) -> None:
        self._store.add(self._run, self._waiting)


class _Notebook:
    """The blocks of a run, kept in the store. One that is not kept costs only a resumed run some time."""

    def __init__(self, store: Store, run: int, say: Callable[[str], None]) -> None:
        self._store, self._run, self._say = store, run, say
        self._lock = threading.Lock()
        self._known: dict[str, list[Block]] = {}
        self._pairs: dict[str, list[DuetPair]] = {}
        for key, data in store.progress(run):
            if key.startswith(DUET):
                self._pairs.setdefault(key, []).append(DuetPair.model_validate(data))
            elif key != PLAN:
                self._known.setdefault(key, []).append(Block.model_validate(data))

    def note(self, case: Case, block: Block) -> None:
        """See Notebook."""
        self._note(str(case), block)

    def note_pair(self, case: Case, pair: DuetPair) -> None:
        """See PairNotebook."""
        self._note(f"{DUET}{case}", pair)

    def _note(self, key: str, measured: Record) -> None:
        with self._lock:
            try:
                self._store.note_progress(self._run, key, measured.model_dump(mode="json"))
            except StoreError as error:
                self._say(f"a block was not noted: {error}")

    def pairs(self, case: Case) -> Sequence[DuetPair]:
        """See PairNotebook."""
        return self._pairs.get(f"{DUET}{case}", ())

    def blocks(self, case: Case) -> Sequence[Block]:
        """See Notebook."""
        return self._known.get(str(case), ())
