"""`farm compare` of two builds of farm, or of two versions of a model: measured in turns on one unit, then decided."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy.typing as npt

from farm.config import deployment
from farm.config.deployment import Model, Runtime
from farm.config.inventory import Unit
from farm.decision.comparison import CompareRow, ComparisonOutcome, Side, decide, differences
from farm.jobs.compare.bundle import Probed
from farm.jobs.compare.contender import Contender
from farm.jobs.compare.duet import Arm, Entry, Rehearsal, rehearse, run_turns, told
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Members, rows_of_each
from farm.jobs.fleet.progress import UNWATCHED, Watch
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Failed, Prepared, prepare_all, random_input
from farm.jobs.validate import output_members
from farm.model.fetch import Fetcher
from farm.rows.nightly import Block
from farm.rows.row import Latency, Status
from farm.workspace import Workspace, file_part
from runtime.errors import ConfigError

Array = npt.NDArray[Any]
ARMS: tuple[Arm, Arm] = ("a", "b")


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """What `farm compare` was asked for; `seed` decides who begins a turn."""

    turns: int = 10
    margin_percent: float = 1.0
    runtimes: tuple[Runtime, ...] = ("cpu", "gpu")
    memory: str | None = None
    seed: int = 0


def compare_job(
    both: tuple[Contender, Contender],
    units: Sequence[Unit],
    options: CompareOptions,
    fleet: FleetOptions = FLEET,
    watch: Watch = UNWATCHED,
) -> Iterator[CompareRow]:
    """A row for each unit, model and runtime that both have; ConfigError where there is none."""
    a, b = both
    models = [found for each in prepare_all(deployment.load(a.model_file)) if (found := _common(each, b, options))]
    if not models:
        raise ConfigError(f"{a.model_file}: no model that both have runs on {' or '.join(options.runtimes)}")

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> Members:
        return _Duel(opened, prepared, runtime, both, options).members()

    def asked(settings: Model, runtime: Runtime) -> Members:
        return {"turns": options.turns, "seed": options.seed}

    for row in rows_of_each(CompareRow, models, units, measure, asked, fleet, watch):
        yield row if row.a.name else row.model_copy(update={"a": a.side, "b": b.side})


def _common(found: Prepared | Failed, b: Contender, options: CompareOptions) -> Prepared | Failed | None:
    """A model of A with the runtimes that B's has too and that were asked for; None without any."""
    other = deployment.load(b.model_file).models.get(b.model_name(found.name))
    shared = [each for each in found.settings.runtimes if other and each in other.runtimes]
    wanted = [each for each in shared if each in options.runtimes]
    settings = found.settings.model_copy(update={"runtime": "+".join(wanted)})
    return dataclasses.replace(found, settings=settings) if wanted else None


@dataclasses.dataclass(frozen=True)
class _Duel:
    """A model in one runtime on one unit."""

    opened: OpenUnit
    prepared: Prepared
    runtime: Runtime
    both: tuple[Contender, Contender]
    options: CompareOptions

    def members(self) -> Members:
        """Members of its row."""
        entries = [self._entry(arm, each) for arm, each in zip(ARMS, self.both, strict=True)]
        with TemporaryDirectory() as folder:
            a, b = (self._rehearsed(entry, Path(folder)) for entry in entries)
            blocks = run_turns(self.opened, a, b, self.options.turns, self.options.seed)
        sides = [_side(each, found, blocks) for each, found in zip(self.both, (a, b), strict=True)]
        return self._decided(sides, b, blocks) | self._outputs_compared(a, b)

    def _entry(self, arm: Arm, contender: Contender) -> Entry:
        """Makes one of the two."""
        name = contender.model_name(self.prepared.name)
        self.opened.watch.stage(f"{self.prepared.name} ({self.runtime}): making {arm.upper()}, {contender.side.name}")
        unit = file_part(self.opened.unit.name)
        folder = Workspace(self.prepared.deployment.library_name).folder / "compare" / unit
        folder = folder / f"{self.prepared.name}.{self.runtime}.{arm}"
        with told(arm):
            probed = Probed.of(self.opened, self.options.memory)
            bundle = contender.bundle(self.prepared.name, self.runtime, probed, folder)
        return Entry(arm, bundle, folder, _inputs(contender.model_file, name))

    def _rehearsed(self, entry: Entry, folder: Path) -> Rehearsal:
        self.opened.watch.stage(f"{self.prepared.name} ({self.runtime}): first run of {entry.arm.upper()}")
        return rehearse(self.opened, entry, folder / f"compare_{entry.arm}.bin")

    def _decided(self, sides: Sequence[Side], b: Rehearsal, blocks: Sequence[Block]) -> Members:
        """What the times say; too few turns that heat did not spoil are a failure."""
        a_ms, b_ms = ([statistics.median(each.samples) for each in _good(blocks, arm)] for arm in ARMS)
        decision = decide(a_ms, b_ms, self.options.margin_percent)
        throttled = "; ".join(dict.fromkeys(each.throttled for each in blocks if each.throttled))
        failed = decision.outcome == ComparisonOutcome.NONE
        return {
            **dataclasses.asdict(decision),
            "status": Status.FAILED if failed else Status.OK,
            "reason": f"{decision.verdict}{throttled and f' ({throttled})'}" if failed else "",
            "throttled": throttled,
            "margin_percent": self.options.margin_percent,
            "device_model": self.opened.device_model,
            "a": sides[0],
            "b": sides[1],
            "notes": differences(*sides),
            "blocks": tuple(blocks),
            "fingerprint": b.entry.bundle.fingerprint,
            "settings": {
                **b.entry.bundle.settings,
                "opencl_library": "" if self.runtime == "cpu" else self.opened.opencl_library,
            },
            **sides[1].model_dump(include={"latency_ms", "init_ms", "first_ms", "memory_bytes"}),
        }

    def _outputs_compared(self, a: Rehearsal, b: Rehearsal) -> Members:
        """B's outputs against A's. Two builds must agree, two versions of a model need not."""
        names = self.prepared.data_formats
        if not all(name in found.outputs for name in names for found in (a, b)):
            return {}
        members = output_members(self.prepared, self.runtime, a.outputs, b.outputs)
        status, reason = members.pop("status"), members.pop("reason")
        if status == Status.OK or self.both[0].side.kind == "model":
            return members
        return members | {"status": status, "reason": f"B's outputs depart from A's: {reason}"}


def _inputs(model_file: Path, name: str) -> dict[str, Array]:
    """The inputs of the deployment file; seeded noise, the same for inputs of the same name, where it gives none."""
    source = deployment.load(model_file)
    given = Fetcher(source).validation_inputs(name)
    tensors = source.models[name].subgraph.inputs
    return {tensor.name: given[tensor.name] if tensor.name in given else random_input(tensor) for tensor in tensors}


def _good(blocks: Sequence[Block], arm: str) -> list[Block]:
    return [each for each in blocks if each.arm == arm and not each.throttled]


def _side(contender: Contender, found: Rehearsal, blocks: Sequence[Block]) -> Side:
    """What is known of one of the two after the turns."""
    good = _good(blocks, found.entry.arm)
    times: Mapping[str, Any] = {}
    if good:
        times = {
            "latency_ms": Latency.of([sample for each in good for sample in each.samples]),
            "init_ms": statistics.median(each.init_ms for each in good),
            "first_ms": statistics.median(each.first_ms for each in good),
        }
    about = {
        "model": found.entry.bundle.model,
        "versions": found.entry.bundle.versions,
        "fingerprint": found.entry.bundle.fingerprint,
        "memory_bytes": found.answer.get("memory", {}),
    }
    return contender.side.model_copy(update={**about, **times})
