"""What is asked of the lowering beside the target."""

import dataclasses
from collections.abc import Collection, Mapping

from runtime.lowering.choice import GraphChoice
from runtime.target import Target, runs_on_cpu
from runtime.types import EVERY_ALGORITHM, Algorithm, Precision


@dataclasses.dataclass(frozen=True)
class CpuOptions:
    """What tuning varies of plans for the CPU alone.

    `block`: channels of a block of activations, 8 or 16; 0 for the target's. `algorithms`: of convolutions, by output,
    all others are DIRECT; None: what pays as a rule. `quantized`: whether what can compute in eight bits does so, on a
    target that gains by it, but for the nodes `in_floats`, by output. `separable`: outputs of the 1x1 convolutions that
    are one step with the depthwise ones before them; None: as a rule.
    """

    block: int = 0
    algorithms: Mapping[str, Algorithm] | None = dataclasses.field(default=None, hash=False)
    quantized: bool = True
    separable: Collection[str] | None = dataclasses.field(default=None, hash=False)
    in_floats: frozenset[str] = frozenset()


CPU_DEFAULT = CpuOptions()
CPU_WINOGRAD = Algorithm.WINOGRAD_4  # the one of Winograd's that CPUs have


@dataclasses.dataclass(frozen=True)
class Options:
    """What a deployment file asks of the lowering.

    `algorithms`: those of which a convolution that Winograd's serves has one, the best of several by what is modelled;
    none: what pays as a rule.
    `keep`: tensors of the graph that are outputs of the plan too. `reuse_memory`: off for trials, whose
    operators run in any order. `separate_weights`: each constant is a memory object of its own, so that plans can
    share a data file (runtime/plan/shared_data.py). `cpu`: how plans for the CPU alone are made. `choice`: where each
    node runs and how; None: where the target's memory type says.
    """

    algorithms: tuple[Algorithm, ...] = (Algorithm.DIRECT,)
    obfuscate: bool = False
    keep: tuple[str, ...] = ()
    reuse_memory: bool = True
    separate_weights: bool = False
    cpu: CpuOptions = CPU_DEFAULT
    choice: GraphChoice | None = None

    def algorithms_on(self, target: Target) -> tuple[Algorithm, ...]:
        """Those on a device; as a rule all on a driver for CPUs in floats, where the model of their times is right."""
        known = runs_on_cpu(target.gpu_family) and target.precision == Precision.FP32
        return self.algorithms or (EVERY_ALGORITHM if known else (Algorithm.DIRECT,))
