"""How long the report of a night takes, and how much memory: all formats, of so many series of so many nights.

    python benchmarks/reporting.py                          # 100 series of 365 nights; the aim is 10 s and 500 MB
    python benchmarks/reporting.py --series 10000 --stored --rounds 1   # as `farm report`; the aim is 60 s, 1 GB
    python benchmarks/reporting.py --series 10000 --store nights.db --rounds 0   # makes that store, for later calls
    python benchmarks/reporting.py --json

Each round is a process of its own, so that the peak is that of one report. A night is made from a seed beforehand, in
memory or as a store: its seconds are not counted. The peak is this process's, and where several work, as much again for
each of them as the largest of them takes, pages that they share included: more than they truly take.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.stored_nights import fill
from farm.jobs.nightly.stored_night import load_night
from farm.nightly.night import Night
from farm.report import write_reports
from farm.store import Store
from tests.farm.report import nights as made

MB = 10**6


@dataclass(frozen=True)
class Spent:
    """What one report took: seconds to judge the night (0 where it was made), and to write it."""

    series: int
    judging_s: float
    writing_s: float
    peak_bytes: int
    report_bytes: int
    files: int

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
    return Spent(len(night.series), judging_s, writing_s, _peak_bytes(), sum(sizes), len(sizes))


def _stored(address: str) -> Night:
    with Store.open(address, create=False) as store:
        return load_night(store, store.runs(limit=1)[0].id)


def _peak_bytes() -> int:
    own, largest = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return 1024 * (own + (os.cpu_count() or 1) * largest)


def in_a_process(series: int, nights: int, store: str = "") -> Spent:
    """The same in a new process, which may start others."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(spent, series, nights, store).result()


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
    click.echo(f"peak memory: {peak:.0f} MB")


if __name__ == "__main__":
    main()
