"""What converting a model takes: `farm convert`, and what a process with ONNX Runtime takes to be ready to run it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import spent
from benchmarks.engines import cores
from benchmarks.failures import Failures
from benchmarks.figures import ONNX_RUNTIME, Conversion, Spent
from benchmarks.networks import Network
from benchmarks.scratch import scratch
from farm.farmrt import drivers
from runtime.errors import JobError

DEADLINE_S = 300.0

SESSION = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
onnxruntime.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
"""


def conversion(network: Network, driver: drivers.Driver) -> Conversion:
    """Measures both, each in a process of its own."""
    failures = Failures()
    farm = onnxruntime = None
    with scratch():
        with failures.recorded("farm convert"):
            program = str(Path(sys.executable).with_name("farm"))
            network.model_file()  # generating it is no part of a conversion
            farm = _spent([program, "convert", str(network.deployment_file()), "--opencl", str(driver.path)])
        with failures.recorded(ONNX_RUNTIME):
            onnxruntime = _spent([sys.executable, "-c", SESSION, str(network.model_file()), str(cores())])
    return Conversion(model=network.name, farm=farm, onnxruntime=onnxruntime, failures=tuple(failures.lines))


def _spent(command: Sequence[str]) -> Spent:
    launcher = [sys.executable, "-I", "-S", str(Path(spent.__file__))]
    try:
        done = subprocess.run([*launcher, *command], capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    except subprocess.SubprocessError as error:
        raise JobError(f"{Path(command[0]).name}: {error}") from None
    answer = json.loads(done.stdout)
    if answer.pop("status"):
        raise JobError(f"{Path(command[0]).name}: {done.stderr.strip()[-300:]}")
    return Spent.model_validate(answer)
