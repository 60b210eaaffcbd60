"""A device made of formulas, built like real ones: the variant decides most, shapes matter, local sizes less.

Programs take time to build, some candidates fail, and all times are noisy. Device time is counted, not spent.
"""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from runtime.kernels.spec import ArgumentForm, Dims, Kernel, MemoryType, Variant, WorkItems, ceil_div, variant
from runtime.lowering.trials import TrialLaunch, Use
from runtime.target import Target
from runtime.types import Precision
from tuner.trial import Candidate, Trial, TrialStatus

TARGET = Target(
    soc="sim", abi="host", compute_units=2, max_work_group_size=4096, max_work_item_sizes=(4096, 4096, 4096)
)
BUILD_S = 0.1
OVERHEAD_S = 0.001


def tiled_items(dims: Dims, chosen: Variant) -> WorkItems:
    return (ceil_div(dims["pixels"], chosen["PIXELS"]), ceil_div(dims["out_c"], chosen["BLOCK"]))


def tiled_kernel(name: str) -> Kernel:
    variants = tuple(
        variant(BLOCK=block, PIXELS=pixels, FMA=fma) for fma in (0, 1) for block in (4, 8, 16) for pixels in (1, 4, 8)
    )
    return Kernel(
        name=name,
        source=f"{name}.cl",
        operator="Conv2D",
        memory=MemoryType.BUFFER,
        tensors=(("x", ArgumentForm.VIEW), ("y", ArgumentForm.VIEW)),
        ints=("pixels", "in_c", "out_c"),
        work_items=tiled_items,
        variants=variants,
        block=lambda chosen: chosen["BLOCK"],
        tunable=True,
    )


CONV = tiled_kernel("conv1x1")
DEPTHWISE = tiled_kernel("depthwise")
SOFTMAX = tiled_kernel("softmax")


def launch(kernel: Kernel, pixels: int, in_c: int, out_c: int, uses: int = 1) -> TrialLaunch:
    return TrialLaunch(
        key=f"{kernel.name}|{pixels},{in_c},{out_c}",
        step=0,
        poison=None,
        kernel=kernel,
        dims={"pixels": pixels, "in_c": in_c, "out_c": out_c},
        defines={"ACTIVATION": 0},
        precision=Precision.FP32,
        variant=kernel.variants[0],
        local_size=(0, 0, 0),
        uses=tuple(Use("model", f"step{index}") for index in range(uses)),
    )


SHAPES = (
    (12544, 32, 64, 1),
    (3136, 64, 128, 1),
    (3136, 128, 128, 1),
    (784, 256, 256, 1),
    (196, 512, 512, 5),
    (49, 1024, 1024, 1),
)
LAUNCHES = (
    *(launch(CONV, *shape) for shape in SHAPES),
    *(launch(DEPTHWISE, pixels, 9, in_c, uses) for pixels, in_c, _, uses in SHAPES),
    launch(SOFTMAX, 1, 1, 1000),
)


class SimulatedDevice:
    """Measures candidates by formula.

    Args:
        noise: standard deviation of the logarithm of a time.
        build_s: what building a program takes.
        builds_each_size: whether each local size is a program of its own, as on PoCL.
        spoil: what to make of a trial before it is given out, given the launch and candidate.
    """

    def __init__(
        self,
        noise: float = 0.02,
        seed: int = 0,
        spoil: Callable[[TrialLaunch, Candidate, Trial], Trial] | None = None,
        build_s: float = BUILD_S,
        builds_each_size: bool = True,
    ) -> None:
        self._build_s, self._builds_each_size = build_s, builds_each_size
        self._noise = noise
        self._random = np.random.default_rng(seed)
        self._spoil = spoil
        self._built: set[tuple[str, tuple[int, ...]]] = set()  # options, local size
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        self.calls[launch.key, str(candidate)] += 1
        program = (launch.options(candidate.variant), candidate.local_size if self._builds_each_size else ())
        build_s = 0.0 if program in self._built else self._build_s
        self._built.add(program)
        true_ns = true_time_ns(launch, candidate)
        ns = tuple(float(true_ns * math.exp(abs(self._random.normal(0, self._noise)))) for _ in range(reps))
        device_s = build_s + OVERHEAD_S + sum(ns) * 1e-9
        trial = Trial(TrialStatus.OK, ns, device_s, build_s, 1e-7, 1.0, 0, 4096, 8)
        return self._spoil(launch, candidate, trial) if self._spoil else trial


def true_time_ns(launch: TrialLaunch, candidate: Candidate) -> float:
    """Time without noise."""
    chosen, dims = candidate.variant, launch.dims
    block, pixels = chosen["BLOCK"], chosen["PIXELS"]
    rate = 40.0 * {4: 0.3, 8: 0.7, 16: 1.0}[block] * {1: 0.4, 4: 1.0, 8: 0.9}[pixels] * (0.35 if chosen["FMA"] else 1.0)
    items = launch.work_items(chosen)
    padded = math.prod(items) * block * pixels / (dims["pixels"] * dims["out_c"])
    compute_ns = dims["pixels"] * dims["in_c"] * dims["out_c"] / rate * padded
    local = candidate.local_size if any(candidate.local_size) else (min(items[0], 64), 1, 1)
    sides = (*items, 1)[:3]
    groups = math.prod(ceil_div(count, side) for count, side in zip(sides, local, strict=True))
    waste = groups * math.prod(local) / math.prod(sides)
    imbalance = ceil_div(groups, 2) * 2 / groups
    reuse = 1 + 0.08 * abs(math.log2(local[0]) - 3) + 0.15 * abs(math.log2(local[1]) - 1)
    return 4000 + groups * 150 + compute_ns * waste * imbalance * reuse
