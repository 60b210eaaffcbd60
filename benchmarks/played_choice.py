"""Plans that were chosen by typical costs alone, on played GPUs, whose true costs are known: how near to the best?

python -m benchmarks.played_choice                          # every shipped profile, all networks of the zoo
python -m benchmarks.played_choice --drawn 10 --seed 700 --network squeezenet_v11 mali-g52

A line for each: the time of a round by default, with the algorithms that the typical costs choose, with all that they
choose, and what they promise, over the best plan's. Nothing is tuned; steps on the CPU take what the model says.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import statistics
from collections.abc import Sequence

from benchmarks.played_optimum import SMALL_SIZE, PlayedTrials, drawn, played_trials
from farm.emulation.played_gpu import profile_names
from runtime import zoo
from runtime.convert import convert
from runtime.graph import Graph
from runtime.lowering.choice import GraphChoice
from runtime.lowering.launch import Launch
from runtime.lowering.lower import emit_launches
from runtime.lowering.options import Options
from runtime.lowering.trials import TrialLaunch
from runtime.plan.records import StepKind
from runtime.selection.costs import CostOrigin, cost_key, modelled_costs, total_ms
from runtime.selection.listing import find_candidates
from runtime.selection.selection import select_among
from runtime.target import Target
from runtime.types import EVERY_ALGORITHM, Precision
from tuner.space import default_candidate, three_dimensional
from tuner.trial import DRIVERS_CHOICE, Candidate

AUTO = Options(algorithms=EVERY_ALGORITHM)
NS_PER_MS = 1e6
WORDS = ("bert_mini", "llama_small_prefill", "llama_small_decode")


class PlayedCosts:
    """What launches take on a played GPU by default, in groups that it does not refuse."""

    def __init__(self, trials: PlayedTrials, target: Target) -> None:
        self._trials, self._target, self._model = trials, target, modelled_costs(target)
        self._known: dict[str, float] = {}

    def milliseconds(self, launch: Launch) -> float:
        """The launch's time."""
        if launch.kind == StepKind.CPU:
            return self._model.milliseconds(launch)
        return self._known.setdefault(cost_key(launch), self._played_ns(launch) / NS_PER_MS)

    def origin(self, launch: Launch) -> CostOrigin:
        """As if measured."""
        return CostOrigin.MEASURED

    def _played_ns(self, launch: Launch) -> float:
        kernel, dims, variant = launch.kernel, launch.dims, launch.variant
        local = three_dimensional(kernel.local_size(dims, variant, self._target) if kernel.local_size else (0,))
        trial = TrialLaunch("", 0, None, kernel, dims, launch.defines, launch.precision, variant, local, ())
        candidate = default_candidate(trial)
        while math.isinf(ns := self._trials.true_ns(trial, candidate)):
            candidate = Candidate(variant, _halved(candidate.local_size))  # as farmrt does
        return ns


def _halved(size: Sequence[int]) -> tuple[int, int, int]:
    longest = max(range(3), key=lambda axis: size[axis])
    x, y, z = (each // 2 if axis == longest else each for axis, each in enumerate(size))
    return (x, y, z) if max(size) > 1 else DRIVERS_CHOICE


@functools.cache
def graph_of(network: str) -> Graph:
    """A network of the zoo for small images, or few words."""
    if network in WORDS:
        return convert(zoo.build(network, size=SMALL_SIZE // 2))[0]
    return convert(zoo.build(network, size=SMALL_SIZE), {"input": (1, 3, SMALL_SIZE, SMALL_SIZE)})[0]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Times of a round in ms: by default, with chosen algorithms, with all chosen, as promised, and the least."""

    default: float
    algorithms: float
    all: float
    promised: float
    best: float


def chosen(profile: str, network: str, precision: Precision = Precision.FP32, allow_cpu: bool = False) -> Chosen:
    """What typical costs choose for a network on a played GPU."""
    trials, target, _ = played_trials(profile)
    target = dataclasses.replace(target, precision=precision, allow_cpu=allow_cpu or network in WORDS)
    graph, truth = graph_of(network), PlayedCosts(trials, target)
    candidates = find_candidates(graph, target, AUTO)

    def played_ms(options: Options, choice: GraphChoice | None = None) -> float:
        return total_ms(emit_launches(graph, target, dataclasses.replace(options, choice=choice)).launches, truth)

    by_model, best = (select_among(candidates, costs) for costs in (modelled_costs(target), truth))
    return Chosen(
        played_ms(Options()),
        played_ms(AUTO),
        played_ms(AUTO, by_model.choice),
        by_model.milliseconds,
        played_ms(AUTO, best.choice),
    )


def main() -> int:
    """Prints a line for each profile and network, then the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", nargs="*", default=profile_names(), help="default: all that are shipped")
    parser.add_argument("--drawn", type=int, default=0, help="GPUs drawn at random beside them")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    parser.add_argument("--network", action="append", choices=zoo.names(), help="default: all")
    parser.add_argument("--precision", choices=[each.label for each in Precision], default=Precision.FP32.label)
    given = parser.parse_args()
    precision = next(each for each in Precision if each.label == given.precision)
    profiles = [*given.profiles, *(drawn(given.seed + number) for number in range(given.drawn))]
    shares = []
    for profile, network in ((profile, network) for profile in profiles for network in given.network or zoo.names()):
        found = chosen(profile, network, precision)
        shares.append([each / found.best for each in (found.default, found.algorithms, found.all, found.promised)])
        print(f"{profile} {network}: {_told(shares[-1])}; the best takes {found.best:.2f} ms", flush=True)
    print(f"geometric means: {_told([statistics.geometric_mean(column) for column in zip(*shares, strict=True)])}")
    return 0


def _told(shares: Sequence[float]) -> str:
    names = ("default", "algorithms chosen", "all chosen", "promised")
    return ", ".join(f"{name} {share:.3f}" for name, share in zip(names, shares, strict=True))


if __name__ == "__main__":
    raise SystemExit(main())
