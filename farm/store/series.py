"""Series in the store: points derived from nightly rows, kept apart so that years of them are read in a second."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json
from sqlalchemy import Connection, Text, cast, delete, exists, select

from farm.rows.nightly import NightlyRow
from farm.rows.series import Case, Metric, Point, SeriesKey, case_of, digest, points_of
from farm.store import schema
from farm.store.rows import NIGHTLY, is_whole, nightly_row, plain
from farm.store.statements import insert_new

_BESIDE = ("run", "commit")  # which the point's run tells
_DEFAULTS = {each.name: each.default for each in dataclasses.fields(Point)}


def keep_points(connection: Connection, run: int, row: NightlyRow) -> None:
    """Derives a row's points; they take the place of what an earlier row of the same case gave in that run."""
    found = {_digest(key): (key, point) for key, point in points_of(row, run).items()}
    case = [_digest(SeriesKey(case_of(row), metric)) for metric in Metric]
    of_case = select(schema.series.c.id).where(schema.series.c.digest.in_(case))
    connection.execute(
        delete(schema.points).where(schema.points.c.run_id == run, schema.points.c.series_id.in_(of_case))
    )
    if not found:
        return
    new = [{"digest": each, "key": _key_list(key)} for each, (key, _) in sorted(found.items())]
    connection.execute(insert_new(connection, schema.series), new)
    known = select(schema.series.c.digest, schema.series.c.id).where(schema.series.c.digest.in_(found))
    values = [
        {"series_id": number, "run_id": run, "point": _encoded(found[each][1])}
        for each, number in connection.execute(known)
    ]
    connection.execute(schema.points.insert(), values)


def derive_all(connection: Connection) -> None:
    """Derives all points anew from the rows."""
    connection.execute(delete(schema.points))
    found = select(schema.rows.c.run_id, schema.rows.c.row).where(schema.rows.c.job == NIGHTLY)
    for run, row in connection.execute(found.order_by(schema.rows.c.id)).all():
        if is_whole(row):
            keep_points(connection, run, nightly_row(row))


def read_series(
    connection: Connection, until: int | None, nights: int, name: str | None
) -> dict[SeriesKey, list[Point]]:
    """The points of the last nights, by series in the order of runs."""
    commits = _nights(connection, until, nights, name)
    if not commits:
        return {}
    keys = {
        number: series_key(key) for number, key in connection.execute(select(schema.series.c.id, schema.series.c.key))
    }
    table = schema.points.c
    text = cast(table.point, Text)  # read by a parser that is three times as fast, and keeps equal texts once
    wanted = select(table.series_id, table.run_id, text).where(table.run_id.between(min(commits), max(commits)))
    arms: dict[tuple[str, ...], tuple[str, ...]] = {}
    found: dict[int, list[Point]] = {}
    for number, run, point in connection.execute(wanted.order_by(table.series_id, table.run_id)):
        if run in commits:
            found.setdefault(number, []).append(_decoded(from_json(point), run, commits[run], arms))
    return {keys[number]: points for number, points in found.items()}


def _nights(connection: Connection, until: int | None, nights: int, name: str | None) -> dict[int, str]:
    """The last runs that have points, with their commits."""
    runs = schema.runs.c
    wanted = select(runs.id, runs.commit).where(exists().where(schema.points.c.run_id == runs.id))
    if until is not None:
        wanted = wanted.where(runs.id <= until)
    if name is not None:
        wanted = wanted.where(runs.name == name)
    return dict(connection.execute(wanted.order_by(runs.id.desc()).limit(nights)).all())


def _key_list(key: SeriesKey) -> list[str]:
    return [*dataclasses.astuple(key.case), str(key.metric)]


def series_key(values: Sequence[str]) -> SeriesKey:
    """The key that was kept as a list."""
    *case, metric = values
    return SeriesKey(Case(*case), Metric(metric))


def _digest(key: SeriesKey) -> str:
    return digest(_key_list(key))


def median(point: Mapping[str, Any]) -> float | None:
    """The figure of a point as it was kept."""
    return _decoded(dict(point), 0, "", {}).value


def _encoded(point: Point) -> dict[str, Any]:
    """What differs from the defaults; figures that are not finite as words."""
    values = {each.name: getattr(point, each.name) for each in dataclasses.fields(point)}
    told = {name: value for name, value in values.items() if name not in _BESIDE and value != _DEFAULTS[name]}
    encoded: dict[str, Any] = plain(told)
    return encoded


def _decoded(told: dict[str, Any], run: int, commit: str, known_arms: dict[tuple[str, ...], tuple[str, ...]]) -> Point:
    arms = tuple(told.pop("arms", ()))
    runs = tuple(map(float, told.pop("runs", ())))
    return Point(run=run, commit=commit, runs=runs, arms=known_arms.setdefault(arms, arms), **told)
