"""The files of a nightly run as hosts get them: each unit's cases, what is known of them, bundles to compare with."""

from __future__ import annotations

import functools
import secrets
from pathlib import Path
from typing import Any

import yaml

from farm.cluster.job_files import DEPLOYMENT, JobFiles, artifacts_of, files_of_models, sent_file
from farm.config.inventory import Unit
from farm.jobs.nightly.matrix import Places
from farm.jobs.nightly.sent_night import CONFIGURATION, FOLDER, NIGHT, NightNotes, SentNight, bundle_files
from farm.jobs.nightly.unit import NightSettings

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
