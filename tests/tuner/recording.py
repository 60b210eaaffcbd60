"""A recorded exhaustive search as launches, candidates and a `measure`."""

import dataclasses
import gzip
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runtime.kernels import table
from runtime.kernels.spec import ArgumentForm, Kernel, MemoryType, Variant
from runtime.lowering.trials import TrialLaunch, Use
from runtime.target import Target
from runtime.types import Precision
from tuner import space
from tuner.build_ahead import TrialProgram
from tuner.trial import DRIVERS_CHOICE, Candidate, Trial, TrialStatus

Built = tuple[str, str, tuple[int, ...], str]


class Recording:
    """Launches with their recorded candidates; calling it replays a trial, with the default in turns as on a unit.

    Args:
        noise: what each replayed time of a candidate is multiplied by, drawn anew; the default beside it has none.

    Attributes:
        launches: in the order of the model.
        samples: times in ns of each launch (tuning key) with each candidate; none where the candidate failed.
    """

    def __init__(self, path: Path, noise: Callable[[], float] = lambda: 1.0) -> None:
        self._noise = noise
        content = json.loads(gzip.decompress(path.read_bytes()))
        self._reps: int = content["reps"]
        self._builds_each_size: bool = content.get("builds_each_size", True)
        self._variants = {
            kernel: {name: Variant(tuple((key, value) for key, value in defines)) for name, defines in variants.items()}
            for kernel, variants in content["variants"].items()
        }
        self._build_s: dict[Built, float] = {}
        for kernel, options, local, owner, build_s in content["programs"]:
            self._build_s.setdefault(self._built_once(kernel, options, tuple(local), owner), build_s)
        self._overhead_s: dict[str, float] = {}
        groups = content["max_work_group_size"]
        self.target = Target(
            "host",
            "host",
            compute_units=content["compute_units"],
            max_work_group_size=groups,
            max_work_item_sizes=(groups, groups, groups),
        )
        self.samples: dict[str, dict[Candidate, list[float]]] = {}
        self.launches = tuple(self._launch(row) for row in content["launches"])
        self._built: set[Built] = set()

    def _launch(self, row: dict[str, Any]) -> TrialLaunch:
        variants = self._variants[row["kernel"]]
        self._overhead_s[row["key"]] = row["overhead_s"]
        self.samples[row["key"]] = {
            Candidate(variants[name], _size(local)): samples for name, local, samples in row["candidates"]
        }
        name, local = row["default"]
        items = {variants[each]: tuple(size) for each, size in row["items"].items()}
        locals_ = {variants[each]: tuple(size) for each, size in row["locals"].items()}
        kernel = Kernel(
            name=row["kernel"],
            source="",
            operator="",
            memory=MemoryType.BUFFER,
            tensors=(("y", ArgumentForm.VIEW),),
            ints=(),
            work_items=lambda dims, variant: items[variant],
            variants=tuple(variants.values()),
            local_size=lambda dims, variant, target: locals_[variant],
        )
        defines = _defines(row["options"], variants[name])
        uses = tuple(Use("model", str(index)) for index in range(row["uses"]))
        launch = TrialLaunch(
            row["key"], 0, None, kernel, {}, defines, Precision.FP32, variants[name], _size(local), uses
        )
        return dataclasses.replace(launch, macs=_macs(row["key"]))

    def expand(self, launch: TrialLaunch, preferred_multiple: int) -> dict[Candidate, float]:
        """The launch's recorded candidates with the costs that the tuner guesses."""
        guesses = space.candidate_costs(launch, self.target, preferred_multiple)
        return {each: guesses[each] for each in self.samples[launch.key]}

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        build_s = self._build(launch, candidate)
        default = space.default_candidate(launch)
        ns = tuple(time * self._noise() for time in self._times(launch, candidate, reps))
        own_ns = self._times(launch, default, reps) if ns and candidate != default else ()
        device_s = build_s + self._overhead_s[launch.key] + (sum(ns) + sum(own_ns)) * 1e-9
        return Trial(TrialStatus.OK if ns else TrialStatus.FAILED, ns, device_s, build_s, 0.0, 1.0, own_ns=own_ns)

    def _times(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> tuple[float, ...]:
        samples = self.samples[launch.key][candidate]
        return tuple(samples[index % len(samples)] for index in range(reps)) if samples else ()

    def _build(self, launch: TrialLaunch, candidate: Candidate) -> float:
        program = self._program(launch, candidate)
        if program in self._built:
            return 0.0
        self._built.add(program)
        return self._build_s[program]

    def _program(self, launch: TrialLaunch, candidate: Candidate) -> Built:
        owner = launch.key if candidate.local_size == DRIVERS_CHOICE else ""
        return self._built_once(launch.kernel.name, launch.options(candidate.variant), candidate.local_size, owner)

    def _built_once(self, kernel: str, options: str, local: tuple[int, ...], owner: str) -> Built:
        """What the driver builds once: the first of its recorded builds is what that takes."""
        return (kernel, options, local, owner) if self._builds_each_size else (kernel, options, (), "")

    def build_s(self, program: TrialProgram) -> float:
        """What building a program took, where that is once for all local sizes; 0 where it was not recorded."""
        return self._build_s.get((*program.key, (), ""), 0.0)

    def median_ns(self, launch: TrialLaunch, candidate: Candidate) -> float:
        """Median time; infinite where the candidate failed."""
        samples = sorted(self.samples[launch.key][candidate])
        return samples[len(samples) // 2] if samples else math.inf

    @property
    def exhaustive_s(self) -> float:
        """Device time of trying everything once: all builds, and the recorded repetitions of every candidate."""
        trials = (
            self._overhead_s[key] + self._reps * sum(samples) / max(len(samples), 1) * 1e-9
            for key, candidates in self.samples.items()
            for samples in candidates.values()
        )
        return sum(self._build_s.values()) + sum(trials)

    def model_ns(self, chosen: Mapping[str, Candidate]) -> float:
        """Time of the model's launches with the chosen candidates (by tuning key), weighted by their uses."""
        return sum(self.median_ns(each, chosen[each.key]) * len(each.uses) for each in self.launches)

    @property
    def best(self) -> dict[str, Candidate]:
        """The fastest candidate of each launch."""
        return {
            each.key: min(self.samples[each.key], key=lambda candidate: self.median_ns(each, candidate))
            for each in self.launches
        }


def _size(sides: list[int]) -> tuple[int, int, int]:
    x, y, z = sides
    return (x, y, z)


def _macs(key: str) -> int:
    """Multiply-adds of a launch, by its tuning key."""
    kernel, memory, *_, dims = key.split("|")
    pairs = (pair.split("=") for pair in dims.split(","))
    return table.find_kernel(kernel, MemoryType(memory)).macs({name: int(value) for name, value in pairs})


def _defines(options: str, variant: Variant) -> dict[str, int]:
    """What the operator asked of the build, out of a launch's options with a variant."""
    pairs = (option.removeprefix("-D").split("=") for option in options.split())
    own = {"PRECISION", *dict(variant.defines)}
    return {name: int(value) for name, value in pairs if name not in own}
