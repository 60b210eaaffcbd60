"""`farm demo`: the main job on this machine: run and validate, profile and tune a network; a report of it."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from farm.config.deployment import Deployment
from farm.config.inventory import Unit
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_unit import emulated_phone_unit
from farm.jobs.benchmark import BenchmarkOptions, benchmark_job
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.run import RunOptions, run_job
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions
from farm.report import markdown
from farm.report.markdown import ReportSection
from farm.rows.benchmark import BenchmarkRow
from farm.rows.profile import by_time
from farm.rows.row import Row
from farm.rows.run import RunRow
from farm.rows.status import Status
from farm.rows.tune import TuneRow
from farm.store.recorder import Recorder
from farm.tables.benchmark import sections
from farm.tables.run import artifact_lines, run_tables
from farm.tables.table import Table, milliseconds
from farm.tables.tune import outcome_lines, played_lines, tune_table
from runtime.errors import FarmError

_UNTUNED = LoadOptions(tuned=NO_ARTIFACT, kernels=NO_ARTIFACT, selection=NO_ARTIFACT)
_RUN = RunOptions(validate=True, load=_UNTUNED)
_BENCHMARK = BenchmarkOptions(rounds=20, load=_UNTUNED)
_SLOWEST = 5


@dataclasses.dataclass(frozen=True)
class Demo:
    """The rows of the demonstration."""

    runs: Sequence[RunRow]
    profiles: Sequence[BenchmarkRow]
    tunings: Sequence[TuneRow]

    @property
    def rows(self) -> list[Row]:
        """The rows of all jobs of the demonstration."""
        return [*self.runs, *self.profiles, *self.tunings]

    @property
    def slowest(self) -> Table:
        """The operators that take most of each model's time."""
        rows = [
            [profile.model, op.name, op.type, milliseconds(op.avg_ms), f"{op.percent:.1f}", f"{op.gmacps:.1f}"]
            for profile in self.profiles
            if profile.status == Status.OK
            for op in by_time(profile.ops)[:_SLOWEST]
        ]
        left = frozenset({"Model", "Operator", "Type"})
        return Table("Slowest operators", ("Model", "Operator", "Type", "Avg(ms)", "%", "GMACPS"), rows, left)

    @property
    def artifacts(self) -> list[str]:
        """Paths of the two files of each library."""
        return list(dict.fromkeys(path for row in self.tunings for path in row.artifacts))


def demonstrate(
    deployments: Sequence[Deployment],
    units: Sequence[Unit],
    progress: ProgressView,
    keeper: Recorder,
    budget_s: float | None = None,
    opencl: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Demo:
    """Runs the three jobs on every model, on CPU and GPU, the first two untuned; tunes on a played GPU too.

    Any algorithm may be chosen for each layer, and threads and blocks on the CPU: the lowering's rules leave something
    to gain there, on whatever machine. Each row is kept as it comes. A search takes `budget_s` of wall time, or what is
    usual. `opencl` is the units' OpenCL library or its origin, None for the best; `say` tells of the played GPU.
    """
    deployments = [_with_all_choices(each) for each in deployments]
    kept, fleet = keeper.recorded, FleetOptions(opencl=opencl)
    runs: list[RunRow] = []
    profiles: list[BenchmarkRow] = []
    for deployment in deployments:
        runs += kept(run_job(deployment, units, _RUN, fleet, progress))
        profiles += kept(benchmark_job(deployment, units, _BENCHMARK, fleet, progress))
    search = TuneOptions(SearchOptions("quick", budget_s))
    tunings = list(kept(tune_job(deployments, units, search, fleet, progress)))
    return Demo(runs, profiles, [*tunings, *kept(played_tunings(deployments, progress, search.search.device_s, say))])


def _with_all_choices(source: Deployment) -> Deployment:
    choices = {"winograd": "auto", "runtime": "cpu+gpu"}
    models = {name: model.model_copy(update=choices) for name, model in source.models.items()}
    return source.model_copy(update={"models": models})


def shown_in_words(demo: Demo) -> list[str]:
    """What the demonstration has shown: which outputs are right, how fast that is, and what tuning gained."""
    right = [row for row in demo.runs if row.status == Status.OK and row.latency_ms and row.cosine is not None]
    return [*map(_right_text, right), *outcome_lines(demo.tunings), *played_lines(demo.tunings)]


def _right_text(row: RunRow) -> str:
    median_ms = row.latency_ms.median if row.latency_ms else None
    likeness = f"cosine {row.cosine:.4f} with ONNX Runtime"
    took = f"a round takes {milliseconds(median_ms)} ms"
    return f"{row.model} on {row.unit} ({row.runtime}): the outputs are right ({likeness}), {took}"


def _title(profile: BenchmarkRow) -> str:
    return f"Operators of {profile.model} ({profile.runtime})"


def write_report(demo: Demo, path: Path) -> None:
    """The demonstration as Markdown: validation, profile of each model, tuning with its evidence."""
    run = demo.runs[-1]  # on the GPU
    tuned = "\n".join(
        [*outcome_lines(demo.tunings), *played_lines(demo.tunings), *artifact_lines(demo.tunings), *demo.artifacts]
    )
    machine = f"{run.device_model}, {run.fingerprint.get('gpu', '')}, {run.fingerprint.get('driver', '')}; {run.time}"
    profiles = [
        ReportSection(_title(row), "", [table for table in sections(row) if table.title != "Warm Up"])
        for row in demo.profiles
    ]
    markdown.write(
        path,
        "farm on this machine",
        [
            ReportSection("Validation against ONNX Runtime, untuned", machine, tuple(run_tables(demo.runs))),
            ReportSection("Tuning: default and tuned, measured in turns", tuned, [tune_table(demo.tunings)]),
            *profiles,
        ],
    )


# The tuning of the demonstration on a GPU that is played: what a search gains where defaults are not this machine's.
#
# The defaults for CPUs are measured and leave little; a phone's GPU is what tuning is for. Nothing is computed there,
# and every time is that of a model (docs/emulation.md).
PHONE = "played_phone"
SETTINGS = PhoneSettings(soc="kirin970", gpu="mali-g72:mode=timing,pace=yes")
LEAST_S = 30.0  # of wall time, so that enough processes prove what is found


def played_tunings(
    sources: Sequence[Deployment], progress: ProgressView, budget_s: float, say: Callable[[str], None]
) -> Iterator[TuneRow]:
    """Tunes models on an emulated phone whose GPU is played; says why, and yields nothing, where there can be none."""
    sources = [_on_gpu(each) for each in sources]
    say(f"tuning on a played {SETTINGS.gpu.partition(':')[0]}: its times are a model's, of no phone")
    try:
        with emulated_phone_unit(PHONE, SETTINGS) as unit:
            search = SearchOptions("quick", max(budget_s, LEAST_S), fresh=True, selection=False)
            yield from tune_job(sources, [unit], TuneOptions(search), progress=progress)
    except FarmError as error:
        say(f"no GPU is played here: {error}")


def _on_gpu(source: Deployment) -> Deployment:
    models = {name: model.model_copy(update={"runtime": "gpu"}) for name, model in source.models.items()}
    return source.model_copy(update={"models": models})
