"""ONNX's own node test cases through the path of `farm run`: `python -m benchmarks.onnx_cases [--only TEXT]`.

Each case is imported, rewritten by the passes, lowered, encoded and run by farmrt on this machine, once for `cpu` and
once for `cpu+gpu`, and its outputs are compared with the case's within the case's own tolerances. A case ends as

    right            element types, shapes and values of all outputs, with all inputs given at run time
    with constants   the same where some inputs are constants of the model: shapes, axes, weights, as networks have them
    folded           the same where all inputs are constants: the conversion computes the outputs
    padded           right, with rows of -1 behind them: how many there are hangs on what a run finds
    wrong            an output differs
    refused          by name, with the reason
    failed           anything else: a traceback, an error or a crash of farmrt, or no answer in time
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import select
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from farm.farmrt import working_drivers
from farm.farmrt.drivers import find_drivers
from farm.farmrt.session import encode_command
from farm.model.oracle import Oracle
from farm.toolchain import environment
from runtime.convert import convert
from runtime.errors import FarmError
from runtime.graph import Array, Graph
from runtime.importers.stand_ins import needs_stand_in
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind
from runtime.target import Target, target_from_probe
from runtime.types import ELEMENT_NAMES

RUNTIMES = ("cpu", "cpu+gpu")
IMAGES = Target("host", "host", gpu_family="adreno-6xx", memory="image", allow_cpu=True)
_CONVERSIONS = ("Transpose", "BufferToImage", "ImageToBuffer")
DEADLINE_S = 60.0
RIGHT = ("right", "with constants", "folded", "padded")
STATUSES = (*RIGHT, "wrong", "refused", "failed")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model of one node (or of that node's definition), with inputs and the outputs that it must give."""

    name: str
    operator: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    rtol: float
    atol: float


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a case ended on one runtime, and on what its steps ran."""

    status: str
    reason: str = ""
    places: frozenset[str] = frozenset()


def cases(only: str = "") -> Iterator[Case]:
    """The cases whose name has a text. They are generated; their functions overflow on purpose, which NumPy tells."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        generated = collect_testcases(None)
    operators = {case.name: case.model.graph.node[0].op_type for case in generated if case.model}
    for case in generated:
        if only in case.name:
            defined = case.name.partition("_expanded")[0]  # an operator's definition written out counts for it
            yield _case(case, operators.get(defined, operators[case.name]))


def _case(case: Any, operator: str) -> Case:
    graph = case.model.graph
    inputs, outputs = (
        {value.name: _array(array) for value, array in zip(values, arrays, strict=False)}
        for values, arrays in zip((graph.input, graph.output), case.data_sets[0], strict=True)
    )
    return Case(case.name, operator, case.model, inputs, outputs, case.rtol, case.atol)


def _array(value: Any) -> Any:
    """A value of a case, which is stored as ONNX stores tensors where NumPy itself has no such type."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def frozen(case: Case, names: Sequence[str]) -> Case:
    """The case with some inputs as constants of its model."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    left = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(left)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(case.inputs[name]), name) for name in names)
    rest = {name: value for name, value in case.inputs.items() if name not in names}
    return dataclasses.replace(case, model=model, inputs=rest)


def forms(case: Case) -> Iterator[Case]:
    """The case as it is; with all but floats and the first input constant; with all but the first; with all."""
    yield case
    names = list(case.inputs)
    whole = [name for name in names[1:] if np.asarray(case.inputs[name]).dtype.kind in "iub"]
    seen: list[list[str]] = [[]]
    for chosen in (whole, names[1:], names):
        if chosen not in seen:
            seen.append(chosen)
            yield frozen(case, chosen)


class Runner:
    """A farmrt process that plans are run in, one after another; started anew where it ends."""

    def __init__(self, folder: Path, library: str = "") -> None:
        self.folder = folder
        self.library = library
        self._program = build_farmrt()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def ask(self, command: str, **values: object) -> dict[str, Any]:
        """The answer to a command; one that says why there is none where farmrt ended or is late."""
        process = self._started()
        assert process.stdin and process.stdout
        process.stdin.write(f"{encode_command(command, values)}\n".encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
        line = process.stdout.readline() if ready else b""
        while line and not line.startswith(b"{"):  # what a driver's compiler prints is no answer
            line = process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._end()
        return {"ok": False, "message": "farmrt ended" if ready else "no answer in time"}

    def run(self, plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of a plan. Raises RuntimeError with farmrt's message."""
        (self.folder / "plan").write_bytes(encode_plan(plan))
        (self.folder / "data").write_bytes(bytes(plan.data))
        where = {"opencl": self.library} if self.library else {}
        self._done("load", plan=self.folder / "plan", data=self.folder / "data", threads=1, **where)
        for tensor in plan.inputs:
            (self.folder / "input").write_bytes(np.ascontiguousarray(inputs[tensor.name]).tobytes())
            self._done("input", name=tensor.name, file=self.folder / "input")
        self._done("run", rounds=1)
        outputs = {}
        for tensor in plan.outputs:
            self._done("output", name=tensor.name, file=self.folder / "output")
            dtype = np.dtype(ELEMENT_NAMES[tensor.element_type])
            content = (self.folder / "output").read_bytes()
            outputs[tensor.name] = np.frombuffer(content, dtype).reshape(tensor.shape)
        return outputs

    def _done(self, command: str, **values: object) -> None:
        answer = self.ask(command, **values)
        if not answer["ok"]:
            raise RuntimeError(answer["message"])

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen([self._program, "serve"], env=environment(), **pipes)  # type: ignore[call-overload]
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def outcome(case: Case, target: Target, runner: Runner) -> Outcome:
    """How a case ends on a target; the first form that is not refused counts."""
    if not all(isinstance(value, np.ndarray | np.generic) for value in (*case.inputs.values(), *case.outputs.values())):
        return Outcome("refused", "an input or output is no tensor")
    first = None
    for form in forms(case):
        ended = _outcome(form, target, runner)
        if ended.status == "right":
            return dataclasses.replace(ended, status=_kind_of_right(case, form))
        if ended.status == "padded":
            return ended
        if ended.status != "refused":
            return ended
        first = first or ended
    assert first is not None
    return first


def _kind_of_right(case: Case, form: Case) -> str:
    if len(form.inputs) == len(case.inputs):
        return "right"
    return "with constants" if form.inputs else "folded"


def _outcome(case: Case, target: Target, runner: Runner) -> Outcome:
    try:
        case = _with_drawn_numbers(case)
        graph, _ = convert(
            case.model, {name: value.shape for name, value in case.inputs.items() if 0 not in value.shape}
        )
        plan = lower(graph, target)
        found = runner.run(plan, case.inputs)
    except FarmError as error:
        return Outcome("refused", str(error).splitlines()[0])
    except Exception as error:  # any other is what the case shall show, and no reason to end the run
        return Outcome("failed", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    is_padded = bool(graph.padded)
    wrong = difference(case, {name: _found_part(value) for name, value in found.items()} if is_padded else found)
    return Outcome("wrong" if wrong else "padded" if is_padded else "right", wrong, places=places(graph, plan))


def _with_drawn_numbers(case: Case) -> Case:
    """The case with the outputs that ONNX Runtime gives for the import's random numbers, which are not the case's."""
    if not needs_stand_in(case.model):
        return case
    values = Oracle(case.model).outputs(case.inputs)
    return dataclasses.replace(case, outputs={name: values[name] for name in case.outputs})


def _found_part(value: Array) -> Array:
    """What a run found of a padded result: the rows, else the columns, before the first that holds -1 alone."""
    for axis in range(min(value.ndim, 2)):
        rows = np.moveaxis(value, axis, 0)
        empty = (rows.reshape(len(rows), -1) == -1).all(axis=1)
        count = int(np.argmax(empty)) if empty.any() else len(rows)
        if empty[count:].all() and count < len(rows):
            return np.moveaxis(rows[:count], 0, axis)
    return value


def places(graph: Graph, plan: Plan) -> frozenset[str]:
    """Where a plan's steps run, and where they would on a GPU that prefers images; conversions do not count."""
    found = {_place(step) for step in plan.steps if step.op not in _CONVERSIONS}
    if plan.target.memory == "buffer" and "GPU buffer" in found:
        found |= {_place(step) for step in lower(graph, IMAGES).steps if step.op not in _CONVERSIONS}
    return frozenset(found)


def _place(step: Step) -> str:
    return "CPU" if step.kind == StepKind.CPU else f"GPU {step.kernel.memory.value}"


def difference(case: Case, found: Mapping[str, Array]) -> str:
    """What is wrong with outputs; empty where nothing is.

    The outputs of the DFT's cases are from NumPy's transform in single precision, which rounds as its largest value.
    """
    for name, wanted in case.outputs.items():
        expected = np.asarray(wanted)
        if not name:
            continue
        value = found[name]
        if value.dtype != expected.dtype or value.shape != expected.shape:
            return f"{name} is {value.dtype} {value.shape}, not {expected.dtype} {expected.shape}"
        if expected.dtype.kind in "fV":
            value, expected = value.astype(np.float64), expected.astype(np.float64)
        atol = max(case.atol, 2**-23 * np.abs(expected).max()) if case.operator == "DFT" else case.atol
        rtol = max(case.rtol, 2**-6) if wanted.dtype.name == "bfloat16" else case.rtol  # as ONNX's own runner
        if not np.allclose(value, expected, rtol, atol, equal_nan=True):
            return f"{name}: differs by up to {np.abs(value.astype(np.float64) - expected).max()}"
    return ""


def targets(folder: Path) -> dict[str, tuple[Target, Runner]]:
    """What the cases run on: this machine's CPU, and its best OpenCL driver with the CPU beside it."""
    cpu = Runner(folder)
    library = str(working_drivers.best(find_drivers()).path)
    gpu = Runner(folder, library)
    probe = gpu.ask("probe", opencl=library)
    return {
        "cpu": (Target("host", "host", memory="cpu"), cpu),
        "cpu+gpu": (target_from_probe(probe, "host", allow_cpu=True, memory="buffer"), gpu),
    }


Outcomes = dict[str, dict[str, Outcome]]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--runtime", choices=RUNTIMES, help="one of the runtimes alone")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        show(measured(cases(settings.only), targets(Path(name)), settings.runtime))


def measured(
    chosen: Iterable[Case], places: Mapping[str, tuple[Target, Runner]], runtime: str | None = None
) -> Outcomes:
    """How each case ended on each runtime, or on one alone; tells those that are not right, and ends the runners."""
    found: Outcomes = {}
    for case in chosen:
        found[case.name] = {name: outcome(case, *where) for name, where in places.items() if runtime in (None, name)}
        tell(case.name, found[case.name])
    for _, runner in places.values():
        runner.__exit__(None, None, None)
    return found


def tell(name: str, by_runtime: Mapping[str, Outcome]) -> None:
    """Prints a case that is not right as soon as it has ended."""
    for runtime, ended in by_runtime.items():
        if ended.status not in RIGHT:
            print(f"{ended.status:8} {runtime:8} {name}: {ended.reason[:200]}", flush=True)


def show(found: Outcomes) -> None:
    """Prints how many cases ended how."""
    for runtime in next(iter(found.values()), {}):
        counts = collections.Counter(by_runtime[runtime].status for by_runtime in found.values())
        print(f"{runtime}: {dict(counts)}")


if __name__ == "__main__":
    main()
