"""One unit's night on another host: what it must know beside nightly.yml and models, and what it tells meanwhile.

    night/nightly.yml            without what only its sender does; its models are those beside it
    night/night.json.gz          a SentNight
    build/night.bundles/         files of earlier nights' bundles; what tonight leaves comes to lie there, too

Each block and each pair is told as soon as it is measured, so that whoever sent the night keeps it, and sends it along
when the night has to go on elsewhere.
"""

from __future__ import annotations

import dataclasses
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from farm.config import deployment
from farm.config.inventory import Unit
from farm.decision.duet_schedule import possible_runs
from farm.jobs.engines.ready import EngineModels
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.nightly.bundles import NightBundles
from farm.jobs.nightly.matrix import rows_of, subjects_of
from farm.jobs.nightly.unit import NightSettings, UnitNight
from farm.nightly import configuration
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.bundle import BundleManifest
from farm.rows.duet import DuetPair
from farm.rows.nightly import Block, NightlyRow
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Point, SeriesKey
from farm.store.bundle_archive import BLOBS, BundleArchive

FOLDER = "night"
CONFIGURATION, NIGHT = f"{FOLDER}/nightly.yml", f"{FOLDER}/night.json.gz"
ARCHIVE = "build/night.bundles"

NightNotes = Mapping[Case, tuple[Sequence[Block], Sequence[DuetPair]]]


@dataclasses.dataclass(frozen=True)
class SentNight:
    """What a host must know of a unit's night.

    Attributes:
        attempt: tells what comes of this sending from what comes of earlier ones.
        unit: the unit's name in the cluster, which its cases have.
        run, seed, retries: see NightSettings.
        done: the cases that have their row already.
        notes: blocks and pairs that were measured already.
        history: earlier nights of the unit.
        info: the run, as bundles name it; None: none are kept.
        bundles: what earlier nights left.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(ser_json_inf_nan="constants")

    attempt: str
    unit: str
    run: int
    seed: int
    retries: int
    done: list[Case]
    notes: list[tuple[Case, list[Block], list[DuetPair]]]
    history: list[tuple[SeriesKey, list[Point]]]
    info: RunInfo | None
    bundles: list[tuple[Case, list[BundleManifest]]]

    @classmethod
    def of(cls, night: NightSettings, unit: str, notes: NightNotes, attempt: str) -> SentNight:
        """Returns the part of the night that concerns one unit, with the notes made so far."""
        bundles = night.bundles
        return cls(
            attempt=attempt,
            unit=unit,
            run=night.run,
            seed=night.seed,
            retries=night.retries,
            done=[case for case in night.done if case.unit == unit],
            notes=[(case, list(blocks), list(pairs)) for case, (blocks, pairs) in notes.items()],
            history=[(key, list(points)) for key, points in night.history.items() if key.case.unit == unit],
            info=bundles.info if bundles else None,
            bundles=[(case, list(bundles.before(case))) for case in notes] if bundles else [],
        )

    def write(self, path: Path) -> None:
        """Writes the file that a host reads."""
        path.write_bytes(gzip.compress(_SENT.dump_json(self), mtime=0))

    @classmethod
    def read(cls, path: Path) -> SentNight:
        """Reads a night that `write` wrote."""
        return _SENT.validate_json(gzip.decompress(path.read_bytes()))

    def settings(self, nightly: NightlyConfiguration, tell: Callable[[Any], None]) -> NightSettings:
        """The night on its host; `tell` gets each note as plain data."""
        archive = BundleArchive(Path(ARCHIVE))
        return NightSettings(
            nightly=nightly,
            run=self.run,
            seed=self.seed,
            history=dict(self.history),
            notebook=_ToldNotes(self, tell),
            done=self.done,
            retries=self.retries,
            bundles=NightBundles(archive, self.info, dict(self.bundles)) if self.info else None,
        )


@dataclasses.dataclass(frozen=True)
class Note:
    """A block or a pair of a case, and how many of them were there before it."""

    attempt: str
    case: Case
    number: int
    measured: Block | DuetPair


_SENT, _NOTE = TypeAdapter(SentNight), TypeAdapter(Note)


def parse_note(data: Any) -> Note:
    """The note that was told as plain data."""
    return _NOTE.validate_python(data)


class NotesOfCases:
    """A notebook in memory; `keep` is called for each block or pair, with how many there were before it."""

    def __init__(self, notes: NightNotes) -> None:
        self.of_case: defaultdict[Case, tuple[list[Block], list[DuetPair]]] = defaultdict(lambda: ([], []))
        self.of_case |= {case: (list(blocks), list(pairs)) for case, (blocks, pairs) in notes.items()}

    def keep(self, case: Case, number: int, measured: Block | DuetPair) -> None:
        """Remembers what was measured."""
        blocks, pairs = self.of_case[case]
        if isinstance(measured, Block):
            blocks.append(measured)
        else:
            pairs.append(measured)

    def note(self, case: Case, block: Block) -> None:
        """See Notebook."""
        self.keep(case, len(self.of_case[case][0]), block)

    def note_pair(self, case: Case, pair: DuetPair) -> None:
        """See PairNotebook."""
        self.keep(case, len(self.of_case[case][1]), pair)

    def blocks(self, case: Case) -> Sequence[Block]:
        """See Notebook."""
        return tuple(self.of_case[case][0])

    def pairs(self, case: Case) -> Sequence[DuetPair]:
        """See PairNotebook."""
        return tuple(self.of_case[case][1])


class _ToldNotes(NotesOfCases):
    """The notes that came with a night; new ones are told to who sent it."""

    def __init__(self, sent: SentNight, tell: Callable[[Any], None]) -> None:
        super().__init__({case: (blocks, pairs) for case, blocks, pairs in sent.notes})
        self._attempt, self._tell = sent.attempt, tell

    def keep(self, case: Case, number: int, measured: Block | DuetPair) -> None:
        """Tells it, too."""
        self._tell(_NOTE.dump_python(Note(self._attempt, case, number, measured), mode="json"))
        super().keep(case, number, measured)


def sent_night_job(
    unit: Unit, trust_models: bool, fleet: FleetOptions, progress: ProgressView, tell: Callable[[Any], None]
) -> Iterator[NightlyRow]:
    """The rows of the night that was sent to the working directory; `tell` gets each note."""
    sent, nightly = SentNight.read(Path(NIGHT)), configuration.load(Path(CONFIGURATION))
    night, named = sent.settings(nightly, tell), dataclasses.replace(unit, name=sent.unit)
    places = [(deployment.load(path, trust_models), [named]) for path in nightly.model_files]
    with TemporaryDirectory() as scratch:
        subjects, models = subjects_of(night, places)[named], EngineModels(Path(scratch))
        yield from rows_of([UnitNight(unit, subjects, night, models)], fleet, progress)


def bundle_files(bundles: NightBundles, case: Case, scratch: Path) -> dict[str, Path]:
    """The files of all bundles that a duet of a case may need tonight: path in the job's folder -> file.

    Those that only other hosts have are brought into a folder; what nobody has is left out.
    """
    wanted = possible_runs(bundles.past(case))
    hashes = {hash_ for one in bundles.before(case) if one.run in wanted for hash_ in one.files.values()}
    found = {hash_: _brought(bundles.archive, hash_, scratch) for hash_ in sorted(hashes)}
    return {f"{ARCHIVE}/{BLOBS}/{hash_}": path for hash_, path in found.items() if path.is_file()}


def _brought(archive: BundleArchive, digest: str, scratch: Path) -> Path:
    """The file of a hash: the archive's own, else one in a folder."""
    own, copy = archive.blob(digest), scratch / digest
    if own.is_file():
        return own
    if not copy.is_file():
        archive.bring(digest, copy)
    return copy


def take_bundles(bundles: NightBundles, folder: Path) -> None:
    """Keeps what tonight left on a host, whose files lie below a folder; what is here already is not kept twice.

    Raises OSError or FarmError where the archive takes nothing.
    """
    left = BundleArchive(folder / ARCHIVE)
    for manifest in left.manifests(bundles.info.name):
        if manifest.run == bundles.info.id:
            paths = {role: left.blob(digest) for role, digest in manifest.files.items()}
            known = {
                role: path if path.is_file() else _brought(bundles.archive, path.name, folder)
                for role, path in paths.items()
            }
            bundles.archive.leave(manifest, known)
