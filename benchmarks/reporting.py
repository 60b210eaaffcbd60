"""How long the report of a night takes, and how much memory: all formats, of so many series of so many nights.

    python benchmarks/reporting.py                          # 100 series of 365 nights; the aim is 10 s and 500 MB
    python benchmarks/reporting.py --series 10000 --stored --rounds 1   # as `farm report`; the aim is 60 s, 1 GB
    python benchmarks/reporting.py --series 10000 --store nights.db --rounds 0   # makes that store, for later calls
    python benchmarks/reporting.py --json

Each round is a process of its own, so that the peak is that of one report. A night is made from a seed beforehand, in
memory or as a store: its seconds are not counted. The peak is that of all processes together, looked at five times a
second: a page of memory that several share counts once (Linux: the proportional set size).
"""

import dataclasses
import json
import math
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import psutil
import sqlalchemy as sa

from farm.nightly.night import CaseReport
from farm.rows.nightly import NightlyRow
from farm.rows.series import Point, SeriesKey, points_of
from farm.store import Store, schema
from farm.store.series import encoded_point, series_key
from tests.farm.report import nights as made

sys.path.insert(0, str(Path(__file__).parent.parent))

from farm.jobs.nightly.stored_night import load_night
from farm.nightly.night import Night
from farm.report.write import write_reports

MB = 10**6
LOOK_S = 0.2


@dataclass(frozen=True)
class Spent:
    """What one report took: seconds to judge the night (0 where it was made), and to write it."""

    series: int
    judging_s: float
    writing_s: float
    report_bytes: int
    files: int
    cpu_s: float = 0.0
    peak_bytes: int = 0

    @property
    def wall_s(self) -> float:
        """In all."""
        return self.judging_s + self.writing_s


def spent(series: int, nights: int, store: str = "") -> Spent:
    """Writes one report in this process: of the last night of a store, or of a night that is made first."""
    begun_s = time.perf_counter()
    night = _stored(store) if store else made.many(series, nights)
    judging_s = time.perf_counter() - begun_s if store else 0.0
    assert len(night.series) >= series, f"a night of {len(night.series)} series was made"
    with tempfile.TemporaryDirectory() as folder:
        begun_s = time.perf_counter()
        written = write_reports(night, Path(folder) / "report")
        writing_s = time.perf_counter() - begun_s
        sizes = [file.stat().st_size for file in written.files]
    return Spent(len(night.series), judging_s, writing_s, sum(sizes), len(sizes), _cpu_s())


def _stored(address: str) -> Night:
    with Store.open(address, create=False) as store:
        return load_night(store, store.runs(limit=1)[0].id)


def _cpu_s() -> float:
    """Of this process and of those that it started and that have ended; what it took to start counts too."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def in_a_process(series: int, nights: int, store: str = "") -> Spent:
    """The same in a new process, which may start others; with their memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        report, peak_bytes = pool.submit(spent, series, nights, store), 0
        while not report.done():
            peak_bytes = max(peak_bytes, _memory_bytes(psutil.Process()))
            wait([report], timeout=LOOK_S)
    return replace(report.result(), peak_bytes=peak_bytes)


def _memory_bytes(process: psutil.Process) -> int:
    """Of all that a process started."""
    return sum(_proportional_bytes(each) for each in process.children(recursive=True))


def _proportional_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:  # it has ended meanwhile
        return 0


def rounds_of(series: int, nights: int, rounds: int, store: Path | None) -> list[Spent]:
    """So many reports; of one store, which is made first where it is missing."""
    if store and not store.exists():
        with Store.open(str(store)) as made_store:
            fill(made_store, series, nights)
    return [in_a_process(series, nights, str(store or "")) for _ in range(rounds)]


@click.command()
@click.option("--series", type=click.IntRange(1), default=100, show_default=True)
@click.option("--nights", type=click.IntRange(8), default=365, show_default=True)
@click.option("--rounds", type=click.IntRange(0), default=5, show_default=True)
@click.option("--stored", is_flag=True, help="Of a store, as `farm report`: the night is judged anew.")
@click.option("--store", type=click.Path(path_type=Path), help="The same, of this store; it is made if it is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(series: int, nights: int, rounds: int, stored: bool, store: Path | None, as_json: bool) -> None:
    """Measure the reports of a night."""
    with tempfile.TemporaryDirectory() as folder:
        store = store or (Path(folder, "farm.db") if stored else None)
        runs = rounds_of(series, nights, rounds, store)
    if not runs:
        return
    if as_json:
        click.echo(json.dumps({"series": series, "nights": nights, "rounds": [asdict(run) for run in runs]}))
        return
    seconds = [run.wall_s for run in runs]
    peak = max(run.peak_bytes for run in runs) / MB
    click.echo(
        f"{runs[0].series} series of {nights} nights, {runs[0].files} files of {runs[0].report_bytes / MB:.1f} MB"
    )
    click.echo(f"wall time: median {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f} s)")
    if store:
        click.echo(f"of it judging: median {statistics.median(run.judging_s for run in runs):.2f} s")
    click.echo(f"CPU time: median {statistics.median(run.cpu_s for run in runs):.1f} s")
    click.echo(f"peak memory of all processes: {peak:.0f} MB")


if __name__ == "__main__":
    main()


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
