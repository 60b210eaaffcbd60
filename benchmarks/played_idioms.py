"""What each idiom of mobile GPUs takes on played ones, over the time without it: a row for each GPU, as Markdown.

python -m benchmarks.played_idioms              # every shipped profile
python -m benchmarks.played_idioms adreno640 mali-g78

Each figure is a round of the fastest candidates with the idiom over one of the fastest without it, by the model of
the played GPU (docs/emulation.md): it shows where an idiom can pay, not what a phone gains.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.played_optimum import NETWORKS, PlayedTrials, launches_of, number, played_trials
from farm.emulation.played_gpu import played_environment, profile_names
from farm.jobs.opbench_cases import CASES
from runtime import zoo
from runtime.convert import convert
from runtime.lowering.trials import TrialLaunch, trial_plan
from runtime.target import Target
from runtime.types import Dot
from tuner.space import candidate_costs
from tuner.trial import Candidate

NONE = "–"
US = 1e3
TRANSFORMER, PLACES, EIGHT = "bert_mini", 128, 8
SHARING = ("softmax", "reduce", "normalization", "fully_connected")  # kernels with lanes, none of which joins in waves
CONSTANT, IN_WAVES, IN_BYTES, WITH_DOTS = " -DCONSTANT=1", " -DSUBGROUPS=1", " -DBYTES=5", " -DDOT=1"
Takes = Callable[[TrialLaunch, Candidate], bool]


def every(launch: TrialLaunch, candidate: Candidate) -> bool:
    """Takes all candidates."""
    return True


@dataclasses.dataclass(frozen=True)
class PlayedGpu:
    """A played GPU: its profile, what times launches on it, how it is lowered for, and its wave."""

    profile: str
    trials: PlayedTrials
    target: Target
    wave: int

    @functools.cached_property
    def launches(self) -> Sequence[TrialLaunch]:
        """Those of two networks of convolutions."""
        return [launch for network in NETWORKS for launch in launches_of(network, self.target, 128)]

    @functools.cached_property
    def transformer(self) -> Sequence[TrialLaunch]:
        """Those of a transformer of words."""
        graph, _ = convert(zoo.build(TRANSFORMER, size=PLACES))
        return trial_plan([graph], dataclasses.replace(self.target, allow_cpu=True)).launches

    def round_ns(
        self,
        launches: Sequence[TrialLaunch],
        takes: Takes = every,
        further: str = "",
    ) -> float:
        """A round of each launch's fastest candidate among those that are taken; of all, where none is."""
        return sum(self.best_ns(launch, takes, further) * len(launch.uses) for launch in launches)

    def best_ns(self, launch: TrialLaunch, takes: Takes = every, further: str = "") -> float:
        """The fastest candidate of a launch; `further`: options that no variant has."""
        known = list(candidate_costs(launch, self.target, self.wave))
        taken = [candidate for candidate in known if takes(launch, candidate)] or known
        return min(self.trials.true_ns(launch, candidate, further) for candidate in taken)


def recorded(gpu: PlayedGpu) -> float | None:
    """Launches enqueued by one call (cl_qcom_recordable_queues)."""
    environment = played_environment(gpu.profile)
    if not lists(gpu.profile, "cl_qcom_recordable_queues"):
        return None
    launch_us, recording_us, recorded_us = (
        number(environment, key) for key in ("launch_us", "recording_us", "recorded_us")
    )
    count = sum(len(launch.uses) for launch in gpu.launches)
    without_ns = gpu.round_ns(gpu.launches)
    return (without_ns + (len(NETWORKS) * recording_us + count * (recorded_us - launch_us)) * US) / without_ns


def constant(gpu: PlayedGpu) -> float | None:
    """Weights in constant memory, wherever they fit and that is faster."""
    usual = [gpu.best_ns(launch) * len(launch.uses) for launch in gpu.launches]
    kept = [gpu.best_ns(launch, further=CONSTANT) * len(launch.uses) for launch in gpu.launches]
    return sum(map(min, usual, kept)) / sum(usual)


def dot8(gpu: PlayedGpu) -> float | None:
    """Four products of bytes in one instruction: convolutions of eight bits between tensors of bytes."""
    if gpu.target.dot == Dot.NONE:
        return None
    graphs = [case.graph() for case in CASES if case.op == "Conv" and case.weight_bits == EIGHT]
    launches = trial_plan(graphs, dataclasses.replace(gpu.target, memory="buffer")).launches
    products = [launch for launch in launches if "WEIGHT_BITS" in launch.defines]
    return gpu.round_ns(products, further=IN_BYTES + WITH_DOTS) / gpu.round_ns(products, further=IN_BYTES)


def tiles(gpu: PlayedGpu) -> float | None:
    """A tile of outputs in each work item's registers, over one pixel and one vector of channels."""
    names = ("PIXELS", "BLOCKS", "ROWS")

    def is_single(launch: TrialLaunch, candidate: Candidate) -> bool:
        return all(candidate.variant.get(name, 1) == 1 for name in names) and candidate.variant.get("BLOCK", 4) <= 4

    return gpu.round_ns(gpu.launches) / gpu.round_ns(gpu.launches, is_single)


def subgroups(gpu: PlayedGpu) -> float | None:
    """Sums joined in waves, without a barrier: attention."""
    if not lists(gpu.profile, "cl_khr_subgroups"):
        return None
    attention = [launch for launch in gpu.transformer if launch.kernel.name == "attention"]

    def takes(launch: TrialLaunch, candidate: Candidate) -> bool:
        return not candidate.variant.get("SUBGROUPS")

    return gpu.round_ns(attention) / gpu.round_ns(attention, takes)


def more_subgroups(gpu: PlayedGpu) -> float | None:
    """The same in softmax, reductions, normalisations and products of few rows, of which none does it; of the round."""
    if not lists(gpu.profile, "cl_khr_subgroups"):
        return None
    launches = [*gpu.transformer, *gpu.launches]
    usual_ns = gpu.round_ns(launches)
    sharing = [launch for launch in launches if launch.kernel.name in SHARING]
    joined_ns = gpu.round_ns(sharing, further=IN_WAVES)
    return (usual_ns - gpu.round_ns(sharing) + joined_ns) / usual_ns


def lists(profile: str, extension: str) -> bool:
    """Whether the GPU's driver lists an extension, which PoCL behind it may lack."""
    return extension in Path(played_environment(profile)["FARM_PLAYED_GPU"]).read_text()


IDIOMS: dict[str, Callable[[PlayedGpu], float | None]] = {
    "recorded launches": recorded,
    "constant memory": constant,
    "dot8": dot8,
    "private tiles": tiles,
    "subgroups: attention": subgroups,
    "subgroups: all else": more_subgroups,
}


def played_gpu(profile: str) -> PlayedGpu:
    """The GPU of a profile as its driver is told to be."""
    trials, target, wave = played_trials(profile)
    told = dataclasses.replace(target, subgroups=lists(profile, "cl_khr_subgroups"))
    return PlayedGpu(profile, trials, told, wave)


def row(profile: str) -> str:
    """A line of the table; a dash where the GPU cannot do it."""
    gpu = played_gpu(profile)
    shares = (idiom(gpu) for idiom in IDIOMS.values())
    cells = (NONE if share is None else f"{share:.3f}" for share in shares)
    return f"| {' | '.join((profile, *cells))} |"


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", nargs="*", default=profile_names(), help="default: all that are shipped")
    print(f"| played GPU | {' | '.join(IDIOMS)} |\n|{' --- |' * (1 + len(IDIOMS))}")
    for profile in parser.parse_args().profiles:
        print(row(profile), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
