"""What artifacts hold, as tables."""

from collections.abc import Iterator, Sequence

from farm.artifacts import Artifact, ArtifactSet, entry_count
from farm.kept_choices import ChoiceSet
from farm.tables.table import Table, size
from runtime.plan.artifacts import KernelSet, TunedEntry

CHOICE_COLUMNS = ("Model", "Settings", "Output of", "Runs on", "Predicted(ms)", "Measured(ms)")
ARTIFACT_COLUMNS = ("File", "Kind", "SoC", "Device model", "GPU", "Driver", "Entries", "Size")


def artifact_table(artifacts: Sequence[Artifact]) -> Table:
    """One line a set of each file."""
    rows = [_set_cells(artifact, one_set) for artifact in artifacts for one_set in artifact.sets]
    return Table("", ARTIFACT_COLUMNS, rows, frozenset(ARTIFACT_COLUMNS[:6]))


def _set_cells(artifact: Artifact, one_set: ArtifactSet) -> list[str]:
    fingerprint = one_set.fingerprint
    return [
        *(
            str(artifact.path),
            artifact.kind,
            fingerprint.soc,
            one_set.device_model,
            fingerprint.gpu,
            fingerprint.driver,
        ),
        str(entry_count(one_set)),
        size(artifact.size_bytes),
    ]


def content_tables(artifact: Artifact) -> list[Table]:
    """What a file holds, set by set."""
    return [_content(artifact, one_set) for one_set in artifact.sets]


def _content(artifact: Artifact, one_set: ArtifactSet) -> Table:
    fingerprint = one_set.fingerprint
    title = (
        f"{artifact.kind} for {fingerprint.soc} ({one_set.device_model}): "
        f"{fingerprint.gpu}, driver {fingerprint.driver}, {fingerprint.opencl}; "
        f"family {fingerprint.gpu_family}, kernel sources {fingerprint.source_hash}, "
        f"runtime {fingerprint.runtime_version}"
    )
    if isinstance(one_set, ChoiceSet):
        return Table(title, CHOICE_COLUMNS, list(_choice_cells(one_set)), frozenset(CHOICE_COLUMNS[:4]))
    if isinstance(one_set, KernelSet):
        programs = [[key, size(len(binary))] for key, binary in one_set.binaries.items()]
        return Table(title, ("Program (source|options)", "Size"), programs, frozenset({"Program (source|options)"}))
    columns = ("Launch", "Options", "Global", "Local", "Default(us)", "Tuned(us)", "Gain(%)")
    return Table(title, columns, [_entry_cells(entry) for entry in one_set.entries], frozenset(columns[:2]))


def _choice_cells(one_set: ChoiceSet) -> Iterator[list[str]]:
    """A line for each operator; settings and times stand with the first of a model."""
    for kept in one_set.choices:
        precision = f"{kept.chosen_precision} of {kept.precision}" if kept.chosen_precision else kept.precision
        settings = f"{precision}, {'GPU and CPU' if kept.allow_cpu else 'GPU'}, winograd {kept.winograd}"
        head = (kept.model, settings, f"{kept.predicted_ms:.3g}", f"{kept.measured_ms:.3g}")
        for index, (output, chosen) in enumerate(kept.graph_choice.nodes.items()):
            model, of, predicted, measured = ("",) * 4 if index else head
            yield [model, of, output, str(chosen), predicted, measured]


def _entry_cells(entry: TunedEntry) -> list[str]:
    local = "x".join(map(str, entry.local_size[: entry.work_dim])) if entry.local_size[0] else "driver"
    gain = f"{100 * (1 - entry.tuned_ns / entry.default_ns):.1f}" if entry.default_ns else "-"
    return [
        entry.key,
        entry.options,
        "x".join(map(str, entry.global_size[: entry.work_dim])),
        local,
        f"{entry.default_ns / 1e3:.1f}" if entry.default_ns else "-",
        f"{entry.tuned_ns / 1e3:.1f}",
        gain,
    ]
