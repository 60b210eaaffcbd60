"""`farm run --example`: the example application of the C API runs a model on a unit in place of farmrt."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from farm.farmrt.answers import KernelsAnswer, LoadAnswer, TunedAnswer
from farm.jobs.fleet.plan_files import given_operators
from farm.jobs.fleet.unit import LIMITED_KERNEL_MS, LOAD_DEADLINE_S, OpenUnit
from farm.transport.base import CompletedProgram
from farm.workspace import data_file
from runtime.errors import DeviceError
from runtime.graph import Array
from runtime.native.programs import NAME, build_example
from runtime.plan.plan import Plan
from runtime.types import ELEMENT_NAMES

OUTPUT = "example-output{}.bin"  # on the unit
SHOWN_CHARACTERS = 500


@dataclasses.dataclass(frozen=True)
class ExampleModel:
    """What the application runs: a model's plan, the two files of tuning, and the inputs."""

    plan: Plan
    plan_file: Path
    tuned: Path | None
    kernels: Path | None
    inputs: Mapping[str, Array]
    limit_kernel_time: bool = False


@dataclasses.dataclass(frozen=True)
class ExampleRun:
    """What the application printed, as farmrt would have answered, and what it wrote."""

    answer: LoadAnswer
    first_ms: float
    samples_ms: tuple[float, ...]
    outputs: Mapping[str, Array]


def run_example(opened: OpenUnit, model: ExampleModel, rounds: int, warmup: int) -> ExampleRun:
    """Builds the application for the unit's ABI, brings it there with the model, runs it and fetches the outputs.

    Raises DeviceError, with the application's last words, where it fails.
    """
    opened.progress.stage(f"example of the C API ({opened.unit.abi})")
    program = build_example(opened.unit.abi)
    files = {
        "plan": model.plan_file,
        "data": data_file(model.plan_file),
        "tuned": model.tuned,
        "kernels": model.kernels,
    }
    files |= given_operators(model.plan_file)
    given = {role: path for role, path in files.items() if path}
    with TemporaryDirectory() as folder:
        inputs = _written(Path(folder), model)
        remotes = opened.connection.store.put([program, *given.values(), *inputs])
        words = [f"{role}={remotes[path]}" for role, path in given.items()]
        words += [f"input={remotes[path]}" for path in inputs]
    outputs = [OUTPUT.format(index) for index in range(len(model.plan.outputs))]
    words += [f"output={file}" for file in outputs]
    words += [f"soc={opened.unit.soc}", f"rounds={rounds}", f"warmup={warmup}"]
    words += [f"limit_kernel_ms={LIMITED_KERNEL_MS}"] if model.limit_kernel_time else []
    with opened.removing(outputs):
        facts = _facts(_run(opened, [remotes[program], *words], rounds + warmup + 1))
        return ExampleRun(
            _answer(facts),
            _number(facts, "first_ms"),
            tuple(map(float, facts["round_ms"])),
            _fetched(opened, model.plan),
        )


def _written(folder: Path, model: ExampleModel) -> list[Path]:
    """The inputs as files, in the plan's order."""
    paths = [folder / f"input{index}.bin" for index in range(len(model.plan.inputs))]
    for path, tensor in zip(paths, model.plan.inputs, strict=True):
        path.write_bytes(model.inputs[tensor.name].astype(ELEMENT_NAMES[tensor.element_type]).tobytes())
    return paths


def _run(opened: OpenUnit, argv: Sequence[str], rounds: int) -> CompletedProgram:
    library = opened.opencl_library
    environment = ["env", f"FARM_OPENCL={library}"] if library else []
    deadline_s = LOAD_DEADLINE_S + rounds * opened.round_limit_s
    done = opened.transport.run(opened.connection.task_profile.wrap([*environment, *argv]), deadline_s)
    if done.exit_status:
        words = done.stderr.decode(errors="replace").strip()[-SHOWN_CHARACTERS:]
        raise DeviceError(f"the example {NAME!r} ended with exit status {done.exit_status}: {words or 'no words'}")
    return done


def _facts(done: CompletedProgram) -> Mapping[str, list[str]]:
    """What the application printed: the values of each fact; drivers may print lines of their own."""
    facts: dict[str, list[str]] = {"round_ms": []}
    for line in done.stdout.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        facts.setdefault(name, []).append(value)
    return facts


def _answer(facts: Mapping[str, list[str]]) -> LoadAnswer:
    return LoadAnswer(
        init_ms=_number(facts, "init_ms"),
        tuned=TunedAnswer(match=_text(facts, "tuned_match"), used=int(_number(facts, "tuned_used")), reason=""),
        kernels=KernelsAnswer(
            match=_text(facts, "kernels_match"),
            loaded=int(_number(facts, "kernels_loaded")),
            built=int(_number(facts, "kernels_built")),
            reason="",
        ),
    )


def _number(facts: Mapping[str, list[str]], name: str) -> float:
    try:
        return float(_text(facts, name))
    except ValueError:
        raise DeviceError(f"the example {NAME!r} printed no number for {name}", "bad_answer") from None


def _text(facts: Mapping[str, list[str]], name: str) -> str:
    return facts.get(name, [""])[0]


def _fetched(opened: OpenUnit, plan: Plan) -> dict[str, Array]:
    """The outputs that the application wrote."""
    outputs = {}
    with TemporaryDirectory() as folder:
        for index, tensor in enumerate(plan.outputs):
            local = Path(folder, OUTPUT.format(index))
            opened.transport.pull(local.name, local)
            outputs[tensor.name] = np.fromfile(local, ELEMENT_NAMES[tensor.element_type]).reshape(tensor.shape)
    return outputs
