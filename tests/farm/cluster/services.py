"""Schedulers, workers and commands in processes of their own, for tests of clusters."""

from __future__ import annotations

import json
import os
import queue as queues
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from farm.cluster.certificates import create_authority, create_host
from farm.rows.run import RunRow
from tests.farm.conftest import CallFarm
from tests.farm.forks import ForkedProcess

STARTED_S = 400.0  # far more than it takes: this machine may be busy
PROGRAM = "from farm.cli import main; main()"
WORKER = f"""
from farm.cluster import host_process
from tests.farm import forks

host_process.subprocess = forks.SUBPROCESS  # its jobs need not import farm either
# Units do not tell what rounds waited for a core: how busy this machine is spoils no comparison.
host_process.PROGRAM = (
    "from farm.jobs.compare import duet; duet.waited_share = lambda answers: None; " + host_process.PROGRAM
)
{PROGRAM}
"""
DEVICES = """devices:
  {name}:
    transport: adb
    address: 127.0.0.1
    port: {phone}
    adb_server: {server}
    target_abis: [host]
    target_socs: [sdm845]
"""


class Service:
    """A `farm scheduler` or `farm worker`; what it says is read as it comes."""

    def __init__(self, arguments: Sequence[str], folder: Path, program: str = PROGRAM, **environment: str) -> None:
        folder.mkdir(exist_ok=True)
        self.process = ForkedProcess(
            [sys.executable, "-P", "-c", program, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said: queues.Queue[str | None] = queues.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, text: str) -> str:
        """The next line with this text."""
        deadline_s, lines = time.monotonic() + STARTED_S, []
        while time.monotonic() < deadline_s:
            line = self._said.get(timeout=STARTED_S)
            if line is None:
                break
            lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"nothing says {text!r}: {lines}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ends it; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(STARTED_S)

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                self._said.put(line.strip())
        self._said.put(None)


class TestCluster:
    """A scheduler and workers."""

    __test__ = False

    def __init__(self, folder: Path, certificates: bool, scheduler: str = PROGRAM) -> None:
        self.folder, self._program = folder, scheduler
        self.services: dict[str, Service] = {}
        self.is_plain, self.url = not certificates, ""

    def __enter__(self) -> TestCluster:
        if not self.is_plain:
            create_authority(self.folder / "ca", "alpha")
        self.start_scheduler(0)
        return self

    def __exit__(self, *_: object) -> None:
        for service in reversed(list(self.services.values())):
            service.end()

    def start_scheduler(self, port: int) -> None:
        arguments = ["--plain"] if self.is_plain else ["--certificates", str(self.folder / "ca")]
        scheduler = Service(["scheduler", "--port", str(port), *arguments], self.folder, self._program)
        self.services["scheduler"] = scheduler
        self.url = scheduler.wait_for("scheduler at").split()[-1]

    def start_hosts(self, *names: str) -> None:
        """Workers that each offer their own machine, all of them as soon as this returns."""
        for name in names:
            self.start_worker(name)
        for name in names:
            self.services[name].wait_for(f"{name}: is offered")

    def start_worker(self, name: str, program: str = WORKER, devices: str = "", **environment: str) -> Service:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if devices:
            (folder / "devices.yml").write_text(devices)
        arguments = ["worker", "--scheduler", self.url, "--name", name, "--look-every", "0.5"]
        if not self.is_plain:
            arguments += ["--certificates", str(create_host(self.folder / "ca", name))]
        self.services[name] = Service(arguments, folder, program, **environment)
        return self.services[name]


def rows(out: str) -> list[RunRow]:
    return [RunRow.model_validate(row) for row in json.loads(out)["rows"]]


def start_command(*arguments: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-P", "-c", PROGRAM, *arguments]
    return ForkedProcess(program, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process: subprocess.Popen[str]) -> None:
    """Ends a command, if it has not, and closes its pipes."""
    with process:
        process.kill()


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    deadline_s = time.monotonic() + STARTED_S
    while time.monotonic() < deadline_s:
        if found := holds():
            return found
        time.sleep(0.2)
    raise AssertionError(f"never: {what}")


def listed_jobs(farm: CallFarm) -> list[Any]:
    """All jobs; none where the scheduler has no time to answer, so that it is asked again."""
    jobs: list[Any] = json.loads(farm("jobs", "list", "--json")[1]).get("jobs", [])
    return jobs


def running_jobs(farm: CallFarm) -> list[Any]:
    return [job for job in listed_jobs(farm) if any(task["state"] == "running" for task in job["tasks"])]
