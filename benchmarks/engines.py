"""The engines that are measured interleaved: a farmrt process with one model loaded, ONNX Runtime, LiteRT."""

import dataclasses
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.figures import ONNX_RUNTIME
from farm.config.deployment import Runtime
from farm.config.execution import Execution
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions, load_model
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import compare_outputs
from farm.rows.status import Status
from runtime.errors import ModelError
from runtime.graph import Array
from runtime.host.onnx_runtime import onnxruntime
from runtime.plan.plan import Plan
from runtime.target import AVX512, cpu_fields

# What a CPU has of which an instruction set is the best.
FEATURES: Mapping[str, tuple[str, ...]] = {
    "generic": (),
    **dict.fromkeys(("avx2", "avxvnni"), ("avx2",)),
    "avx512": ("avx2", "avx512f"),
    "avx512vnni": ("avx2", "avx512f", "avx512_vnni"),
}
NS_PER_MS = 1e6
DEADLINE_S = 600.0
ERRORS_ONLY = 3
PASSES = 8
SPIN_LOOK_S, LONGEST_SPIN_S = 0.005, 0.5


@dataclasses.dataclass(frozen=True)
class WithInstructions(Execution):
    """An execution by other instructions than the CPU's best; farmrt's name for them (cpu_dispatch.c)."""

    isa: str = ""

    @property
    def words(self) -> dict[str, int | str | None]:
        """See Execution."""
        return {**super().words, "isa": self.isa}

    def over(self, other: Execution) -> Execution:
        """See Execution."""
        return dataclasses.replace(self, **other.given)  # type: ignore[arg-type]  # of the same names and types


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


class InThisProcess(ABC):
    """An engine that is called here, whose threads may spin for a while after a round."""

    @abstractmethod
    def compute(self) -> None:
        """Runs the model once."""

    def turn(self, rounds: int, warmup: int) -> list[float]:
        """See Contender."""
        times = [self._round_ms() for _ in range(warmup + rounds)]
        _wait_for_spinning_threads()
        return times[warmup:]

    def _round_ms(self) -> float:
        start_ns = time.perf_counter_ns()
        self.compute()
        return (time.perf_counter_ns() - start_ns) / NS_PER_MS


class OnnxRuntime(InThisProcess):
    """ONNX Runtime with its own optimizations, on the model that farm converts.

    `threads`: None for all cores. `exact`: sums of products of eight bits are not cut off at 16 bits, which they are on
    CPUs with AVX2 and without VNNI by default.
    """

    name = ONNX_RUNTIME

    def __init__(
        self, model: onnx.ModelProto, inputs: Mapping[str, Array], threads: int | None = None, exact: bool = False
    ) -> None:
        self._inputs = dict(inputs)
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", str(int(exact)))
        options.log_severity_level = ERRORS_ONLY
        options.intra_op_num_threads = threads or cores()
        content = model.SerializeToString()
        start_s = time.perf_counter()
        try:
            self._session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no common base of their own
            raise ModelError(f"{ONNX_RUNTIME} refuses the model: {error}") from None
        values = self._session.run(None, self._inputs)
        self.first_result_s = time.perf_counter() - start_s
        self.outputs = {
            info.name: np.asarray(value) for info, value in zip(self._session.get_outputs(), values, strict=True)
        }

    def compute(self) -> None:
        """See InThisProcess."""
        self._session.run(None, self._inputs)


class LiteRt(InThisProcess):
    """LiteRT's interpreter with its default delegate (XNNPACK), on a .tflite file."""

    name = "LiteRT"

    def __init__(self, model: Path, inputs: Mapping[str, Array], threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter: Any = Interpreter(str(model), num_threads=threads)
        self._interpreter.allocate_tensors()
        for detail, values in zip(self._interpreter.get_input_details(), inputs.values(), strict=True):
            self._interpreter.set_tensor(detail["index"], values)

    def compute(self) -> None:
        """See InThisProcess."""
        self._interpreter.invoke()


class Reading(InThisProcess):
    """Reads memory once, each thread a part: what no model that reads as many bytes is faster than.

    A pass is NumPy's search for the greatest integer, which waits for memory alone; a round is a part of several.
    """

    name = "reading"

    def __init__(self, size_bytes: int, threads: int) -> None:
        self._parts = np.array_split(np.ones(size_bytes // 4, np.int32), threads)
        self._threads = ThreadPoolExecutor(threads)

    def compute(self) -> None:
        """Several passes, so that threads need not be woken for each."""
        for _ in self._threads.map(_read, self._parts):
            pass

    def turn(self, rounds: int, warmup: int) -> list[float]:
        """See Contender."""
        return [ms / PASSES for ms in super().turn(rounds, warmup)]


def _read(part: Array) -> None:
    for _ in range(PASSES):
        part.max()


def _wait_for_spinning_threads() -> None:
    """Waits until this process uses no CPU: threads that spin for a while after a round would slow down who is next."""
    end_s = time.perf_counter() + LONGEST_SPIN_S
    while time.perf_counter() < end_s:
        before_s = time.process_time()
        time.sleep(SPIN_LOOK_S)
        if time.process_time() - before_s < SPIN_LOOK_S / 10:
            return


class Farmrt:
    """A farmrt process of its own with one model loaded."""

    def __init__(
        self,
        name: str,
        opened: OpenUnit,
        prepared: Prepared,
        inputs: Mapping[str, Array],
        options: LoadOptions,
        runtime: Runtime = "gpu",
    ) -> None:
        self.name = name
        self._opened, self._runtime = opened, runtime
        target = opened.planner.target(prepared, runtime)
        if isa := options.execution.words.get("isa"):  # the plan is made for it, too
            features = FEATURES[str(isa)]
            family = target.gpu_family if "avx512f" in features else target.gpu_family.removesuffix(AVX512)
            target = dataclasses.replace(target, gpu_family=family, **cpu_fields(features))
        self._loaded = load_model(opened, prepared, runtime, target, options)
        opened.write_inputs(inputs)

    @property
    def plan(self) -> Plan:
        """The plan that was loaded."""
        return self._loaded.plan

    def turn(self, rounds: int, warmup: int) -> list[float]:
        """See Contender."""
        answer = self._opened.session.run(rounds, DEADLINE_S, warmup)
        return [ns / NS_PER_MS for ns in answer.wall_ns]

    def verdict(self, expected: Mapping[str, Array]) -> tuple[Status, str]:
        """Whether the outputs of the last round are right, and why not."""
        outputs = self._opened.read_outputs(self._loaded.plan)
        ending = compare_outputs(self._loaded.prepared, self._loaded.plan.target, expected, outputs).ending
        return ending.status, ending.reason


def test_inputs(prepared: Prepared) -> Mapping[str, Array]:
    """Seeded inputs, the same for all contenders."""
    return TestData(prepared, {}).inputs
