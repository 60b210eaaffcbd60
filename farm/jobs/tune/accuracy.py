"""Whether the plans of a model are accurate enough on a unit, and how much noise those of several precisions may have.

A plan that is not accurate enough and has operators in half is a measurement of the noise: by how much it is too loud
says what the model of `runtime.selection.noise` may say of the next one. A few such steps are made at most.
"""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import judge_further, keeping
from farm.jobs.models.prepare import Prepared, TestData, plan_data_type, validation_data
from farm.jobs.validate import compare_outputs, excess_of_outputs
from runtime.graph import Array
from runtime.lowering.choice import GraphChoice
from runtime.plan.plan import Plan
from runtime.selection.candidates import Candidates
from runtime.selection.noise import FINE, HalfNoise, NodePrecisions, NoiseLimit, noise_limits
from runtime.types import Precisions
from tuner.budget import Deadline

MOST_LIMITS = 4  # before one precision has to do
NOISE_S = 10.0  # of this host, for each limit


@dataclasses.dataclass
class Accuracy:
    """What is known of the accuracy of a model's plans.

    `dropped`: precisions of which no plan is looked at any more, with the reason. `limits`: what a plan of several
    precisions has to keep. `inaccurate`: why such plans were not accurate enough. `deadline`: when it must be known
    which operators cost accuracy.
    """

    opened: OpenUnit
    prepared: Prepared
    deadline: Deadline
    dropped: dict[Precisions, str] = dataclasses.field(default_factory=dict)
    limits: tuple[NoiseLimit, ...] = ()
    inaccurate: list[str] = dataclasses.field(default_factory=list)

    @functools.cached_property
    def data(self) -> TestData:
        """Inputs, and the outputs that the oracle makes of them."""
        return validation_data(self.prepared)

    def is_enough(self, precisions: Precisions, plan: Plan, plan_file: Path, choice: GraphChoice | None) -> bool:
        """Checks the outputs of a plan. Where they are wrong, its precisions are dropped or limited for later plans."""
        self.opened.progress.stage(f"{self.prepared.name}: accuracy of {plan_data_type(plan)}")
        outputs = self._outputs(plan, plan_file)
        validation = compare_outputs(self.prepared, plan.target, self.data.expected, outputs)
        reason = validation.ending.reason
        if validation.is_ok:
            load = keeping(self.opened, self.prepared, plan.target, choice)
            reason = judge_further(self.opened, self.prepared, self.data, validation, load).ending.reason
            self.dropped |= {precisions: reason} if reason else {}
            return not reason
        is_mixed = len(precisions) > 1
        if is_mixed:
            self.inaccurate.append(reason)
        excess = excess_of_outputs(self.prepared, plan.target, self.data.expected, outputs)
        is_limited = max(plan.precisions).stores_half and self._limit(_precisions(self.prepared, plan, choice), excess)
        if not (is_mixed and is_limited):
            self.dropped[precisions] = reason
        return False

    def among(self, candidates: Mapping[Precisions, Candidates]) -> dict[Precisions, Candidates]:
        """Returns the candidates that are still allowed; those of several precisions get the noise limits."""
        left = {precisions: each for precisions, each in candidates.items() if precisions not in self.dropped}
        return {
            precisions: dataclasses.replace(each, noise=self.limits) if len(precisions) > 1 else each
            for precisions, each in left.items()
        }

    def _outputs(self, plan: Plan, plan_file: Path) -> Mapping[str, Array]:
        settings = self.prepared.settings
        self.opened.load(
            plan_file,
            limit_kernel_time=settings.limit_opencl_kernel_time,
            round_limit_s=settings.round_limit,
            execution=settings.execution,
        )
        self.opened.write_inputs(self.data.inputs)
        self.opened.first_round()
        return self.opened.read_outputs(plan)

    def _limit(self, precisions: NodePrecisions, excess: Mapping[str, float]) -> bool:
        """Limits the noise by that of a plan that has too much; False where there is no time, or it was done often."""
        if len(self.inaccurate) > MOST_LIMITS or self.deadline.is_over:
            return False
        self.opened.progress.stage(f"{self.prepared.name}: which operators half costs accuracy")
        deadline = self.deadline.within(NOISE_S)
        self._noise.refine(FINE / max(excess.values()), lambda: deadline.is_over)
        self.limits = noise_limits(self._noise, precisions, excess)
        return True

    @functools.cached_property
    def _noise(self) -> HalfNoise:
        return HalfNoise(self.prepared.graph, self.data.inputs)


def _precisions(prepared: Prepared, plan: Plan, choice: GraphChoice | None) -> NodePrecisions:
    """The precision of each node of a plan: what it was chosen to have, else that of the plan."""
    chosen = {name: each.precision for name, each in choice.nodes.items()} if choice else {}
    names = (node.output for node in prepared.graph.nodes)
    precisions = {name: chosen.get(name) for name in names}
    return {name: plan.target.precision if each is None else each for name, each in precisions.items()}
