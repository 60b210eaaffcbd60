"""Measures what a cluster costs: a job's wall time through scheduler and worker beside the same job here, and memory.

    python benchmarks/cluster.py [--rounds N] [--units N]

One small network on the CPU of this machine; `farm run` here and with --cluster take turns. Memory (proportional set
size) is that of N Dask workers as threads of one process, as `farm worker` has them, and of as many processes.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.scratch import ROOT

CALL = "from farm.cli import main; main()"
MODEL = """library_name: small
target_abis: [host]
models:
  small:
    platform: onnx
    model_file_path: zoo://mobilenet_v1?width=0.25&size=32&classes=2
    subgraphs:
      - input_tensors: [input]
        input_shapes: ["1,3,32,32"]
        output_tensors: [prob]
    runtime: cpu
"""
WORKERS = """
import asyncio, os, sys, psutil
from distributed import Scheduler, Worker
from farm.cluster import connection
async def main(count):
    connection.use_settings()
    async with Scheduler(host="127.0.0.1", port=0, **connection.NO_PAGE) as scheduler:
        process = psutil.Process()
        before = process.memory_full_info().pss
        options = dict(nthreads=1, memory_limit=0, host="127.0.0.1", **connection.NO_PAGE)
        workers = await asyncio.gather(*(Worker(scheduler.address, name=str(i), **options) for i in range(count)))
        print((process.memory_full_info().pss - before) / count / 1e6, before / 1e6)
        await asyncio.gather(*(worker.close() for worker in workers))
asyncio.run(main(int(sys.argv[1])))
"""


@contextlib.contextmanager
def service(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A scheduler or worker, and the line by which it says that it is ready."""
    command = [sys.executable, "-c", CALL, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, next(line for line in process.stdout if "scheduler at" in line or "is offered" in line)
        finally:
            process.terminate()


def run_s(folder: Path, *more: str) -> float:
    """Seconds of a `farm run`."""
    begun_s = time.monotonic()
    command = [sys.executable, "-c", CALL, "run", "small.yml", "--store", "none", *more]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.monotonic() - begun_s


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Jobs of each kind.")
@click.option("--units", default=20, show_default=True, help="Workers whose memory is measured.")
def main(rounds: int, units: int) -> None:
    """Prints medians."""
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as services:
        folder = Path(name)
        (folder / "small.yml").write_text(MODEL)
        _, line = services.enter_context(service(folder, "scheduler", "--plain", "--port", "0"))
        url = line.split()[-1]
        (folder / "lab").mkdir()
        worker, _ = services.enter_context(service(folder / "lab", "worker", "--scheduler", url, "--name", "lab"))
        run_s(folder), run_s(folder, "--cluster", url)
        times = [(run_s(folder), run_s(folder, "--cluster", url)) for _ in range(rounds)]
        here_s, there_s = (statistics.median(column) for column in zip(*times, strict=True))
        click.echo(f"a job here {here_s:.2f} s, through the cluster {there_s:.2f} s: {there_s - here_s:.2f} s more")
        click.echo(f"farm worker with one unit: {psutil.Process(worker.pid).memory_full_info().pss / 1e6:.0f} MB")
    program = [sys.executable, "-c", WORKERS, str(units)]
    each_mb, base_mb = map(float, subprocess.run(program, check=True, capture_output=True, text=True).stdout.split())
    click.echo(
        f"a further unit: {each_mb:.2f} MB in one process ({units} units); {base_mb:.0f} MB as a process of its own"
    )


if __name__ == "__main__":
    main()
