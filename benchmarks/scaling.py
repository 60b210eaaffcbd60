"""Measures how the farm scales: a fixed list of jobs on more and more emulated phones, against the best schedule.

    python benchmarks/scaling.py [--units 1,2,4,8,16,32] [--jobs N] [--json]

The phones are real to farm (adb, leases, the fleet's threads); what they do is simulated by waiting. They run in a
process of their own, so that the controller's CPU time and memory are its own. The best schedule can take no less than
the sum of all jobs over the number of units, and no less than the longest job.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import numpy as np
import psutil
from pydantic import BaseModel, ConfigDict

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation.phone_unit import private_adb_server
from farm.jobs.fleet.dispatch import FleetOptions, Job, run_jobs_by
from farm.jobs.fleet.progress import SILENT, UnitProgress
from farm.jobs.fleet.unit import OpenUnit
from farm.lease import lease
from farm.tables.table import Table, show
from farm.transport import connect
from farm.transport.interruption import Interruption
from runtime.errors import FarmError

SEED = 1
START_S = 30.0
MARGIN_S = 60.0
MIB = 1024**2


class Scale(BaseModel):
    """The list of jobs on some units. Seconds, CPU seconds of the controller, and its growth in memory a unit."""

    model_config = ConfigDict(frozen=True)

    units: int
    jobs: int
    seconds: float
    ideal_s: float
    controller_cpu_s: float
    memory_mib_a_unit: float

    @property
    def ratio(self) -> float:
        """1 is the best possible schedule."""
        return self.seconds / self.ideal_s


def ideal_s(durations_s: Sequence[float], units: int) -> float:
    """No schedule takes less."""
    return max(sum(durations_s) / units, max(durations_s))


def durations(jobs: int, mean_s: float) -> list[float]:
    """Seeded, between a half and three halves of the mean."""
    return [float(mean_s * each) for each in np.random.default_rng(SEED).uniform(0.5, 1.5, jobs)]


def measured(units: Sequence[Unit], durations_s: Sequence[float]) -> Scale:
    """Runs all jobs, each on whichever unit is free."""
    process = psutil.Process()
    cpu_s, memory, start_s = sum(process.cpu_times()[:2]), process.memory_info().rss, time.monotonic()
    jobs = [_job(units, seconds) for seconds in durations_s]
    outcomes = list(run_jobs_by(Connected(), jobs, FleetOptions("scaling"), SILENT))
    seconds = time.monotonic() - start_s
    if failed := [each for each in outcomes if each]:
        raise click.ClickException(failed[0])
    return Scale(
        units=len(units),
        jobs=len(jobs),
        seconds=seconds,
        ideal_s=ideal_s(durations_s, len(units)),
        controller_cpu_s=sum(process.cpu_times()[:2]) - cpu_s,
        memory_mib_a_unit=max(process.memory_info().rss - memory, 0) / MIB / len(units),
    )


def _job(units: Sequence[Unit], seconds: float) -> Job[str, OpenUnit]:
    def run(opened: OpenUnit) -> Iterator[str]:
        done = opened.transport.run(["sleep", f"{seconds:.3f}"], seconds + MARGIN_S)
        yield "" if done.exit_status == 0 else f"sleep ended with {done.exit_status}"

    def failed(unit: Unit, error: FarmError) -> str:
        return str(error)

    return Job(units, run, lambda outcome: not outcome, failed, cost=seconds)


class Connected:
    """Opens units by a connection and the lease, without farmrt."""

    @contextlib.contextmanager
    def open(
        self, unit: Unit, options: FleetOptions, progress: UnitProgress, interruption: Interruption
    ) -> Iterator[OpenUnit]:
        """A unit that can run programs."""
        with (
            contextlib.closing(connect(unit)) as transport,
            lease.acquire(unit, transport, options.purpose, connect=lambda: connect(unit), wait_s=options.wait_s),
        ):
            yield cast(OpenUnit, SimpleNamespace(unit=unit, transport=transport))

    def note_failure(self, unit: Unit, error: FarmError) -> None:
        """Nothing: these phones have no health."""


@contextlib.contextmanager
def phones(count: int, server_port: int) -> Iterator[list[Unit]]:
    """Emulated phones in a process of their own."""
    command = [
        sys.executable,
        "-c",
        "from farm.cli import main; main()",
        "emulate",
        "phone",
        "--port",
        "5801",
        "--count",
        str(count),
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            ports = [_port(json.loads(process.stdout.readline())) for _ in range(count)]
            yield [_unit(port, server_port) for port in ports]
        finally:
            process.terminate()


def _port(announcement: dict[str, Any]) -> int:
    return int(announcement["port"])


def _unit(port: int, server_port: int) -> Unit:
    serial = f"127.0.0.1:{port}"
    return Unit(f"p{port}", "adb", "sdm845", "phone", ("host",), serial=serial, adb_server=AdbAddress(port=server_port))


def _numbers(context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


@click.command()
@click.option("--units", "counts", callback=_numbers, default="1,2,4,8,16,32", show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=128, show_default=True)
@click.option("--mean", "mean_s", type=click.FloatRange(0.01), default=1.0, show_default=True, help="Seconds of a job.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(counts: list[int], jobs: int, mean_s: float, as_json: bool) -> None:
    """The time of a fixed list of jobs on more and more units."""
    with (
        tempfile.TemporaryDirectory() as home,
        private_adb_server(Path(home)) as port,
        phones(max(counts), port) as units,
    ):
        for unit in units:
            connect(unit).close()  # adb connects once, and knows them from then on
        scales = [measured(units[:count], durations(jobs, mean_s)) for count in counts]
    if as_json:
        click.echo(json.dumps([each.model_dump() | {"ratio": each.ratio} for each in scales]))
        return
    columns = ("Units", "Jobs", "Time(s)", "Best possible(s)", "Ratio", "Controller CPU(s)", "Memory a unit(MiB)")
    show([Table("", columns, [_cells(each) for each in scales])])


def _cells(scale: Scale) -> list[str]:
    figures = (scale.seconds, scale.ideal_s, scale.ratio, scale.controller_cpu_s, scale.memory_mib_a_unit)
    return [str(scale.units), str(scale.jobs), *(f"{figure:.2f}" for figure in figures)]


if __name__ == "__main__":
    main()
