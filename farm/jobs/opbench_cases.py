"""Single-operator benchmarks: the cases of all families, and names. Pure: graphs in, names out.

    BENCHMARK = KERNEL / MEMORY / PRECISION / CASE / VARIANT
    KERNEL    = conv2d, conv1x1, depthwise, ...           a row of the kernel table
    MEMORY    = buffer, image
    PRECISION = fp32, fp16_storage, fp16                  fp16_storage computes in fp32
    CASE      = OPERATOR _ N x C x H x W [_ DETAILS]      shape of the first input in origin order
    DETAILS   = K3x3 S2x2 D1x1 G1 [W2] _ 64               window, stride, dilation, groups, Winograd tile, then channels
    VARIANT   = BLOCK16_VECTOR16_PIXELS8_FMA1, plain      as in tuned records

    conv1x1/buffer/fp32/Conv_1x512x14x14_K1x1S1x1D1x1G1_512/BLOCK16_VECTOR16_PIXELS8_FMA1

A case is a graph of one operator. It is lowered like any model, and each kernel that it becomes is a benchmark, so that
every row of the kernel table has some; boundary conversions are benchmarks of their own in the case `Relu`.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence

from farm.rows.forecast import CONVERSION_MARK, CONVERSION_TYPES
from runtime.kernels.source import build_options
from runtime.kernels.spec import Variant
from runtime.lowering.assembly import round_up
from runtime.lowering.lower import lower
from runtime.lowering.options import Options
from runtime.operators.case import OperatorCase
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind
from runtime.registry import collect_rows
from runtime.target import Target


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One launch to time: a step of a case's plan under a variant."""

    case: OperatorCase
    plan: Plan
    step_index: int
    variant: Variant

    @property
    def step(self) -> Step:
        """The step as the plan has it."""
        return self.plan.steps[self.step_index]

    @property
    def name(self) -> str:
        """Name in the grammar above."""
        target = self.plan.target
        memory, precision = self.step.kernel.memory, target.precision.label
        return f"{self.step.kernel.name}/{memory}/{precision}/{self.case.name}/{self.variant.name}"

    @property
    def input_bytes(self) -> int:
        """Bytes of the operator's inputs."""
        return sum(map(math.prod, self.case.inputs)) * self.plan.target.element_bytes

    @property
    def launch(self) -> dict[str, object]:
        """Words of farmrt's `trial`: the step, and the variant with its default local size."""
        step, variant, target = self.step, self.variant, self.plan.target
        items = step.kernel.work_items(step.dims, variant)
        local = step.kernel.local_size(step.dims, variant, target) if step.kernel.local_size else (0,) * len(items)
        return {
            "step": self.step_index,
            "options": build_options(variant, target.precision, step.defines),
            "global": round_up(items, local)[: len(items)],
            "local": local,
            "block": step.kernel.block(variant) if step.kernel.block else 0,
        }


def benchmarks(case: OperatorCase, target: Target, all_variants: bool = False) -> Iterator[Benchmark]:
    """The benchmarks of a case on a target: its default variant of each kernel, or every variant that fits."""
    plan = lower(case.graph(), target, Options(algorithms=(case.algorithm,), reuse_memory=False))
    seen = set()
    for index, step in enumerate(plan.steps):
        if step.kind == StepKind.CPU or (_is_inserted(step) and not case.conversions):
            continue
        for variant in _variants(step, target) if all_variants else (step.variant,):
            benchmark = Benchmark(case, plan, index, variant)
            if benchmark.name not in seen:
                seen.add(benchmark.name)
                yield benchmark


def _is_inserted(step: Step) -> bool:
    """Returns whether the lowering inserted the step, so that no operator of the model is measured by it."""
    return step.op in CONVERSION_TYPES and CONVERSION_MARK in step.note


def _variants(step: Step, target: Target) -> list[Variant]:
    return [variant for variant in step.kernel.variants if not step.kernel.fits(step.dims, variant, target)]


def spread_percent(samples_ns: Sequence[float]) -> float:
    """Half-width of the median's 95 % confidence interval, in percent of the median.

    The interval's ends are order statistics, so that no distribution is assumed; too few samples give infinity.
    """
    count = len(samples_ns)
    reach = 0.98 * math.sqrt(count)  # 1.96 standard deviations of a binomial(count, 1/2)
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    if low < 0 or high >= count:
        return math.inf
    ordered = sorted(samples_ns)
    median = statistics.median(ordered)
    return 50 * (ordered[high] - ordered[low]) / median if median else 0.0


CASES: tuple[OperatorCase, ...] = collect_rows("OPBENCH_CASES")
