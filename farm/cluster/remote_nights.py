"""A nightly run on units of other hosts: each unit's night is a job there; blocks, rows and bundles are kept here."""

from __future__ import annotations

import dataclasses
import functools
import queue
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from farm.cluster.client import ClusterSession
from farm.cluster.job_files import DEPLOYMENT, JobFiles, artifacts_of, files_of_models, job_scratch, sent_file
from farm.cluster.remote_units import RemoteCommand, RemoteUnit, run_on_hosts
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions, Job
from farm.jobs.fleet.progress import NOTE, ProgressView, replay
from farm.jobs.nightly.matrix import Places, cases_of, unmeasured_rows
from farm.jobs.nightly.sent_night import (
    CONFIGURATION,
    FOLDER,
    NIGHT,
    NightNotes,
    NotesOfCases,
    SentNight,
    bundle_files,
    parse_note,
    take_bundles,
)
from farm.jobs.nightly.unit import NightSettings, Notebook, is_good
from farm.rows.duet import DuetPair
from farm.rows.nightly import Block, NightlyRow
from farm.rows.series import Case, case_of
from farm.rows.status import Status
from runtime.errors import DeviceLostError, FarmError

COMMAND = "unit-night"
Say = Callable[[str], None]


def remote_nights(
    cluster: ClusterSession,
    options: Sequence[str],
    places: Places,
    fleet: FleetOptions,
    progress: ProgressView,
    say: Say,
    night: NightSettings,
) -> Iterator[NightlyRow]:
    """A row for each case that has none yet; a unit that was lost goes on where it was, also through another host.

    `options` are those of the command line on hosts; raises JobError where somebody cancels the job.
    """
    with job_scratch() as folder:
        sender = _Sender(NightFiles(Path(folder), places, night), places, night, tuple(options), say)
        all_cases = cases_of(night.nightly, places).items()
        left = {unit: [case for case in cases if case not in night.done] for unit, cases in all_cases}
        works = {unit.name: _UnitWork(unit, cases, sender) for unit, cases in left.items() if cases}

        def handle(event: dict[str, Any]) -> None:
            if event["event"] == NOTE:
                works[str(event["unit"])].tell(event["value"])
            else:
                replay(event, progress, str(event["unit"]))

        cluster.show_events(handle)
        jobs = [Job([work.unit], work.run, is_good, work.failed) for work in works.values()]
        for rows in run_on_hosts(cluster, jobs, fleet, progress):
            yield from rows


@dataclasses.dataclass(frozen=True)
class _Sender:
    """What the nights of all units have in common."""

    files: NightFiles
    places: Places
    night: NightSettings
    options: tuple[str, ...]
    say: Say


class _KeptNotes(NotesOfCases):
    """Blocks and pairs of a unit's cases, those of earlier calls first; each new one goes into the run's notebook."""

    def __init__(self, cases: Sequence[Case], notebook: Notebook) -> None:
        super().__init__({case: (notebook.blocks(case), notebook.pairs(case)) for case in cases})
        self._notebook = notebook

    def keep(self, case: Case, number: int, measured: Block | DuetPair) -> None:
        """Keeps what comes next; what has come already, or comes without what was before it, is measured again."""
        blocks, pairs = self.of_case[case]
        if isinstance(measured, Block) and number == len(blocks):
            super().keep(case, number, measured)
            self._notebook.note(case, measured)
        elif isinstance(measured, DuetPair) and number == len(pairs):
            super().keep(case, number, measured)
            self._notebook.note_pair(case, measured)


class _UnitWork:
    """One unit's night; what its hosts tell waits until the unit's thread takes it, since keeping it takes time."""

    def __init__(self, unit: Unit, cases: Sequence[Case], sender: _Sender) -> None:
        self.unit, self._sender = unit, sender
        self._notes = _KeptNotes(cases, sender.night.notebook)
        self._told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._attempt = ""
        self._rows: dict[Case, NightlyRow] = {}

    def tell(self, note: Any) -> None:
        """Takes a note as plain data, from whatever thread."""
        self._told.put(note)

    def run(self, opened: RemoteUnit) -> Iterator[list[NightlyRow]]:
        """The rows of all cases. Raises what tells that the unit is gone."""
        try:
            document = opened.run("night", self._command)
        finally:
            self._keep_notes()
        rows = [NightlyRow.model_validate(data) for data in document["rows"]]
        self._rows = {case_of(row): row for row in rows}
        for row in rows:
            if row.status == Status.DEVICE_LOST:
                raise DeviceLostError(row.reason)
        yield rows

    def failed(self, unit: Unit, error: FarmError) -> list[NightlyRow]:
        """The rows that the last host made, else such as tell what went wrong; all with the blocks that there are."""
        night = dataclasses.replace(self._sender.night, notebook=self._notes)
        rows = unmeasured_rows(unit, night, self._sender.places, error)
        return [self._rows.get(case_of(row), row) for row in rows]

    def _command(self) -> RemoteCommand:
        """What is sent: all that was measured so far goes with it."""
        self._keep_notes()
        self._attempt = secrets.token_hex(4)
        files = self._sender.files.of_unit(self.unit, self._notes.of_case, self._attempt)
        return RemoteCommand((COMMAND, *self._sender.options), files, receive=self._receive, meanwhile=self._keep_notes)

    def _keep_notes(self) -> None:
        """Keeps what was told; what an earlier attempt still tells is passed over."""
        while not self._told.empty():
            note = parse_note(self._told.get())
            if note.attempt == self._attempt:
                self._notes.keep(note.case, note.number, note.measured)

    def _receive(self, folder: Path) -> None:
        """Keeps tonight's bundles. Where that cannot be done it is said; a later night does without them."""
        if self._sender.night.bundles is None:
            return
        try:
            take_bundles(self._sender.night.bundles, folder)
        except (OSError, FarmError) as error:
            self._sender.say(f"tonight's bundles of {self.unit.name} cannot be kept: {error}")


SENDERS = ("units", "baseline", "notify_command", "webhook", "webhook_secret_file")  # what a host is not told of
NAMED_FILES = ("tuned", "kernels", "selection")  # keys of a setting


class NightFiles:
    """Makes the files of a night, in a folder that lasts as long as it does; each is hashed once.

    Raises ConfigError for models that cannot be sent, and for files that are missing.
    """

    def __init__(self, scratch: Path, places: Places, night: NightSettings) -> None:
        self._scratch, self._places, self._night = scratch, places, night
        self._models = [self._model_files(number) for number in range(len(places))]
        self._settings, self._setting_files = _sent_settings(night)

    def of_unit(self, unit: Unit, notes: NightNotes, attempt: str) -> JobFiles:
        """All files of a unit's night, with the notes that there are by now."""
        numbers = [number for number, (_, units) in enumerate(self._places) if unit in units]
        sent, path = SentNight.of(self._night, unit.name, notes, attempt), self._scratch / f"{secrets.token_hex(8)}.gz"
        sent.write(path)
        own = {CONFIGURATION: self._configuration(numbers), NIGHT: path, **self._setting_files}
        if bundles := self._night.bundles:
            own |= {name: path for case in notes for name, path in bundle_files(bundles, case, self._scratch).items()}
        return functools.reduce(JobFiles.united, (self._models[number] for number in numbers), JobFiles.of(own))

    def _model_files(self, number: int) -> JobFiles:
        source = self._places[number][0]
        models = files_of_models(source, list(source.models), self._scratch, f"{FOLDER}/{number}/")
        return JobFiles.of({**models, **artifacts_of(source.library_name)})

    def _configuration(self, numbers: list[int]) -> Path:
        """nightly.yml for a unit, with the deployment files that it is to measure."""
        kept = {key: value for key, value in self._night.nightly.data.items() if key not in SENDERS}
        data = {**kept, **self._settings, "models": [f"{number}/{DEPLOYMENT}" for number in numbers]}
        path = self._scratch / f"{secrets.token_hex(8)}.yml"
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path


def _sent_settings(night: NightSettings) -> tuple[dict[str, Any], dict[str, Path]]:
    """The settings of nightly.yml as hosts read them, and files that they name: path in the job's folder -> file."""
    written: dict[str, Any] = {}
    files: dict[str, Path] = {}
    for name, setting in night.nightly.data.get("settings", {}).items():
        written[name] = dict(setting)
        for key in NAMED_FILES:
            word = written[name].get(key)
            if word is not None and word != "none":
                written[name][key] = f"settings/{name}/{key}/{Path(word).name}"
                files[f"{FOLDER}/{written[name][key]}"] = sent_file(night.nightly.path.parent / word)
    return ({"settings": written} if written else {}), files
