"""A nightly run in the store: begun or gone on with, every block and row kept at once, judged at the end."""

import secrets
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
from farm.rows.packed_points import PackedPoints
from farm.rows.series import Case, SeriesKey, case_of, digest
from farm.rows.status import Status
from farm.store import Store
from farm.store.bundle_archive import BundleArchive, folder_of
from farm.store.lines import INTERRUPTED, RunData, new_run
from farm.store.pruning import prune_bundles
from farm.store.recorder import Recorder
from farm.store.shared_bundles import SharedBundles
from farm.store.shared_place import SharedPlace
from runtime.errors import ConfigError, FarmError, StoreError

PLAN = "plan"  # the note with what a run must know to go on; all others are blocks and pairs
DUET = "duet: "  # how the notes of pairs begin; no case's name has a colon
BYTES_PER_MB = 1_000_000

NightJob = Callable[[NightSettings], Iterator[NightlyRow]]
"""Measures what a night still lacks: here, or on the hosts of a cluster."""


def begun(nightly: NightlyConfiguration, command: str, commit: str = "") -> RunData:
    """Describes a new run. `commit` is what is tested, unless the file says it."""
    return new_run(nightly.title, command, nightly.commit or commit)


def resumed(url: str | None, nightly: NightlyConfiguration) -> RunData:
    """The last run of the file, which goes on; raises ConfigError where it ended, or the file has changed since."""
    with Store.open(url) as store:
        last = next(iter(store.runs(name=nightly.title, limit=1)), None)
        if last is None or last.state != INTERRUPTED:
            state = "there is no run yet" if last is None else f"run {last.id} is {last.state}"
            raise ConfigError(
                f"--resume: {nightly.title}: {state}, nothing to go on with; start a run without --resume"
            )
        if dict(store.progress(last.id)).get(PLAN, {}).get("digest") != _digest(nightly):
            raise ConfigError(f"--resume: {nightly.path} has changed since run {last.id}; start a run without --resume")
        store.end(last.id, "running")
        return store.run_data(last.id)


def measure(
    keeper: Recorder,
    nightly: NightlyConfiguration,
    job: NightJob,
    retries: int,
    say: Callable[[str], None],
    shared: SharedPlace | None = None,
) -> Night:
    """Has what is missing measured, and ends the run. What ends it early leaves it as interrupted, to be gone on with.

    A store that is away costs the night only its history: it is measured all the same, and judged by itself.

    Args:
        keeper: records the run; not entered yet.
        retries: how often a block is measured again because farmrt was killed.
        shared: where bundles of other hosts are, among which tonight's are left, too.
    """
    with keeper:
        settings, rows = _Beginning(keeper, nightly, say, shared).settings(retries)
        for row in job(settings):
            keeper.record(row)
            rows.append(row)
    if keeper.is_kept:
        try:
            with Store.open(keeper.url) as store:
                return _settled(store, keeper.number, nightly, say, shared)
        except StoreError as error:
            say(str(error))
    say("judged without the nights before, which are in the store")
    return _judged_alone(keeper.run, rows)


def _settled(
    store: Store,
    run: int,
    nightly: NightlyConfiguration,
    say: Callable[[str], None],
    place: SharedPlace | None,
) -> Night:
    """Judges the night, and leaves later ones what they look back to."""
    night = load_night(store, run, nightly.baseline)
    try:
        _keep_bundles(store, nightly, night, say)
        if place and nightly.bundle_limit_mb:
            _share_bundles(SharedBundles(place, folder_of(store.address)), say)
        if night.outcome == NightOutcome.GOOD:
            store.set_baseline(last_good_name(nightly.title), run)
    except StoreError as error:
        say(str(error))
    return night


def _judged_alone(run: RunData, rows: Sequence[NightlyRow]) -> Night:
    """The night as it is without a store, and so without history."""
    with Store.in_memory() as store:
        number = store.begin_run(run)
        store.add(number, rows)
        store.end(number)
        return load_night(store, number)


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


def _share_bundles(shared: SharedBundles, say: Callable[[str], None]) -> None:
    """Leaves tonight's bundles where other hosts find them; that it cannot be done is only said."""
    try:
        shared.publish()
    except FarmError as error:
        say(f"bundles are not shared: {error}")


def _digest(nightly: NightlyConfiguration) -> str:
    return digest(nightly.model_dump(mode="json"))


class _Beginning:
    """What is known when a run begins or goes on: of the store as far as it is there."""

    def __init__(
        self, keeper: Recorder, nightly: NightlyConfiguration, say: Callable[[str], None], place: SharedPlace | None
    ) -> None:
        self._keeper, self._nightly, self._say, self._place = keeper, nightly, say, place

    def settings(self, retries: int) -> tuple[NightSettings, list[NightlyRow]]:
        """What the night is measured with, and the rows that it has already."""
        rows: list[NightlyRow] = []
        history: dict[SeriesKey, PackedPoints] = {}
        progress: list[tuple[str, dict[str, Any]]] = []
        bundles, run, nightly = None, self._keeper.number, self._nightly
        if store := self._keeper.store:
            rows, progress = store.nightly_rows(run), store.progress(run)
            history = dict(store.each_series(until=run - 1, nights=NIGHTS, name=nightly.title))
            bundles = self._bundles(store, run)
        plan = dict(progress).get(PLAN) or self._new_plan()
        done = {case_of(row) for row in rows if row.status in (Status.OK, Status.WRONG_RESULT)}
        notebook = _Notebook(self._keeper, progress)
        return NightSettings(nightly, run, int(plan["seed"]), history, notebook, done, retries, bundles), rows

    def _new_plan(self) -> Mapping[str, Any]:
        seed = secrets.randbelow(2**32) if self._nightly.seed is None else self._nightly.seed
        plan = {"seed": seed, "digest": _digest(self._nightly)}
        self._keeper.note(PLAN, plan)
        return plan

    def _bundles(self, store: Store, run: int) -> NightBundles | None:
        """What earlier nights left here, and on other hosts as far as they can be asked."""
        if not self._nightly.bundle_limit_mb:
            return None
        others: list[BundleManifest] = []
        shared = SharedBundles(self._place, folder_of(store.address)) if self._place else None
        if shared:
            try:
                others, left_out = shared.manifests(self._nightly.title)
            except FarmError as error:
                left_out = [f"no bundles of other hosts: {error}"]
            for line in left_out:
                self._say(line)
        archive = shared.archive() if shared else BundleArchive(folder_of(store.address))
        return night_bundles(archive, store.run(run), store.runs(name=self._nightly.title), others)


class _Notebook:
    """The blocks of a run, each kept as it comes."""

    def __init__(self, keeper: Recorder, progress: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self._keeper = keeper
        self._known: dict[str, list[Block]] = {}
        self._pairs: dict[str, list[DuetPair]] = {}
        for key, data in progress:
            if key.startswith(DUET):
                self._pairs.setdefault(key, []).append(DuetPair.model_validate(data))
            elif key != PLAN:
                self._known.setdefault(key, []).append(Block.model_validate(data))

    def note(self, case: Case, block: Block) -> None:
        """See Notebook."""
        self._keeper.note(str(case), block.model_dump(mode="json"))

    def note_pair(self, case: Case, pair: DuetPair) -> None:
        """See PairNotebook."""
        self._keeper.note(f"{DUET}{case}", pair.model_dump(mode="json"))

    def pairs(self, case: Case) -> Sequence[DuetPair]:
        """See PairNotebook."""
        return self._pairs.get(f"{DUET}{case}", ())

    def blocks(self, case: Case) -> Sequence[Block]:
        """See Notebook."""
        return self._known.get(str(case), ())
