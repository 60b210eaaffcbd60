"""Series in the store: points derived from nightly rows, kept apart so that years of them are read in a second."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Text, cast, delete, exists, func, select

from farm.rows.nightly import NightlyRow
from farm.rows.packed_points import PackedPoints, point_of
from farm.rows.row import OWN_ENGINE
from farm.rows.series import Case, Metric, Point, SeriesKey, case_of, digest, points_of
from farm.store import schema
from farm.store.rows import json_value
from farm.store.statements import insert_new

STREAMED = 16  # series fetched at a time
_BESIDE = ("run", "commit")  # which the point's run tells
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Point)}


def store_points(connection: Connection, run: int, row: NightlyRow) -> None:
    """Stores a row's points; they replace those of an earlier row of the same case in the same run."""
    points_by_digest = {_digest(key): (key, point) for key, point in points_of(row, run).items()}
    case = {*points_by_digest, *(_digest(SeriesKey(case_of(row), metric)) for metric in Metric)}
    of_case = select(schema.series.c.id).where(schema.series.c.digest.in_(case))
    connection.execute(
        delete(schema.points).where(schema.points.c.run_id == run, schema.points.c.series_id.in_(of_case))
    )
    if not points_by_digest:
        return
    new = [{"digest": key_digest, "key": _key_list(key)} for key_digest, (key, _) in sorted(points_by_digest.items())]
    connection.execute(insert_new(connection, schema.series), new)
    series_ids = select(schema.series.c.digest, schema.series.c.id).where(schema.series.c.digest.in_(points_by_digest))
    values = [
        {"series_id": number, "run_id": run, "point": encoded_point(points_by_digest[key_digest][1])}
        for key_digest, number in connection.execute(series_ids)
    ]
    connection.execute(schema.points.insert(), values)


def each_series(
    connection: Connection, until: int | None, nights: int, name: str | None, only: Sequence[SeriesKey] | None = None
) -> Iterator[tuple[SeriesKey, PackedPoints]]:
    """Reads the points of the last nights, one series after the other, each in the order of runs; `only`: of these."""
    commits = night_commits(connection, until, nights, name)
    if not commits:
        return
    series = select(schema.series.c.id, schema.series.c.key)
    if only is not None:
        series = series.where(schema.series.c.digest.in_(map(_digest, only)))
    keys = {number: series_key(key) for number, key in connection.execute(series)}
    table = schema.points.c
    runs, texts = (func.aggregate_strings(cast(column, Text), ",") for column in (table.run_id, table.point))
    query = select(table.series_id, runs, texts).group_by(table.series_id).order_by(table.series_id)
    query = query.where((table.run_id + 0).in_(commits))  # a sum: the index by run would only make it sort them all
    if only is not None:
        query = query.where(table.series_id.in_(keys))
    for number, of_runs, members in connection.execute(query.execution_options(yield_per=STREAMED)):
        yield keys[number], PackedPoints(list(map(int, of_runs.split(","))), members, commits)


def night_commits(connection: Connection, until: int | None, nights: int, name: str | None) -> dict[int, str]:
    """The last runs that have points, with their commits."""
    runs = schema.runs.c
    query = select(runs.id, runs.commit).where(exists().where(schema.points.c.run_id == runs.id))
    if until is not None:
        query = query.where(runs.id <= until)
    if name is not None:
        query = query.where(runs.name == name)
    return dict(connection.execute(query.order_by(runs.id.desc()).limit(nights)).all())


def _key_list(key: SeriesKey) -> list[str]:
    """The engine stands in it where it is not farm's own: the keys of older stores stay as they are."""
    *case, engine = dataclasses.astuple(key.case)
    return [*case, *([] if engine == OWN_ENGINE else [engine]), str(key.metric)]


def series_key(values: Sequence[str]) -> SeriesKey:
    """The series key that was stored as a list."""
    *case, metric = values
    return SeriesKey(Case(*case), Metric(metric))


def _digest(key: SeriesKey) -> str:
    return digest(_key_list(key))


def point_value(point: Mapping[str, Any]) -> float | None:
    """The figure (trimmed mean of its measurements) of a stored point; None where it has none."""
    return point_of(dict(point), 0, "").value


def encoded_point(point: Point) -> dict[str, Any]:
    """The point's members that differ from their defaults; floats that are not finite become words."""
    values = {field.name: getattr(point, field.name) for field in dataclasses.fields(point)}
    changed = {name: value for name, value in values.items() if name not in _BESIDE and value != _DEFAULTS[name]}
    encoded: dict[str, Any] = json_value(changed)
    return encoded
