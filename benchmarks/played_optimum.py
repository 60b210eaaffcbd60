"""The quick search on played GPUs, whose best candidate of every launch is known: how near to it is what it finds?

python -m benchmarks.played_optimum              # every shipped profile, and ten GPUs drawn at random
python -m benchmarks.played_optimum --drawn 30 --seed 700 --size 224 adreno640

Times are those of the model (docs/emulation.md): what it shows is the search, not a phone.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import os
import random
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from farm.emulation.played_gpu import played_environment, profile_names
from farm.emulation.played_model import PlayedModel
from runtime import zoo
from runtime.convert import convert
from runtime.lowering.trials import TrialLaunch, trial_plan
from runtime.native.build import build_farmrt
from runtime.target import Target, target_from_probe
from tuner.budget import Budget
from tuner.device_pool import pool_of_one
from tuner.journal import Journal
from tuner.search import LEVELS, search
from tuner.space import candidate_costs, default_candidate
from tuner.trial import Candidate, Trial, TrialStatus
from tuner.trial_runner import TrialRunner

NOISE = 0.02  # of a repetition
BUILD_S, TRIAL_S = 0.15, 0.01  # what a program takes to build, and a trial beside its launches
CLOSE = 1.03  # the aim: of the best table, in the median over profiles and networks
NS_PER_S = 1e9
NETWORKS = ("squeezenet_v11", "mobilenet_v1")
FULL_SIZE, SMALL_SIZE = 224, 128


class PlayedTrials:
    """The tuner's `measure` on a played GPU: modelled times with noise, and the device time of a phone."""

    def __init__(self, model: PlayedModel, wave: int, launch_ns: float) -> None:
        self._model, self._wave, self._launch_ns = model, wave, launch_ns
        self._random, self._built = random.Random(1), set[str]()
        self.count = 0

    def true_ns(self, launch: TrialLaunch, candidate: Candidate, further: str = "") -> float:
        """What the launch takes, infinite where the GPU refuses it; `further`: options that no variant has."""
        options = launch.options(candidate.variant) + further
        sizes = (launch.global_size(candidate.variant, candidate.local_size), candidate.local_size)
        kernel = launch.kernel
        return self._launch_ns + self._model.launch_ns(kernel.name, kernel.memory, options, launch.dims, *sizes)

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        self.count += 1
        ns, program = self.true_ns(launch, candidate), launch.kernel.memory + launch.options(candidate.variant)
        build_s = 0.0 if program in self._built else BUILD_S
        self._built.add(program)
        if math.isinf(ns):
            return Trial(TrialStatus.FAILED, device_s=build_s + TRIAL_S, reason="the work group is too large")
        own_ns = self.true_ns(launch, default_candidate(launch))
        times = self._times(ns, reps)
        paired = candidate != default_candidate(launch)
        beside = self._times(own_ns, reps) if paired else ()
        device_s = build_s + TRIAL_S + (sum(times) + sum(beside)) / NS_PER_S
        return Trial(
            *(TrialStatus.OK, times, device_s, build_s),
            max_abs_error=0.0,
            max_abs_expected=1.0,
            preferred_multiple=self._wave,
            own_ns=beside,
        )

    def _times(self, ns: float, reps: int) -> tuple[float, ...]:
        return tuple(ns * (1 + NOISE * self._random.random()) for _ in range(reps))


def total_ns(trials: PlayedTrials, chosen: Mapping[str, Candidate], launches: Sequence[TrialLaunch]) -> float:
    """A round of the network, each launch by its candidate."""
    return sum(trials.true_ns(launch, chosen[launch.key]) * len(launch.uses) for launch in launches)


@functools.cache
def launches_of(network: str, target: Target, size: int) -> tuple[TrialLaunch, ...]:
    """The distinct launches of a network on a target; one for smaller images is half as wide, with the same kernels."""
    width = 1.0 if size >= FULL_SIZE else 0.5
    graph, _ = convert(zoo.build(network, width=width, size=size), {"input": (1, 3, size, size)})
    return tuple(launch for launch in trial_plan([graph], target).launches if launch.uses)


@dataclasses.dataclass(frozen=True)
class Found:
    """Times of a round in ns: by default, as the quick search chose, and the least there is; and how many trials."""

    default_ns: float
    chosen_ns: float
    best_ns: float
    trials: int

    @property
    def share(self) -> float:
        """How many times the best a round takes as it was chosen."""
        return self.chosen_ns / self.best_ns


def played_trials(profile: str) -> tuple[PlayedTrials, Target, int]:
    """What times launches on a profile, the target that it is, and its wave."""
    environment = played_environment(profile)
    wave, launch_us = (number(environment, key) for key in ("wave", "launch_us"))
    target = target_from_probe(_probe(environment), "host")
    return PlayedTrials(PlayedModel(environment), int(wave), launch_us * 1000), target, int(wave)


def found(profile: str, network: str, size: int = SMALL_SIZE) -> Found:
    """What the quick search finds on a profile, beside the best of all its candidates."""
    trials, target, wave = played_trials(profile)
    launches, level = launches_of(network, target, size), LEVELS["quick"]
    runner = TrialRunner(pool_of_one(trials), Journal(None, "played"), Budget(level.budget_s))
    outcome = search(launches, lambda launch, multiple: candidate_costs(launch, target, multiple), runner, level)
    chosen = {verdict.launch.key: verdict.chosen for verdict in outcome.verdicts}
    best = {
        launch.key: min(candidate_costs(launch, target, wave), key=functools.partial(trials.true_ns, launch))
        for launch in launches
    }
    default = {launch.key: default_candidate(launch) for launch in launches}
    default_ns, chosen_ns, best_ns = (total_ns(trials, each, launches) for each in (default, chosen, best))
    return Found(default_ns, chosen_ns, best_ns, trials.count)


def _probe(environment: Mapping[str, str]) -> Any:
    command = [str(build_farmrt()), "probe"]
    return json.loads(subprocess.run(command, env=os.environ | environment, capture_output=True, check=True).stdout)


def number(environment: Mapping[str, str], key: str) -> float:
    """A number of a profile, or of the keys that override it."""
    given = environment["FARM_PLAYED_KEYS"].split(",") + Path(environment["FARM_PLAYED_GPU"]).read_text().splitlines()
    pairs = (line.replace(" ", "").partition("=") for line in given)
    return next(float(value) for name, _, value in pairs if name == key)


def drawn(seed: int) -> str:
    """A GPU that nobody has: each figure of the model by chance, within what mobile GPUs have."""
    draw = random.Random(seed)
    keys = {
        "compute_units": draw.randint(1, 24),
        "macs_per_clock": draw.choice((16, 32, 64, 128, 256)),
        "wave": draw.choice((4, 8, 16, 32, 64)),
        "registers_kb": draw.choice((32, 64, 128, 256)),
        "hide_waves": draw.randint(2, 12),
        "cache_kb": draw.choice((8, 16, 32)),
        "buffer_bytes_per_clock": draw.choice((8, 16, 32, 64)),
        "image_bytes_per_clock": draw.choice((8, 16, 32, 64, 128)),
        "l2_bytes_per_clock": draw.choice((16, 64, 256)),
        "memory_gb_s": draw.randint(5, 70),
        "group_clocks": draw.randint(20, 300),
        "launch_us": draw.randint(10, 60),
    }
    gpu = draw.choice(("adreno640", "mali-g72"))  # images, or buffers
    return f"{gpu}:{','.join(f'{key}={value}' for key, value in keys.items())}"


def main() -> int:
    """Prints a line for each profile and network, then the medians; 1 where the aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", nargs="*", default=profile_names(), help="default: all that are shipped")
    parser.add_argument("--drawn", type=int, default=10, help="GPUs drawn at random beside them")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    parser.add_argument("--size", type=int, default=SMALL_SIZE, help=f"of the images; from {FULL_SIZE} in full width")
    given = parser.parse_args()
    print("all times are played")
    seeds = range(given.seed, given.seed + given.drawn)
    groups = {"shipped": given.profiles, "drawn": [drawn(seed) for seed in seeds]}
    reached = [_group(name, profiles, given.size) for name, profiles in groups.items() if profiles]
    return 0 if all(reached) else 1


def _group(name: str, profiles: Sequence[str], size: int) -> bool:
    results = []
    for profile, network in ((profile, network) for profile in profiles for network in NETWORKS):
        each = found(profile, network, size)
        results.append(each)
        near = f"chosen {each.share:.3f} times the best ({each.best_ns / 1e6:.2f} ms)"
        default = each.default_ns / each.best_ns
        print(f"{profile} {network}: {each.trials} trials, {near}, default {default:.3f}", flush=True)
    median = statistics.median(each.share for each in results)
    within = sum(each.share <= CLOSE for each in results)
    print(f"{name}: median {median:.3f} times the best, {within} of {len(results)} within {CLOSE}")
    return median <= CLOSE


if __name__ == "__main__":
    raise SystemExit(main())
