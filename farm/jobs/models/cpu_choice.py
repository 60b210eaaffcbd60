"""How a model is executed on a CPU, as tuning chose: blocks, Winograd's layers, threads; a file for each model and SoC.

A file is of one CPU (its name and features), graph and runtime: for any other it is as if it were not there.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import pydantic

from farm import atomic_file
from farm.config.execution import Affinity, Execution, Threads
from farm.farmrt.answers import CpuAnswer
from runtime.errors import ConfigError
from runtime.graph import Graph
from runtime.lowering.options import CPU_WINOGRAD, CpuOptions
from runtime.version import RUNTIME_VERSION

MAX_FILE_BYTES = 1024**2


class CpuChoice(pydantic.BaseModel):
    """What tuning chose for a model on a CPU, and what it gained by that.

    `winograd` are the convolutions, by output, that are Winograd's; `quantized`: whether what can compute in eight bits
    does, but for the nodes `in_floats`, by output; `separable`: the 1x1 convolutions, by output, that are one step with
    the depthwise ones before them. That, `threads` and `affinity` are None where the default was best. `valid_for` says
    which CPU, graph and runtime the choice is for.
    """

    model_config = pydantic.ConfigDict(strict=True, frozen=True, extra="forbid")

    version: Literal[1] = 1
    valid_for: str
    block: Literal[8, 16]
    winograd: frozenset[str] = pydantic.Field(strict=False)
    quantized: bool = True
    separable: frozenset[str] | None = pydantic.Field(default=None, strict=False)
    in_floats: frozenset[str] = pydantic.Field(default=frozenset(), strict=False)
    threads: Threads | None = None
    affinity: Affinity | None = None
    default_ms: float = 0.0
    tuned_ms: float = 0.0

    @pydantic.field_serializer("winograd", "separable", "in_floats")
    def _in_order(self, layers: frozenset[str] | None) -> list[str] | None:
        return None if layers is None else sorted(layers)

    @property
    def options(self) -> CpuOptions:
        """For the lowering."""
        algorithms = dict.fromkeys(self.winograd, CPU_WINOGRAD)
        return CpuOptions(self.block, algorithms, self.quantized, self.separable, self.in_floats)

    @property
    def execution(self) -> Execution:
        """For farmrt; what the user says goes before it."""
        return Execution(num_threads=self.threads, cpu_affinity_policy=self.affinity)


def validity(graph: Graph, cpu: CpuAnswer) -> str:
    """A hash of what a choice is for: the operators and shapes of a graph, the CPU, the runtime."""
    nodes = [(node.op, node.inputs, node.outputs, sorted(node.attrs.items(), key=str)) for node in graph.nodes]
    shapes = sorted((name, tensor.shape) for name, tensor in graph.tensors.items())
    told = repr((nodes, shapes, cpu.model, sorted(cpu.features), RUNTIME_VERSION))
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def read(path: Path, valid_for: str) -> CpuChoice | None:
    """The choice in a file; None where there is none, or it is for another CPU, graph or runtime.

    Raises ConfigError, which names the file, where it is damaged or of another version.
    """
    if not path.is_file():
        return None
    try:
        content: Any = json.loads(path.read_bytes()[: MAX_FILE_BYTES + 1])
        choice = CpuChoice.model_validate(content)
    except (OSError, ValueError):
        raise ConfigError(f"{path}: damaged, or of another version of farm; delete it, and run farm tune") from None
    return choice if choice.valid_for == valid_for else None


def write(path: Path, choice: CpuChoice) -> None:
    """Writes a choice, whole or not at all."""
    content = json.dumps(choice.model_dump(mode="json"), indent=1).encode()
    atomic_file.write(path, content)


def with_choice(execution: Execution, choice: CpuChoice | None) -> Execution:
    """What the user said of the execution, and the choice where that says nothing."""
    return execution.over(choice.execution) if choice else execution
