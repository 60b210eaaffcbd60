"""Kept choices: where each operator of a model runs on a device and with which algorithm, as a file that tuning leaves.

    build/<library>/opencl/<abi>/<library>_selection.<device model>.<soc>.json

A set holds the choices of one fingerprint. A choice is valid for a device of that fingerprint, for the graph whose hash
it carries, and for the settings that decide what may be chosen (precisions, CPU fallback, Winograd, memory of the
activations). The file carries a version and the SHA-256 of its sets; what does not match is refused by name, and the
default plan is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from farm.rows.record import Record
from runtime.errors import FormatError
from runtime.lowering.choice import GraphChoice
from runtime.plan.artifacts import Fingerprint, Replacement
from runtime.types import PRECISIONS, Precision, Winograd

KIND = "farm-selection"
VERSION = 4
READABLE = (2, 3, VERSION)  # 2 knows no choice among precisions, 3 none for each operator; all else is the same


class ChoiceSubject(Record):
    """What a choice is for, beside the device: a model, and the settings under which it was made.

    `precision`: what the deployment file allows; where it allows several, all of them, sorted, with commas.
    """

    model: str
    precision: str
    allow_cpu: bool
    winograd: Winograd = "default"
    activation_limit_mb: float | None = None
    activation_slowdown: float | None = None


class KeptChoice(ChoiceSubject):
    """A choice, its predicted time, and the model's measured time with it, in ms.

    `chosen_precision`: what was chosen where the deployment file allows several, of a mixed plan the least exact one of
    its operators; empty where it allows one.
    """

    choice: dict[str, Any]
    predicted_ms: float = Field(allow_inf_nan=False, ge=0)
    measured_ms: float = Field(allow_inf_nan=False, ge=0)
    chosen_precision: str = Field(default="", validate_default=True)

    @field_validator("chosen_precision")
    @classmethod
    def _is_allowed(cls, value: str, info: ValidationInfo) -> str:
        allowed = str(info.data.get("precision", "")).split(",")
        if value not in (allowed if len(allowed) > 1 else ("",)) or not set(allowed) <= PRECISIONS.keys():
            raise ValueError(f"the precision {value!r} was chosen among {', '.join(allowed)}")
        return value

    @property
    def plan_precision(self) -> Precision:
        """The precision of the plan."""
        return PRECISIONS[self.chosen_precision or self.precision]

    @property
    def subject(self) -> ChoiceSubject:
        """What it is for."""
        return ChoiceSubject(**{name: getattr(self, name) for name in ChoiceSubject.model_fields})

    @property
    def graph_choice(self) -> GraphChoice:
        """The choice as the lowering takes it; FormatError where it is damaged or of another version."""
        return GraphChoice.from_json(json.dumps(self.choice))


@dataclasses.dataclass(frozen=True)
class ChoiceSet:
    """The choices of one fingerprint; `device_model` is what they were measured on (after a merge all, by commas)."""

    fingerprint: Fingerprint
    device_model: str
    choices: tuple[KeptChoice, ...]

    def find(self, subject: ChoiceSubject) -> KeptChoice | None:
        """The choice for a subject."""
        return next((choice for choice in self.choices if choice.subject == subject), None)

    def with_choices(self, new: Iterable[KeptChoice]) -> ChoiceSet:
        """The same with choices in the place of those for the same subjects."""
        by_subject = {choice.subject: choice for choice in (*self.choices, *new)}
        return dataclasses.replace(self, choices=tuple(by_subject.values()))


class _SetRecord(Record):
    fingerprint: dict[str, str]
    device_model: str
    choices: tuple[KeptChoice, ...]


def encode_choices(sets: Sequence[ChoiceSet]) -> bytes:
    """The bytes of a file of choices."""
    content = [
        {
            "fingerprint": dataclasses.asdict(one_set.fingerprint),
            "device_model": one_set.device_model,
            "choices": [choice.model_dump() for choice in one_set.choices],
        }
        for one_set in sets
    ]
    members = {"kind": KIND, "version": VERSION, "sha256": _digest(content), "sets": content}
    return (json.dumps(members, indent=1) + "\n").encode()


def is_choice_file(content: bytes) -> bool:
    """Whether the content starts as a file of choices does: as JSON."""
    return content.lstrip()[:1] == b"{"


def decode_choices(content: bytes, where: str) -> list[ChoiceSet]:
    """Reads the sets of a file of choices; a FormatError starts with `where`, the name of the file."""
    try:
        members = json.loads(content)
    except ValueError:
        raise FormatError(f"{where}: damaged: not JSON; `farm tune` writes it again") from None
    if not (isinstance(members, dict) and members.get("kind") == KIND):
        raise FormatError(f"{where}: not a selection that `farm tune` left")
    if members.get("version") not in READABLE:
        raise FormatError(f"{where}: selection of version {members.get('version')}, this farm reads {VERSION}")
    if members.get("sha256") != _digest(members.get("sets")):
        raise FormatError(f"{where}: damaged: its content has another hash; `farm tune` writes it again")
    try:
        return [_decoded(one_set) for one_set in members["sets"]]
    except (FormatError, TypeError, ValueError) as error:  # pydantic's errors are ValueErrors
        raise FormatError(f"{where}: damaged: {str(error).splitlines()[0]}") from None


def _decoded(one_set: object) -> ChoiceSet:
    record = _SetRecord.model_validate(one_set)
    for kept in record.choices:
        choice = kept.graph_choice
        if not choice.nodes:
            raise ValueError("a choice for a graph without operators")
        if choice.precisions and choice.precisions[-1] != kept.plan_precision:
            raise ValueError(f"operators in {choice.precisions[-1].label} in a plan of another precision")
        if not {each.label for each in choice.precisions} <= set(kept.precision.split(",")):
            raise ValueError(f"operators in another precision than {kept.precision}")
    return ChoiceSet(Fingerprint(**record.fingerprint), record.device_model, record.choices)


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def merge_choices(sets: Iterable[ChoiceSet]) -> tuple[list[ChoiceSet], list[Replacement]]:
    """Merges sets into one for each fingerprint, and returns what was chosen where two choices had the same subject.

    The one with which the model is faster stays; of two that are equally fast, the later.
    """
    merged: dict[Fingerprint, ChoiceSet] = {}
    replacements: list[Replacement] = []
    for one_set in sets:
        known = merged.setdefault(one_set.fingerprint, dataclasses.replace(one_set, choices=()))
        better = [choice for choice in one_set.choices if _wins(choice, known, one_set.device_model, replacements)]
        models = dict.fromkeys([*known.device_model.split(","), *one_set.device_model.split(",")])
        merged[one_set.fingerprint] = dataclasses.replace(known.with_choices(better), device_model=",".join(models))
    return list(merged.values()), replacements


def _wins(new: KeptChoice, known: ChoiceSet, device_model: str, replacements: list[Replacement]) -> bool:
    """Whether a choice enters a merge; where another one has the same subject, notes which of the two does."""
    old = known.find(new.subject)
    if old is None or old == new:
        return True
    is_better = new.measured_ms <= old.measured_ms
    winner, loser = (new, old) if is_better else (old, new)
    reason = f"{winner.measured_ms:.3g} ms against {loser.measured_ms:.3g} ms"
    replacements.append(Replacement(new.model, device_model if is_better else known.device_model, reason))
    return is_better


@dataclasses.dataclass(frozen=True)
class FoundChoice:
    """A choice that a device may use, or why there is none; `reason` is empty where none was ever kept."""

    choice: GraphChoice | None = None
    kept: KeptChoice | None = None
    reason: str = ""


NOTHING = FoundChoice()


def find_choice(path: Path, fingerprint: Fingerprint, subject: ChoiceSubject, graph: str) -> FoundChoice:
    """The choice of a file for a device, a subject, and a graph of this hash."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        return FoundChoice(reason=f"{path}: cannot be read: {error.strerror}")
    try:
        sets = decode_choices(content, str(path))
    except FormatError as error:
        return FoundChoice(reason=str(error))
    return _found(sets, fingerprint, subject, graph)


def _found(sets: Sequence[ChoiceSet], fingerprint: Fingerprint, subject: ChoiceSubject, graph: str) -> FoundChoice:
    same_subject = [(one_set, kept) for one_set in sets if (kept := one_set.find(subject))]
    if not same_subject:
        return NOTHING
    for one_set, kept in same_subject:
        if one_set.fingerprint == fingerprint:
            choice = kept.graph_choice
            if choice.graph != graph:
                return FoundChoice(reason=f"made for another graph of {subject.model}")
            return FoundChoice(choice, kept)
    nearest = min((different_fields(one_set.fingerprint, fingerprint) for one_set, _ in same_subject), key=len)
    return FoundChoice(reason=f"made for another device or version: {'; '.join(nearest)}")


def different_fields(one: Fingerprint, device: Fingerprint) -> list[str]:
    """In what a fingerprint differs from a device's, a text for each field."""
    fields = [field.name for field in dataclasses.fields(one)]
    pairs = ((name, getattr(one, name), getattr(device, name)) for name in fields)
    return [f"{name} is {ours!r}, the unit's {theirs!r}" for name, ours, theirs in pairs if ours != theirs]
