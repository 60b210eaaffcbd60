"""Results: what a job's `measure` returns, as frozen dataclasses of typed records, and how a row is made of one."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from farm.rows.record import Record
from farm.rows.row import Ending, Failure, Identity, Provenance, Row, Throttling, UnitStates
from farm.rows.status import Status

RowType = TypeVar("RowType", bound=Row)

OK = Ending(status=Status.OK)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Generic[RowType]):
    """What a job measured on a unit; base of every job's result, which adds records that its row type inherits.

    Attributes:
        ending: how it ended; a job may have figures and yet end badly, with a wrong output for example.
        device_model: what the unit says it is; empty leaves what is known of it without asking.
    """

    ending: Ending = OK
    device_model: str = ""
    provenance: Provenance = dataclasses.field(default_factory=Provenance)
    throttling: Throttling = dataclasses.field(default_factory=Throttling)


@dataclasses.dataclass(frozen=True)
class Conditions:
    """What is known of a job beside its result: the settings it was given, and the unit's state round it."""

    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    states: UnitStates = dataclasses.field(default_factory=UnitStates)


def make_row(
    row_type: type[RowType], identity: Identity, conditions: Conditions, outcome: Result[RowType] | Failure
) -> RowType:
    """The row of a result, or of a failure to get one. Every row is made here."""
    result = Result[RowType](ending=outcome) if isinstance(outcome, Failure) else outcome
    parts = [
        identity.on(result.device_model or identity.device_model),
        conditions.states,
        result.provenance.with_settings(conditions.settings),
        *(part for part in _records(result) if part is not result.provenance),
    ]
    fields = {name: getattr(part, name) for part in parts for name in type(part).model_fields}
    return row_type(**fields)


def _records(result: Result[RowType]) -> Iterator[Record]:
    """The records of a result. The row type inherits the type of each, and with it the fields and their types."""
    values = (getattr(result, field.name) for field in dataclasses.fields(result))
    return (value for value in values if isinstance(value, Record))
