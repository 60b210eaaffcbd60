"""A store of many series and nights for benchmarks: a few made-up phones, and copies of them under other names."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from farm.nightly.night import CaseReport
from farm.rows.nightly import NightlyRow
from farm.rows.series import Point, SeriesKey, points_of
from farm.store import Store, schema
from farm.store.series import encoded_point, series_key
from tests.farm.report import nights as made

NAME = "lab"
PHONES = 8  # that differ


def fill(store: Store, series: int, nights: int) -> int:
    """Puts so many series, or a few more, of so many nights into an empty store; returns the last night's run.

    Only the last two nights have rows; reports read no others unless a latency has changed.
    """
    cases = [case for device in made.night(nights, made.phones(PHONES)).devices for case in device.cases]
    runs = [store.begin(NAME, "farm nightly lab.yml", made.commit_of(number)) for number in range(nights)]
    of_a_case = statistics.fmean(len(points_of(case.row, 0)) for case in cases if case.row)
    count = math.ceil(series / of_a_case)
    store.add(runs[-2], [_copy(cases[number % len(cases)].before, number // made.CASES) for number in range(count)])
    store.add(runs[-1], [_copy(cases[number % len(cases)].row, number // made.CASES) for number in range(count)])
    _add_points(store, cases, runs[:-2])
    for run in runs:
        store.end(run)
    return runs[-1]


def _copy(row: NightlyRow | None, phone: int) -> NightlyRow:
    assert row, "phones without a fate are measured each night"
    return row.model_copy(update={"unit": f"phone{phone}"})


def _add_points(store: Store, cases: Sequence[CaseReport], runs: Sequence[int]) -> None:
    """Adds the points of these runs to each series that the store has: those of the made-up phone it is a copy of."""
    points = {report.key: report.points for case in cases for report in case.series}
    with store.writing() as connection:
        found = connection.execute(sa.select(schema.series.c.id, schema.series.c.key)).all()
        series = {series_key(key): number for number, key in found}
        for key, number in sorted(series.items(), key=lambda item: item[0] not in points):
            if key in points:
                _insert_points(connection, number, dict(zip(runs, points[key], strict=False)))
            else:
                _copy_points(connection, series[_original(key)], number)


def _original(key: SeriesKey) -> SeriesKey:
    """The made-up phone's series that this is a copy of."""
    phone = int(key.case.unit.removeprefix("phone")) % PHONES
    return dataclasses.replace(key, case=dataclasses.replace(key.case, unit=f"phone{phone}"))


def _insert_points(connection: sa.Connection, series: int, points: Mapping[int, Point]) -> None:
    values = [{"series_id": series, "run_id": run, "point": encoded_point(point)} for run, point in points.items()]
    connection.execute(schema.points.insert(), values)


def _copy_points(connection: sa.Connection, series: int, copy: int) -> None:
    columns = schema.points.c
    newest = sa.select(sa.func.min(columns.run_id)).where(columns.series_id == copy).scalar_subquery()
    copied = sa.select(sa.literal(copy), columns.run_id, columns.point)
    copied = copied.where(columns.series_id == series, columns.run_id < newest)
    connection.execute(schema.points.insert().from_select(["series_id", "run_id", "point"], copied))
