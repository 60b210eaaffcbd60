"""From starting farmrt to its first result in a file, with nothing in the driver's own cache of kernels."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.engines import Farmrt
from benchmarks.figures import ColdStart, Start
from benchmarks.scratch import POCL_CACHE
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import Prepared
from farm.workspace import Workspace, data_file
from runtime.errors import DeviceError
from runtime.graph import Array
from runtime.native.build import build_farmrt

MOST_STARTS = 3
DEADLINE_S = 600.0
LIMIT_S = 2.0  # no further start of a kind after so much time


def cold_start(opened: OpenUnit, prepared: Prepared, inputs: Mapping[str, Array], onnxruntime_s: float) -> ColdStart:
    """Measures both kinds of start of a tuned model, each in processes of their own."""
    Farmrt("", opened, prepared, inputs, LoadOptions())  # brings plan, inputs and artifacts to the unit
    opened.session.command("unload")
    workspace = Workspace(prepared.deployment.library_name)
    tuned_file, kernels_file = opened.planner.artifact_files(prepared.deployment.library_name)
    words = _words(opened, workspace, prepared, inputs) | {"tuned": _on_unit(opened, tuned_file)}
    return ColdStart(
        tuned=_starts(opened, words),
        compiled=_starts(opened, words | {"kernels": _on_unit(opened, kernels_file)}),
        onnxruntime_s=onnxruntime_s,
    )


def _words(opened: OpenUnit, workspace: Workspace, prepared: Prepared, inputs: Mapping[str, Array]) -> dict[str, str]:
    plan = workspace.plan_file(prepared.name, opened.unit.abi, opened.unit.soc, "gpu")
    files = {"plan": _on_unit(opened, plan), "data": _on_unit(opened, data_file(plan))}
    given = {f"input:{name}": _input_on_unit(opened, value) for name, value in inputs.items()}
    outputs = {f"output:{each.name}": f"first{i}.bin" for i, each in enumerate(prepared.outputs)}
    return files | given | outputs | {"soc": opened.unit.soc, "opencl": opened.opencl_library, "rounds": "1"}


def _on_unit(opened: OpenUnit, path: Path) -> str:
    return opened.connection.store.put([path])[path]


def _input_on_unit(opened: OpenUnit, value: Array) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder, "input.bin")
        path.write_bytes(value.tobytes())  # integers stay what they are
        return _on_unit(opened, path)


def _starts(opened: OpenUnit, words: Mapping[str, str]) -> Start:
    seconds: list[float] = []
    built = 0
    while len(seconds) < MOST_STARTS and sum(seconds) < LIMIT_S:
        with TemporaryDirectory() as empty:
            took_s, built = _start(opened, words, empty)
        seconds.append(took_s)
    return Start(seconds=tuple(seconds), built=built)


def _start(opened: OpenUnit, words: Mapping[str, str], cache: str) -> tuple[float, int]:
    """Seconds of one process, and how many programs it built."""
    arguments = [f"{key}={value}" for key, value in words.items()]
    argv = ["env", f"{POCL_CACHE}={cache}", _on_unit(opened, build_farmrt()), "run", *arguments]
    start_s = time.perf_counter()
    done = opened.transport.run(argv, DEADLINE_S)
    took_s = time.perf_counter() - start_s
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("{")]
    answer = json.loads(lines[-1]) if lines else {}
    if done.exit_status or not answer.get("ok"):
        raise DeviceError(f"farmrt run: exit status {done.exit_status}: {answer.get('message', 'no answer')}")
    return took_s, answer["kernels"]["built"]
