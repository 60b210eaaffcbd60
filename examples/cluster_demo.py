"""Two hosts simulated on this machine, each with an emulated phone: what `make cluster-demo` shows.

    python examples/cluster_demo.py

Certificates, a scheduler and two workers; the units of both hosts, a run on all phones, and a job whose host is killed
and which the other host does. Everything lies in a temporary folder and ends with the script.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from farm.cluster import hosts
from farm.cluster.address import parse_cluster_address
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.emulation.phone_unit import private_adb_server

FARM = (sys.executable, "-P", "-c", "from farm.cli import main; main()")
HOSTS = {"alpha": "mi8", "beta": "oneplus6"}
LONG = 600  # rounds: time enough to kill a host
SHORT = 3
WAIT_S = 300.0
MODEL = """library_name: small
target_abis: [host]
target_socs: [sdm845]
models:
  small:
    platform: onnx
    model_file_path: zoo://mobilenet_v1?size=128&classes=10
    subgraphs:
      - input_tensors: [input]
        input_shapes: ["1,3,128,128"]
        output_tensors: [prob]
    runtime: cpu
    num_threads: 1
"""
DEVICES = """devices:
  {name}:
    transport: adb
    address: 127.0.0.1
    port: {port}
    adb_server: {server}
    target_abis: [host]
    target_socs: [sdm845]
"""


class Demo:
    """A folder for each host, and one for whoever sends jobs."""

    def __init__(self, folder: Path, services: contextlib.ExitStack) -> None:
        self._folder, self._services = folder, services
        self._workers: dict[str, subprocess.Popen[str]] = {}

    def farm(self, *arguments: str) -> str:
        """Runs a command to its end, and shows it."""
        print(f"$ farm {' '.join(arguments)}", flush=True)
        done = subprocess.run([*FARM, *arguments], cwd=self._folder, text=True, stdout=subprocess.PIPE, check=True)
        print(done.stdout, flush=True)
        return done.stdout

    def start(self, *arguments: str, folder: str = "") -> subprocess.Popen[str]:
        """Begins a command, and shows that."""
        print(f"{folder}$ farm {' '.join(arguments)} &", flush=True)
        process = subprocess.Popen(
            [*FARM, *arguments], cwd=self._folder / folder, text=True, stdout=subprocess.PIPE, bufsize=1
        )
        self._services.callback(_end, process)
        return process

    def start_cluster(self) -> None:
        """Certificates, the scheduler, and a worker on each host."""
        self.farm("cluster", "init", "ca", "--name", "alpha")
        self.farm("cluster", "host", "beta", "--certificates", "ca")
        line = _wait_for_line(self.start("scheduler", "--port", "0", "--certificates", "ca"), "scheduler at")
        os.environ |= {"FARM_CLUSTER": line.split()[-1], "FARM_CERTIFICATES": str(self._folder / "ca")}
        for host, unit in HOSTS.items():
            certificates = "../ca" if host == "alpha" else "../ca/hosts/beta"
            given = ("worker", "--scheduler", line.split()[-1], "--name", host, "--certificates", certificates)
            self._workers[host] = self.start(*given, folder=host)
            _wait_for_line(self._workers[host], f"{unit}: is offered")

    def lose_a_host(self) -> None:
        """Kills the host that does a job, and shows who does it then."""
        options = ("--soc", "sdm845", "--spread", "--store", "none")
        process = self.start("run", "small.yml", *options, "--round", str(LONG))
        unit = self._running_unit()
        self.farm("jobs", "list")
        host = next(host for host, name in HOSTS.items() if name == unit)
        print(f"$ kill -9 {self._workers[host].pid}    # the worker of {host}, which runs the job on {unit}")
        self._workers[host].kill()
        print(process.communicate(timeout=WAIT_S)[0], flush=True)
        if process.returncode:
            raise SystemExit(f"the job ended with status {process.returncode}")

    def _running_unit(self) -> str:
        """The unit of the job, as soon as it runs; asked from here, as a command may take longer than the job."""
        deadline_s = time.monotonic() + WAIT_S
        with hosts.connected(parse_cluster_address(os.environ["FARM_CLUSTER"]), self._folder / "ca") as cluster:
            while time.monotonic() < deadline_s:
                running = [task.unit for job in cluster.jobs() for task in job.tasks if task.state == "running"]
                if running:
                    return running[0]
                time.sleep(0.1)
        raise SystemExit("no job runs")


def _wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    """Shows what a service says, to the line with a text."""
    assert process.stdout
    for line in process.stdout:
        print(line, end="", flush=True)
        if text in line:
            print(flush=True)
            return line
    raise SystemExit(f"a service ended before it said {text!r}")


def _end(process: subprocess.Popen[str]) -> None:
    with process:
        process.terminate()


@contextlib.contextmanager
def emulated_phones(folder: Path) -> Iterator[None]:
    """A phone for each host, in its devices.yml."""
    with contextlib.ExitStack() as stack:
        for host, name in HOSTS.items():
            (folder / host).mkdir()
            server = stack.enter_context(private_adb_server(folder / host))
            phone = stack.enter_context(EmulatedPhone(PhoneSettings(soc="sdm845")))
            (folder / host / "devices.yml").write_text(DEVICES.format(name=name, port=phone.port, server=server))
        yield


def main() -> None:
    """Shows it all."""
    with tempfile.TemporaryDirectory(prefix="farm-cluster-demo-") as name, contextlib.ExitStack() as services:
        folder = Path(name)
        (folder / "small.yml").write_text(MODEL)
        services.enter_context(emulated_phones(folder))
        demo = Demo(folder, services)
        demo.start_cluster()
        demo.farm("devices")
        demo.farm("run", "small.yml", "--soc", "sdm845", "--validate", "--round", str(SHORT), "--store", "none")
        demo.lose_a_host()


if __name__ == "__main__":
    main()
