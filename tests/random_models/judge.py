"""Draws a model of a seed and holds every executor against ONNX Runtime: NumPy, farmrt's CPU and its GPU path.

Products of integers, which ONNX Runtime lets saturate on some CPUs, are NumPy's, as in `farm`. Where an executor
differs, `onnx.reference` is asked too: what agrees with that is a difference of ONNX Runtime.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from farm.model.oracle import has_own_stages
from runtime.convert import convert
from runtime.errors import FarmError, UnsupportedError
from runtime.graph import Array, Graph
from runtime.layout.blocked import BLOCKS
from runtime.lowering.lower import lower
from runtime.lowering.options import CpuOptions, Options
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.target import Target
from tests.native.farmrt import Farmrt
from tests.random_models.maker import Maker, Refused
from tests.random_models.scopes import SCOPES, renamed
from tests.random_models.steps import KINDS, grow

KINDS_OF_SEEDS = {**KINDS, "scopes": SCOPES}
CPU = Target("host", "host", memory="cpu")
SHAPES = ((1, 4, 6, 6), (2, 3, 5, 7), (1, 2, 8, 3), (3, 4), (2, 6, 5), (1, 2, 3, 4, 3), (8,))
WORSE = ("right", "unsupported", "reference", "wrong")  # a later verdict of one executor is that of the model
Executor = Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]]
FLIPPED = 0.1  # the part of elements that may differ where values are rounded to steps


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A drawn model, its inputs, and the outputs that it should have."""

    seed: int
    kind: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]

    @property
    def steps(self) -> str:
        """Its operators, in order."""
        return " ".join(node.op_type for node in self.model.graph.node)


def draw(seed: int) -> Drawn:
    """The model of a seed: two to seven steps of one kind, one to three outputs, at times with names that collide."""
    kind = list(KINDS_OF_SEEDS)[seed % len(KINDS_OF_SEEDS)]
    make = Maker(seed)
    x = make.input(*make.rng.choice(SHAPES))
    if make.rng.random() < 0.3:
        make.input(*make.shape(x))
    wanted = make.rng.randint(2, 7)
    for _ in range(40):
        try:
            x = grow(make, x, KINDS_OF_SEEDS[kind])
            wanted -= 1
        except Refused:
            continue
        if not wanted:
            break
    made = [name for name in make.floats() if name not in make.inputs]
    outputs = list(dict.fromkeys([*make.rng.sample(made, min(len(made), make.rng.randint(0, 2))), x]))
    model = make.finish(outputs)
    names = renamed(model, make) if make.rng.random() < 0.4 else {}
    inputs = {names.get(name, name): make.values[name] for name in make.inputs}
    if has_own_stages(model, {}):
        make.make_exact()
    expected = {value.name: make.values[name] for name, value in zip(outputs, model.graph.output, strict=True)}
    return Drawn(seed, kind, model, inputs, expected)


def difference(actual: Array, expected: Array, steps: bool, rounding: float = 0.0) -> str:
    """How an output differs; empty if it does not.

    `steps`: a few elements may, by a rounding the other way. `rounding`: how far float32 takes NumPy from float64;
    other orders of the same sums may be some times as far.
    """
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    least = 2e-4 * max(1.0, float(np.abs(expected).max()))
    bound = min(max(least, 4 * rounding), 10 * least)  # a jump, such as of Floor, counts as no rounding
    far = ~(np.abs(actual - expected) <= bound)
    if steps and far.mean() <= max(FLIPPED, 1.5 / far.size):
        return ""
    return f"{far.sum()} of {far.size} elements, by {np.nanmax(np.abs(actual - expected)):.3g}" if far.any() else ""


class Judge:
    """Runs drawn models on two running farmrt, one of which has an OpenCL driver with targets for both memories."""

    def __init__(self, cpu: Farmrt, gpu: Farmrt, targets: Mapping[str, Target]) -> None:
        self._cpu, self._gpu, self._targets = cpu, gpu, targets

    def verdict(self, drawn: Drawn) -> str:
        """`right`, `unsupported: ...`, `refused: ...`, `reference: ...` or `wrong: ...`."""
        try:
            graph, _ = convert(drawn.model)
        except UnsupportedError as error:
            return f"unsupported: {error}"
        except FarmError as error:
            return f"refused: {error}"
        found = {name: _verdict_of(executor, graph, drawn) for name, executor in self._executors(drawn.seed).items()}
        worst = max((word for word, _ in found.values()), key=WORSE.index)
        told = [f"{name}: {'' if word == worst else f'{word}: '}{what}" for name, (word, what) in found.items() if what]
        return f"{worst}: {'; '.join(told)}" if told else worst

    def _executors(self, seed: int) -> Mapping[str, Executor]:
        memory = list(self._targets)[seed // 7 % len(self._targets)]
        block = BLOCKS[seed % len(BLOCKS)]
        return {
            "NumPy": lambda graph, inputs: evaluate(graph, dict(inputs)),
            f"cpu, blocks of {block}": lambda graph, inputs: _run(
                self._cpu, lower(graph, CPU, Options(cpu=CpuOptions(block))), inputs
            ),
            memory: lambda graph, inputs: _run(self._gpu, lower(graph, self._targets[memory]), inputs),
        }


def _verdict_of(executor: Executor, graph: Graph, drawn: Drawn) -> tuple[str, str]:
    """One of WORSE, and what differs or is missing."""
    try:
        answers = executor(graph, drawn.inputs)
    except UnsupportedError as error:
        return "unsupported", str(error)
    if not _differences(answers, drawn.expected, drawn.kind):
        return "right", ""
    roundings = _roundings(graph, drawn.inputs)
    wrong = _differences(answers, drawn.expected, drawn.kind, roundings)
    if not wrong:
        return "right", ""
    is_of_onnxruntime = not _differences(answers, _by_reference(drawn), drawn.kind, roundings)
    return "reference" if is_of_onnxruntime else "wrong", wrong


def _roundings(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, float]:
    """How far each output of NumPy in float32 is from that in float64: its rounding, as the model magnifies it."""
    short = evaluate(graph, dict(inputs))
    long = evaluate(graph, {name: value.astype(np.float64) for name, value in inputs.items()})
    return {name: float(np.abs(short[name] - long[name]).max()) for name in graph.outputs}


def _run(farmrt: Farmrt, plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
    answer = farmrt.load_files(encode_plan(plan), plan.data)
    assert answer["ok"], answer
    for tensor in plan.inputs:
        farmrt.input(tensor.name, inputs[tensor.name])
    farmrt.done("run", rounds=1)
    return {tensor.name: farmrt.output(tensor.name).reshape(tensor.shape) for tensor in plan.outputs}


def _differences(
    answers: Mapping[str, Array], expected: Mapping[str, Array], kind: str, roundings: Mapping[str, float] | None = None
) -> str:
    steps, roundings = kind in ("quantized", "any"), roundings or {}
    found = {
        name: difference(answers[name], value, steps, roundings.get(name, 0.0)) for name, value in expected.items()
    }
    return ", ".join(f"{name}: {what}" for name, what in found.items() if what)


def _by_reference(drawn: Drawn) -> Mapping[str, Array]:
    try:
        results = ReferenceEvaluator(drawn.model).run(None, dict(drawn.inputs))
    except Exception:  # it lacks operators, and has faults
        return {name: np.full(value.shape, np.nan) for name, value in drawn.expected.items()}
    return {name: np.asarray(value) for name, value in zip(drawn.expected, results, strict=True)}
