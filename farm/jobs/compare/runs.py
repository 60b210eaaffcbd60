"""`farm compare` of two stored runs: every case that both have, by its blocks. Nothing is measured. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence

from farm.decision.comparison import ComparisonDecision, compare_figures, decide, on_busy_unit
from farm.rows.compare import CompareResult, CompareRow, ComparisonOutcome, Side
from farm.rows.core_waits import highest_share, is_mostly_waiting, mean_share
from farm.rows.latency import Latency
from farm.rows.nightly import NightlyRow
from farm.rows.nightly_block import block_medians
from farm.rows.result import OK, Conditions, make_row
from farm.rows.row import Ending, Identity, Provenance
from farm.rows.run import RunFigures
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, case_of
from farm.rows.status import Status

NOTED_DB = 1.0


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """A run of the store; `name` is what the user called it."""

    name: str
    info: RunInfo
    rows: Sequence[NightlyRow]

    @property
    def side(self) -> Side:
        """What is known of all its cases."""
        return Side(name=self.name, kind="run", run=self.info.id, commit=self.info.commit)

    @property
    def cases(self) -> Mapping[Case, NightlyRow]:
        """The row of each case."""
        return {case_of(row): row for row in self.rows}


def compare_runs(a: StoredRun, b: StoredRun, margin_percent: float) -> list[CompareRow]:
    """A row for each case that both have."""
    return [_row(a, before, b, b.cases[case], margin_percent) for case, before in a.cases.items() if case in b.cases]


def only_in_one(a: StoredRun, b: StoredRun) -> list[str]:
    """Cases that cannot be compared, a line each."""
    pairs = (("A", a.cases, b.cases), ("B", b.cases, a.cases))
    return [f"{case}: only in {name}" for name, own, other in pairs for case in own if case not in other]


def _row(a: StoredRun, before: NightlyRow, b: StoredRun, after: NightlyRow, margin_percent: float) -> CompareRow:
    sides = _side(a, before), _side(b, after)
    decision = _decision(before, after, margin_percent)
    became_bad = before.status == Status.OK != after.status
    result = CompareResult(
        ending=Ending(status=after.status, reason=f"in B: {after.reason}") if became_bad else OK,
        provenance=Provenance(
            fingerprint=after.fingerprint,
            versions=after.versions,
            settings={"setting": after.setting, "a": before.settings, "b": after.settings},
        ),
        figures=RunFigures(
            latency_ms=sides[1].latency_ms,
            init_ms=after.init_ms,
            first_ms=after.first_ms,
            memory_bytes=after.memory_bytes,
        ),
        compared=compare_figures(*sides, decision, margin_percent, _notes(before, after)),
    )
    return make_row(CompareRow, _identity(after), Conditions(), result)


def _identity(row: NightlyRow) -> Identity:
    return Identity(
        unit=row.unit,
        soc=row.soc,
        device_model=row.device_model,
        library=row.library,
        model=row.model,
        runtime=row.runtime,
        engine=row.engine,
    )


def _decision(before: NightlyRow, after: NightlyRow, margin_percent: float) -> ComparisonDecision:
    failed = [f"{name} {row.status}: {row.reason}" for name, row in (("A", before), ("B", after)) if not _is_ok(row)]
    if failed:
        return ComparisonDecision(ComparisonOutcome.NONE, f"not compared: {'; '.join(failed)}")
    decision = decide(block_medians(before.blocks), block_medians(after.blocks), margin_percent)
    waited = highest_share(mean_share(block.waited_share for block in row.blocks) for row in (before, after))
    return on_busy_unit(decision, waited) if waited is not None and is_mostly_waiting(waited) else decision


def _is_ok(row: NightlyRow) -> bool:
    return row.status == Status.OK


def _side(run: StoredRun, row: NightlyRow) -> Side:
    samples = [sample for block in row.blocks if not block.throttled for sample in block.samples]
    return Side(
        name=run.name,
        kind="run",
        run=run.info.id,
        commit=run.info.commit,
        model=row.model,
        versions=row.versions,
        fingerprint=row.fingerprint,
        latency_ms=Latency.of(samples) if samples else None,
        init_ms=row.init_ms,
        first_ms=row.first_ms,
        memory_bytes=row.memory_bytes,
    )


def _notes(before: NightlyRow, after: NightlyRow) -> list[str]:
    """Returns notes on what changed between the two runs beside the figures."""
    notes = []
    if before.identity != after.identity:
        notes.append("another piece of hardware in B")
    if before.sqnr_db is not None and after.sqnr_db is not None and abs(before.sqnr_db - after.sqnr_db) > NOTED_DB:
        notes.append(f"SQNR {before.sqnr_db:.1f} dB in A, {after.sqnr_db:.1f} dB in B")
    return notes
