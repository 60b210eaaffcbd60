"""What farmrt must have to run some models: its engines, and the operators of its CPU engine."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Mapping

from farm.config.deployment import Deployment
from farm.jobs.models.prepare import Failed, Prepared, prepare_all
from runtime.custom.c_library import CKernel
from runtime.layout.blocked import BLOCKS
from runtime.lowering.choice import NodeChoice, Place, graph_choice
from runtime.lowering.lower import lower
from runtime.lowering.options import CpuOptions
from runtime.native.features import ENGINES, Features, chosen_features
from runtime.target import Target
from runtime.types import Algorithm

RUNTIME_OF = {"opencl": "gpu", "cpu": "cpu"}
ANY_SOC = "any"
ON_CPU = NodeChoice(Place.CPU, Algorithm.DIRECT)


def needed_features(deployments: Iterable[Deployment], without: Collection[str] = ()) -> Features:
    """What all models of some deployment files need together, but for engines that are left out in any case.

    Raises the error of a model that cannot be converted.
    """
    models = [_converted(model) for deployment in deployments for model in prepare_all(deployment)]
    runtimes = {runtime for model in models for runtime in model.settings.runtimes}
    unused = {engine for engine in ENGINES if RUNTIME_OF[engine] not in runtimes}
    operators = frozenset(name for model in models for name in cpu_operators(model))
    return chosen_features(unused | set(without), operators)


def cpu_operators(prepared: Prepared) -> frozenset[str]:
    """Names of farmrt's CPU operators in a model's plans for the runtime cpu, whatever blocks they are made of.

    Winograd's is among them beside the direct one, since tuning chooses, and floats beside eight bits, since the CPU
    decides; and those on pixels, which a GPU plan falls back to, where the file names both runtimes.
    """
    if "cpu" not in prepared.settings.runtimes:
        return frozenset()
    target, options = Target(ANY_SOC, ANY_SOC, memory="cpu"), prepared.options()
    algorithms: tuple[Mapping[str, Algorithm] | None, ...] = (None, {})
    ways = [CpuOptions(*way) for way in itertools.product(BLOCKS, algorithms, (False, True))]
    plans = [lower(prepared.graph, target, dataclasses.replace(options, cpu=way)) for way in ways]
    if "gpu" in prepared.settings.runtimes:
        on_pixels = graph_choice(prepared.graph, {node.output: ON_CPU for node in prepared.graph.nodes})
        plans.append(lower(prepared.graph, target, dataclasses.replace(options, choice=on_pixels)))
    steps = (step for plan in plans for step in plan.steps)
    return frozenset(step.kernel.name for step in steps if not isinstance(step.kernel, CKernel))


def _converted(model: Prepared | Failed) -> Prepared:
    if isinstance(model, Failed):
        raise model.error
    return model
