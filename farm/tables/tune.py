"""The rows of `farm tune` as a table, and what artifacts hold."""

from __future__ import annotations

from collections.abc import Sequence

from farm.artifacts import Artifact
from farm.rows.tune import TuneOutcome, TuneRow, TuningAgreement
from farm.tables.table import Table, milliseconds, size
from runtime.artifacts import KernelSet, TunedEntry, TunedSet

TUNE_COLUMNS = (
    *("Model", "Unit", "SoC", "Runtime", "Status", "Default(ms)", "Tuned(ms)", "Gain(%)", "95 % interval"),
    *("Outcome", "Tuned launches", "Trials", "Device(s)", "Init(ms)"),
)
TUNE_LEFT = frozenset({"Model", "Unit", "SoC", "Runtime", "Status", "Outcome"})


def tune_table(rows: Sequence[TuneRow]) -> Table:
    """One line a row."""
    return Table("", TUNE_COLUMNS, [_tune_cells(row) for row in rows], TUNE_LEFT)


def _tune_cells(row: TuneRow) -> list[str]:
    inits = f"{milliseconds(row.default_init_ms)} -> {milliseconds(row.init_ms)}"
    return [
        *(row.model, row.unit, row.soc, row.runtime, row.status.value),
        milliseconds(row.default_ms),
        milliseconds(row.tuned_ms),
        *_gain_cells(row),
        row.outcome or "-",
        f"{row.launches_tuned} of {row.launches}",
        str(row.trials),
        f"{row.device_s:.1f}",
        inits if row.init_ms is not None else "-",
    ]


def _gain_cells(row: TuneRow) -> tuple[str, str]:
    """The gain and its interval; where every launch kept its default, there is none."""
    if row.gain_percent is None:
        return "-", "-"
    return f"{row.gain_percent:.1f}", f"{row.gain_ci[0]:.1f} to {row.gain_ci[1]:.1f}" if row.gain_ci else "-"


def outcome_lines(rows: Sequence[TuneRow]) -> list[str]:
    """Why new parameters were not published, for each row of which that can be said."""
    kept = (row for row in rows if row.outcome == TuneOutcome.KEPT)
    return [f"{row.model} on {row.unit}: what was in force is kept: {row.outcome_reason}" for row in kept]


AGREE_PERCENT = 2.0  # two tunings agree where their times differ by no more


def agreement_lines(rows: Sequence[TuneRow]) -> list[str]:
    """How far further tunings from scratch agree with the first, a line each."""
    return [
        f"{row.model} on {row.unit}: tuning {number} {_agreement_text(agreement)}"
        for row in rows
        for number, agreement in enumerate(row.agreements, 2)
    ]


def _agreement_text(agreement: TuningAgreement) -> str:
    winners = f"chose the same for {agreement.same_winners} of {agreement.launches} launches"
    if agreement.time_ratio is None:
        return f"{winners}; the times could not be compared"
    percent = 100.0 * (agreement.time_ratio - 1.0)
    low, high = ((100.0 * (bound - 1.0)) for bound in agreement.time_ratio_ci or (1.0, 1.0))
    within = f"{'within' if abs(percent) <= AGREE_PERCENT else 'NOT within'} {AGREE_PERCENT:g} %"
    interval = f" ({low:+.1f} to {high:+.1f})" if agreement.time_ratio_ci else ""
    heat = f"; heat spoiled the comparison: {agreement.throttled}" if agreement.throttled else ""
    return f"{winners}; its table takes {percent:+.1f} %{interval} of the time more: {within}{heat}"


ARTIFACT_COLUMNS = ("File", "Kind", "SoC", "Device model", "GPU", "Driver", "Entries", "Size")


def artifact_table(artifacts: Sequence[Artifact]) -> Table:
    """One line a set of each file."""
    rows = [_set_cells(artifact, one_set) for artifact in artifacts for one_set in artifact.sets]
    return Table("", ARTIFACT_COLUMNS, rows, frozenset(ARTIFACT_COLUMNS[:6]))


def _set_cells(artifact: Artifact, one_set: TunedSet | KernelSet) -> list[str]:
    fingerprint = one_set.fingerprint
    entries = len(one_set.entries) if isinstance(one_set, TunedSet) else len(one_set.binaries)
    return [
        *(
            str(artifact.path),
            artifact.kind,
            fingerprint.soc,
            one_set.device_model,
            fingerprint.gpu,
            fingerprint.driver,
        ),
        str(entries),
        size(artifact.size_bytes),
    ]


def content_tables(artifact: Artifact) -> list[Table]:
    """What a file holds, set by set."""
    return [_content(artifact, one_set) for one_set in artifact.sets]


def _content(artifact: Artifact, one_set: TunedSet | KernelSet) -> Table:
    fingerprint = one_set.fingerprint
    title = (
        f"{artifact.kind} for {fingerprint.soc} ({one_set.device_model}): "
        f"{fingerprint.gpu}, driver {fingerprint.driver}, {fingerprint.opencl}; "
        f"family {fingerprint.gpu_family}, kernel sources {fingerprint.source_hash}, "
        f"runtime {fingerprint.runtime_version}"
    )
    if isinstance(one_set, KernelSet):
        programs = [[key, size(len(binary))] for key, binary in one_set.binaries.items()]
        return Table(title, ("Program (source|options)", "Size"), programs, frozenset({"Program (source|options)"}))
    columns = ("Launch", "Options", "Global", "Local", "Default(us)", "Tuned(us)", "Gain(%)")
    return Table(title, columns, [_entry_cells(entry) for entry in one_set.entries], frozenset(columns[:2]))


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
