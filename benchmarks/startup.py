"""Measures how long `farm` takes to say something: help, a mistake, units, the state of the machine.

    python benchmarks/startup.py [--rounds N] [--json]

Each in processes of its own. Figures are CPU time, user and system, of the process and those that it starts: what waits
for other work does not count. The limits are those for two quiet cores; exit status 1 when a median is above its limit.
Bare Python is the floor.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.scratch import ROOT
from farm.tables import table
from farm.tables.table import Table

CALL = "import sys; from farm.cli import main; main()"
COLUMNS = ("What", "Median(ms)", "Fastest(ms)", "Slowest(ms)", "Limit(ms)")


@dataclasses.dataclass(frozen=True)
class Start:
    """Something that is started; its limit is in milliseconds of CPU time."""

    name: str
    argv: tuple[str, ...]
    limit_ms: float | None = None
    exit_status: int = 0


STARTS = (
    Start("python, nothing", ("pass",)),
    Start("import farm", ("import farm",), 100.0),
    Start("farm --version", (CALL, "--version"), 350.0),
    Start("farm --help", (CALL, "--help"), 350.0),
    Start("farm run --help", (CALL, "run", "--help"), 500.0),
    Start("farm zoo list", (CALL, "zoo", "list")),
    Start("farm run nothere.onnx", (CALL, "run", "nothere.onnx"), 500.0, exit_status=2),
    Start("farm devices", (CALL, "devices"), 1500.0),
    Start("farm doctor", (CALL, "doctor"), 2000.0),
)


def measure(starts: tuple[Start, ...], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each, in turns; one round before warms the file cache and writes bytecode."""
    found: dict[str, list[float]] = {start.name: [] for start in starts}
    for number in range(rounds + 1):
        for start in starts:
            cpu_ms = _cpu_ms(start)
            if number:
                found[start.name].append(cpu_ms)
    return found


def _cpu_ms(start: Start) -> float:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", *start.argv]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    if done.returncode != start.exit_status:
        raise click.ClickException(f"{start.name}: exit status {done.returncode}: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def _cells(start: Start, samples_ms: list[float]) -> list[str]:
    figures = (statistics.median(samples_ms), min(samples_ms), max(samples_ms))
    return [start.name, *(f"{figure:.0f}" for figure in figures), f"{start.limit_ms:.0f}" if start.limit_ms else "-"]


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=11, show_default=True, help="Starts of each.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(rounds: int, as_json: bool) -> None:
    """Measures the CPU time that `farm` takes to say something."""
    found = measure(STARTS, rounds)
    if as_json:
        click.echo(json.dumps(found))
    else:
        table.show([Table("", COLUMNS, [_cells(start, found[start.name]) for start in STARTS], frozenset({"What"}))])
    slow = [start.name for start in STARTS if start.limit_ms and statistics.median(found[start.name]) > start.limit_ms]
    for name in slow:
        click.echo(f"{name}: above its limit", err=True)
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
