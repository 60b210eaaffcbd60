"""What tuning on other hosts leaves, taken over into build/ here, as if the units had been tuned from here.

A set of tuned parameters and kernels belongs to a fingerprint and device model. Where several units of one device were
tuned by one command, the set stays whose unit proved the largest gain over its models: sets are never mixed, since each
was proved as a whole. Choices over the graph come with their set. Journals are united, line by line.
"""

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from farm import artifacts, atomic_file
from farm.artifacts import ArtifactSet, ChoiceRecord, SetRecord
from farm.kept_choices import ChoiceSet
from farm.workspace import BUILD_FOLDER, TUNING
from runtime.errors import FormatError
from runtime.kernels.source import all_sources_hash
from runtime.plan.artifacts import KernelSet, TunedSet
from tuner.journal import unite

SetType = TypeVar("SetType", TunedSet, KernelSet, ChoiceSet)
DeviceKey = tuple[str, str, str]  # folder, fingerprint, device model


class ReceivedFiles:
    """Takes over what the units of one command leave; may be called from several threads.

    Args:
        keeps_own: sets that are here already stay unless what comes gained more, and choices for the CPU stay. Sets of
            other kernel sources, which farm would drop the ones that are in use for, are passed over.

    Attributes:
        sets: how many sets of tuned parameters and kernels were taken over.
        trials: how many lines of journals.
    """

    def __init__(self, keeps_own: bool = False) -> None:
        self._lock = threading.Lock()
        self._keeps_own = keeps_own
        self._gains: dict[DeviceKey, float] = {}
        self.sets = self.trials = 0

    def receive(self, folder: Path) -> None:
        """Takes over what lies in a folder as it does below the working directory of the host.

        Raises FormatError where a file is damaged, ConfigError where one cannot be written.
        """
        with self._lock:
            for manifest in sorted(folder.glob(f"{BUILD_FOLDER}/*/opencl/*/{artifacts.MANIFEST_NAME}")):
                self._take_artifacts(folder, manifest.parent)
            for path in sorted(folder.glob(f"{BUILD_FOLDER}/*/cpu/*/*.json")):
                if not (self._keeps_own and path.relative_to(folder).exists()):
                    atomic_file.write(path.relative_to(folder), path.read_bytes())
            for path in sorted((folder / TUNING.folder).glob("*.jsonl")):
                self.trials += unite(path.relative_to(folder), path.read_bytes())

    def _take_artifacts(self, base: Path, folder: Path) -> None:
        """Publishes the new sets of a folder with artifacts, each with its choices."""
        place = folder.relative_to(base)
        here = artifacts.usable_manifest(place)
        manifest = artifacts.read_manifest(folder)
        if self._keeps_own:
            for own in here.sets:  # what comes must gain more
                self._is_best(str(place), own)
        for record in manifest.sets:
            if record in here.sets or not self._is_usable(record) or not self._is_best(str(place), record):
                continue
            tuned_file, tuned = _set_of(folder, record, TunedSet)
            kernels_file, kernels = _set_of(folder, record, KernelSet)
            artifacts.publish(tuned_file.relative_to(base), tuned, kernels_file.relative_to(base), kernels, record)
            for choice in manifest.choices:
                if choice not in here.choices and _device(choice) == _device(record):
                    _take_choice(base, folder, choice)
            self.sets += 1

    def _is_usable(self, record: SetRecord) -> bool:
        return not self._keeps_own or record.fingerprint.get("source_hash") == all_sources_hash()

    def _is_best(self, folder: str, record: SetRecord) -> bool:
        """Whether no other unit of this command has gained as much with the same device."""
        key = (folder, *_device(record))
        gain = sum(model.gain_percent for model in record.models)
        if key in self._gains and self._gains[key] >= gain:
            return False
        self._gains[key] = gain
        return True


def _take_choice(base: Path, folder: Path, record: ChoiceRecord) -> None:
    path, found = _set_of(folder, record, ChoiceSet)
    settings = {"model": record.model, **record.settings}
    own = tuple(choice for choice in found.choices if choice.subject.model_dump() == settings)
    artifacts.publish_choice(path.relative_to(base), dataclasses.replace(found, choices=own), record)


def _set_of(folder: Path, record: SetRecord | ChoiceRecord, kind: type[SetType]) -> tuple[Path, SetType]:
    """The file and the set of a kind that a record tells of."""
    for path, one_set in _sets(folder):
        if isinstance(one_set, kind) and _device(one_set) == _device(record):
            return path, one_set
    raise FormatError(f"{folder}: the manifest tells of a set that no file has")


def _sets(folder: Path) -> Iterator[tuple[Path, ArtifactSet]]:
    for path in sorted(folder.iterdir()):
        if path.suffix in (".bin", ".json") and path.name != artifacts.MANIFEST_NAME:
            yield from ((path, one_set) for one_set in artifacts.read(path).sets)


def _device(of: Any) -> tuple[str, str]:
    """Fingerprint and device model of a record or a set."""
    fingerprint = of.fingerprint if isinstance(of.fingerprint, dict) else dataclasses.asdict(of.fingerprint)
    return repr(sorted(fingerprint.items())), of.device_model
