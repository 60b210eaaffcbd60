"""How long the report of a night takes, and how much memory: all formats, of so many series of so many nights.

    python benchmarks/reporting.py                          # 100 series of 365 nights; the aim is 10 s and 500 MB
    python benchmarks/reporting.py --series 10000 --nights 30
    python benchmarks/reporting.py --json

Each round is a process of its own, so that the peak is that of one report. The night is made from a seed beforehand:
its seconds are not counted, its memory is.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from farm.report import write_reports
from tests.farm.report import nights as made

MB = 10**6


@dataclass(frozen=True)
class Spent:
    """What one report took. `peak_bytes` is resident memory, the night's own included."""

    wall_s: float
    peak_bytes: int
    report_bytes: int
    files: int


def spent(series: int, nights: int) -> Spent:
    """Writes one report in this process."""
    night = made.many(series, nights)
    assert len(night.series) == series, f"a night of {len(night.series)} series was made"
    with tempfile.TemporaryDirectory() as folder:
        start_s = time.perf_counter()
        written = write_reports(night, Path(folder) / "report")
        wall_s = time.perf_counter() - start_s
        sizes = [file.stat().st_size for file in written.files]
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Spent(wall_s, peak_bytes, sum(sizes), len(sizes))


def in_a_process(series: int, nights: int) -> Spent:
    """The same in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(spent, (series, nights))


@click.command()
@click.option("--series", type=click.IntRange(1), default=100, show_default=True)
@click.option("--nights", type=click.IntRange(8), default=365, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(series: int, nights: int, rounds: int, as_json: bool) -> None:
    """Measure the reports of a night."""
    runs = [in_a_process(series, nights) for _ in range(rounds)]
    if as_json:
        click.echo(json.dumps({"series": series, "nights": nights, "rounds": [asdict(run) for run in runs]}))
        return
    seconds = [run.wall_s for run in runs]
    peak = max(run.peak_bytes for run in runs) / MB
    click.echo(f"{series} series of {nights} nights, {runs[0].files} files of {runs[0].report_bytes / MB:.1f} MB")
    click.echo(f"wall time: median {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f} s)")
    click.echo(f"peak memory: {peak:.0f} MB")


if __name__ == "__main__":
    main()
