"""Measures a cluster of many hosts on this machine: units are emulated by waiting, all else is real.

    python benchmarks/cluster_scale.py [--hosts N] [--units N] [--jobs N] [--scale X]

A scheduler, a `farm worker` for each host, and one client that gives its jobs to the units as any command does. Jobs
wait from 1 to 60 s, times --scale. Then a host is killed, and its jobs are sent to units of the others.

Printed: the makespan over the lower bound of any schedule (the work by the units, or the longest job), what a job costs
on the way beside its waiting (CPU of the scheduler, of the client and of all hosts), memory of the scheduler, and the
time until all jobs of the lost host have run again. Hosts and client share this machine's cores with the scheduler.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.scratch import ROOT
from farm.cluster import connection
from farm.cluster.address import parse_cluster_address
from farm.cluster.client import ClusterSession
from farm.cluster.job_files import JobFiles
from farm.cluster.queue import new_job
from farm.cluster.remote_units import RemoteCommand, RemoteUnit, run_on_hosts
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FLEET, Job
from farm.jobs.fleet.progress import SILENT
from runtime.errors import FarmError

SHORTEST_S, LONGEST_S = 1.0, 60.0
HANGING_S = 600.0
STARTED_S = 120.0
SEED = 1
SCHEDULER = "from farm.cli import main; main()"
HOST = """
import os, time
from farm.cluster import host_tasks
from farm.config.inventory import Unit
from farm.units import lookup, survey
from farm.units.survey import UnitEntry, UnitReport, UnitState
units = [Unit(name, "adb", "sdm845", "", ("arm64-v8a",), serial=name) for name in os.environ["UNITS"].split()]

def wait(arguments, folder, is_cancelled, tell):
    deadline_s = time.monotonic() + float(arguments[1])
    while (left_s := deadline_s - time.monotonic()) > 0 and not is_cancelled():
        time.sleep(min(left_s, 1.0))
    return {"rows": [], "error": None}

host_tasks.run_command = wait
lookup.present = lambda: [UnitEntry(unit) for unit in units]
survey.identify = lambda entry, connect: UnitReport(entry.unit, UnitState.READY)
from farm.cli import main
main()
"""


class Cluster:
    """Processes of a cluster; `units` are the names of each host's."""

    def __init__(self, folder: Path, hosts: int, units: int, services: contextlib.ExitStack) -> None:
        self.units = {f"host{host}": [f"unit{host}-{unit}" for unit in range(units)] for host in range(hosts)}
        command = [sys.executable, "-c", SCHEDULER, "scheduler", "--plain", "--port", "0"]
        self.scheduler = services.enter_context(_process(command, folder))
        assert self.scheduler.stdout
        self.url = self.scheduler.stdout.readline().split()[-1]
        self.hosts = {}
        for host, names in self.units.items():
            (folder / host).mkdir()
            command = [sys.executable, "-c", HOST, "worker", "--scheduler", self.url, "--name", host]
            given = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "UNITS": " ".join(names)}}
            self.hosts[host] = services.enter_context(_process(command, folder / host, **given))

    def join(self) -> ClusterSession:
        """A client, as soon as all units are offered."""
        address, job = parse_cluster_address(self.url), new_job("benchmark", "interactive")
        session = ClusterSession(lambda: connection.connect_client(address, None, job.text), address, job)
        deadline_s = time.monotonic() + STARTED_S
        while not all(session.host_of(unit) for names in self.units.values() for unit in names):
            if time.monotonic() > deadline_s:
                raise SystemExit("not all units are offered in time")
            time.sleep(0.5)
        return session

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far: of the scheduler, all hosts, and this process, the client."""
        spent = {"scheduler": _cpu_s(self.scheduler.pid), "client": _cpu_s(os.getpid())}
        return spent | {"hosts": sum(_cpu_s(host.pid) for host in self.hosts.values())}


@contextlib.contextmanager
def _process(command: list[str], folder: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, cwd=folder, text=True, **{"stdout": subprocess.PIPE, **more}) as process:
        try:
            yield process
        finally:
            process.kill()


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def submit(session: ClusterSession, unit: str, seconds: float) -> Any:
    """Has a unit wait."""
    host = session.host_of(unit)
    assert host
    return session.submit(host, unit, "job", ("wait", f"{seconds:.3f}"), {})


def run_jobs(session: ClusterSession, units: list[str], lengths_s: list[float]) -> float:
    """Has all jobs done as a command does, each on the next free unit; the seconds that it took."""
    anywhere = [Unit(name, "adb", "sdm845", "", ("arm64-v8a",)) for name in units]
    jobs = [Job(anywhere, partial(_wait, length_s), good=bool, failed=_fail, cost=length_s) for length_s in lengths_s]
    begun_s = time.monotonic()
    for _ in run_on_hosts(session, jobs, FLEET, SILENT):
        pass
    return time.monotonic() - begun_s


def _wait(seconds: float, unit: RemoteUnit) -> Iterator[Mapping[str, Any]]:
    yield unit.run("job", lambda: RemoteCommand(("wait", f"{seconds:.3f}"), JobFiles({}, {})))


def _fail(unit: Unit, error: FarmError) -> NoReturn:
    raise error


def lose_host(cluster: Cluster, session: ClusterSession) -> float:
    """Kills a host whose units all work; seconds until other hosts have done their jobs."""
    host, lost = next(iter(cluster.units.items()))
    others = [unit for name, names in cluster.units.items() if name != host for unit in names]
    futures = {unit: submit(session, unit, HANGING_S) for unit in lost}
    time.sleep(2.0)
    begun_s = time.monotonic()
    cluster.hosts[host].kill()
    again: list[Any] = []
    while futures:
        for unit in [unit for unit in futures if session.host_of(unit) is None]:
            futures.pop(unit).cancel()
            again.append(submit(session, others[len(again) % len(others)], 0.0))
        time.sleep(0.1)
    for future in again:
        future.result()
    return time.monotonic() - begun_s


@click.command()
@click.option("--hosts", default=2, show_default=True, help="Simulated hosts.")
@click.option("--units", default=5, show_default=True, help="Units of each.")
@click.option("--jobs", default=100, show_default=True, help="Jobs in all.")
@click.option("--scale", default=0.02, show_default=True, help="Seconds that stand for one of a job.")
def main(hosts: int, units: int, jobs: int, scale: float) -> None:
    """Prints figures."""
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as services:
        begun_s = time.monotonic()
        cluster = Cluster(Path(name), hosts, units, services)
        session = cluster.join()
        services.callback(session.close)
        click.echo(f"{hosts} hosts with {units} units each offer them after {time.monotonic() - begun_s:.1f} s")
        chance = random.Random(SEED)
        lengths_s = [scale * chance.uniform(SHORTEST_S, LONGEST_S) for _ in range(jobs)]
        everything = [unit for names in cluster.units.values() for unit in names]
        before = cluster.cpu_s()
        took_s = run_jobs(session, everything, lengths_s)
        spent_ms = {who: 1e3 * (after - before[who]) / jobs for who, after in cluster.cpu_s().items()}
        bound_s = max(sum(lengths_s) / len(everything), max(lengths_s))
        click.echo(f"{jobs} jobs took {took_s:.1f} s, {took_s / bound_s:.3f} of the best schedule's {bound_s:.1f} s")
        click.echo(
            f"a unit between two jobs: {1e3 * (took_s - bound_s) * len(everything) / jobs:.0f} ms; CPU a job: "
            + ", ".join(f"{who} {each_ms:.2f} ms" for who, each_ms in spent_ms.items())
        )
        memory = psutil.Process(cluster.scheduler.pid).memory_full_info().pss
        click.echo(f"scheduler: {memory / 1e6:.0f} MB, {spent_ms['scheduler'] * jobs / took_s / 10:.0f} % of a core")
        click.echo(f"a lost host's {units} jobs had run again after {lose_host(cluster, session):.1f} s")


if __name__ == "__main__":
    main()
