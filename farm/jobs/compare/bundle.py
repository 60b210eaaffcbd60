"""All that a unit needs to run one model, made by one farm and run by another: plan, weights, farmrt, and bundle.json.

    python -m farm.jobs.compare.bundle MODEL.yml --model NAME --runtime gpu --probe probe.json -o FOLDER

`farm compare` starts this in other checkouts of farm: their Python code lowers the model, their sources become farmrt.
So the command line, the probe file and bundle.json are an interface between versions; BUNDLE_VERSION counts
incompatible changes of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

import farm
from farm import atomic_file
from farm.config.deployment import Deployment, Runtime
from farm.config.execution import DEFAULT, Execution
from farm.config.fields import Abi
from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.choices.model_choice import model_choice
from farm.jobs.compare.checkout import Checkout
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.planner import choose_target
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import plan_data_type, prepare
from farm.model import deployments
from farm.model.fetch import Fetcher
from farm.rows.row import row_fingerprint, versions
from farm.safe_text import one_line
from runtime.errors import BuildError, ConfigError, DeadlineError, FarmError, FormatError
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.types import ELEMENT_NAMES

BUNDLE_VERSION = 1
BUNDLE_FILE = "bundle.json"
ENTRIES = ("farm.jobs.compare.bundle", "farm.jobs.bundle")  # newest first: where farms have had this module
PROBE_FILE = "probe.json"
PLAN_FILE = "model.plan"
FARMRT_FILE = "farmrt"
MAKING_S = 1800.0
MAX_ERROR = 2000


class _Described(BaseModel):
    """Values of a JSON file that another version of farm may have written: members that we do not know are left."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class OutputTensor(_Described):
    """An output of the plan; an older farm wrote no element type, since it knew one alone."""

    name: str
    shape: tuple[int, ...]
    element_type: str = "float32"


class StepName(_Described):
    """A step of the plan: the operator's name and type."""

    name: str
    type: str


class Bundle(_Described):
    """What bundle.json says. `source` is the folder of the farm that made it.

    Older farms know neither `execution` nor `steps`.
    """

    bundle_version: int = BUNDLE_VERSION
    source: str
    versions: dict[str, str]
    library: str
    model: str
    runtime: str
    outputs: tuple[OutputTensor, ...]
    fingerprint: dict[str, str]
    settings: dict[str, Any]
    limit_kernel_time: bool
    execution: Execution = DEFAULT
    steps: tuple[StepName, ...] = ()

    def with_execution(self, execution: Execution) -> Bundle:
        """Returns a copy with these execution settings; a setting that is None stays as its deployment file says."""
        return self.model_copy(update={"execution": execution.over(self.execution)})


class UnitProbe(_Described):
    """What must be known of a unit: what farmrt said of it, and what the user asked for."""

    unit: str
    soc: str
    abi: Abi
    memory: str | None
    probe: ProbeAnswer

    @classmethod
    def of(cls, opened: OpenUnit, memory: str | None) -> UnitProbe:
        """Reads these facts from a unit that is open."""
        unit = opened.unit
        return cls(unit=unit.name, soc=unit.soc, abi=unit.abi, memory=memory, probe=opened.probe)


def make_bundle(source: Deployment, model: str, runtime: Runtime, probed: UnitProbe, folder: Path) -> Bundle:
    """Makes a bundle with this farm; raises what fetching, converting, lowering or compiling raises."""
    if model not in source.models:
        raise ConfigError(f"{source.path}: no model {model!r}; there are: {', '.join(source.models)}")
    prepared = prepare(source, model, Fetcher(source))
    unit = Unit(name=probed.unit, transport="local", soc=probed.soc, model=probed.unit, abis=(probed.abi,))
    target = choose_target(unit, probed.probe, prepared, runtime, probed.memory)
    way = model_choice(unit, probed.probe, prepared, runtime, target, probed.memory)
    target = way.target(target)
    plan = lower(prepared.graph, target, way.options(prepared))
    folder.mkdir(parents=True, exist_ok=True)
    write_plan(plan, folder / PLAN_FILE)
    shutil.copy(build_farmrt(probed.abi), folder / FARMRT_FILE)
    bundle = Bundle(
        source=str(_source()),
        versions=versions(),
        library=source.library_name,
        model=model,
        runtime=runtime,
        outputs=tuple(
            OutputTensor(name=tensor.name, shape=tensor.shape, element_type=ELEMENT_NAMES[tensor.element_type])
            for tensor in plan.outputs
        ),
        fingerprint=row_fingerprint(target),
        settings={
            "data_type": plan_data_type(plan),
            "memory": target.memory,
            "selection_file": str(way.planned.file or ""),
        },
        limit_kernel_time=prepared.settings.limit_opencl_kernel_time,
        execution=way.execution(prepared.settings.execution),
        steps=tuple(StepName(name=step.name, type=step.op) for step in plan.steps),
    )
    atomic_file.write(folder / BUNDLE_FILE, bundle.model_dump_json(indent=2).encode())
    return bundle


def make_bundle_with(
    checkout: Checkout, source: Deployment, model: str, runtime: Runtime, probed: UnitProbe, folder: Path
) -> Bundle:
    """Makes a bundle with another farm, in a process of its own.

    Raises:
        BuildError: it failed; the text is its own.
        DeadlineError: it did not end.
        FormatError: its bundle is of another version, or not its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BUNDLE_FILE).unlink(missing_ok=True)
    atomic_file.write(folder / PROBE_FILE, probed.model_dump_json().encode())
    words = ["--model", model, "--runtime", runtime, "--probe", str(folder / PROBE_FILE), "-o", str(folder)]
    _call(checkout, [str(source.file_in(folder).resolve()), *words])
    made = read_bundle(folder)
    if Path(made.source) != checkout.folder:
        raise FormatError(f"{folder}: made by the farm in {made.source} instead of {checkout.folder}")
    return made


def check_makes_bundles(checkout: Checkout) -> None:
    """Raises ConfigError where that farm is too old to know bundles."""
    _entry_of(checkout)


def _entry_of(checkout: Checkout) -> str:
    """The module that makes bundles in that farm, which may be older or younger than this one."""
    for entry in ENTRIES:
        if checkout.folder.joinpath(*entry.split(".")).with_suffix(".py").is_file():
            return entry
    raise ConfigError(f"{checkout.folder} ({checkout}): too old to be compared, it has no {' nor '.join(ENTRIES)}")


def read_bundle(folder: Path) -> Bundle:
    """What a bundle says of itself; FormatError where this farm cannot use it."""
    path = folder / BUNDLE_FILE
    try:
        content = json.loads(path.read_bytes())
        version = content.get("bundle_version")
        if version != BUNDLE_VERSION:
            raise FormatError(f"{path}: bundle of version {version}, this farm uses {BUNDLE_VERSION}")
        return Bundle.model_validate(content)
    except (OSError, ValueError, AttributeError) as error:  # pydantic's and JSON's errors are ValueErrors
        raise FormatError(f"{path}: no bundle: {one_line(str(error))[:MAX_ERROR]}") from None


def _call(checkout: Checkout, words: Sequence[str]) -> None:
    """Runs this module of another checkout; `-P` keeps the working folder from being taken for it."""
    environment = os.environ | {"PYTHONPATH": str(checkout.folder)}
    command = [sys.executable, "-P", "-m", _entry_of(checkout), *words]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=MAKING_S)
    except subprocess.TimeoutExpired:
        raise DeadlineError(f"{checkout.folder}: making the bundle took longer than {MAKING_S:g} s") from None
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise BuildError(f"{checkout.folder} ({checkout}): {one_line(last).removeprefix('error: ')[:MAX_ERROR]}")


def _source() -> Path:
    return Path(farm.__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; a failure is one line on stderr."""
    parser = argparse.ArgumentParser(prog="farm.jobs.compare.bundle", description=__doc__)
    parser.add_argument("model_file", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--runtime", required=True, choices=["cpu", "gpu"])
    parser.add_argument("--probe", required=True, type=Path)
    parser.add_argument("-o", "--output", required=True, type=Path)
    options = parser.parse_args(arguments)
    try:
        probed = UnitProbe.model_validate_json(options.probe.read_bytes())
        make_bundle(deployments.of_path(options.model_file), options.model, options.runtime, probed, options.output)
    except (FarmError, OSError, ValidationError) as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        return error.exit_status if isinstance(error, FarmError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
