"""`farm compare` of two stored runs: every case that both have, by its blocks. Nothing is measured. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from farm.decision.comparison import CompareRow, ComparisonDecision, ComparisonOutcome, Side, decide, differences
from farm.rows.nightly import NightlyRow
from farm.rows.row import Latency, Status
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, case_of

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
    return CompareRow(
        **{name: getattr(after, name) for name in ("unit", "soc", "device_model", "library", "model", "runtime")},
        **dataclasses.asdict(decision),
        status=after.status if became_bad else Status.OK,
        reason=f"in B: {after.reason}" if became_bad else "",
        fingerprint=after.fingerprint,
        versions=after.versions,
        settings={"setting": after.setting, "a": before.settings, "b": after.settings},
        margin_percent=margin_percent,
        a=sides[0],
        b=sides[1],
        notes=(*differences(*sides), *_notes(before, after)),
        latency_ms=sides[1].latency_ms,
        init_ms=sides[1].init_ms,
        first_ms=sides[1].first_ms,
        memory_bytes=after.memory_bytes,
    )


def _decision(before: NightlyRow, after: NightlyRow, margin_percent: float) -> ComparisonDecision:
    failed = [f"{name} {row.status}: {row.reason}" for name, row in (("A", before), ("B", after)) if not _is_ok(row)]
    if failed:
        return ComparisonDecision(ComparisonOutcome.NONE, f"not compared: {'; '.join(failed)}")
    return decide(_medians_ms(before), _medians_ms(after), margin_percent)


def _is_ok(row: NightlyRow) -> bool:
    return row.status == Status.OK


def _medians_ms(row: NightlyRow) -> list[float]:
    return [statistics.median(block.samples) for block in row.blocks if not block.throttled]


def _side(run: StoredRun, row: NightlyRow) -> Side:
    samples = [sample for block in row.blocks if not block.throttled for sample in block.samples]
    return run.side.model_copy(
        update={
            "model": row.model,
            "versions": row.versions,
            "fingerprint": row.fingerprint,
            "latency_ms": Latency.of(samples) if samples else None,
            "init_ms": row.init_ms,
            "first_ms": row.first_ms,
            "memory_bytes": row.memory_bytes,
        }
    )


def _notes(before: NightlyRow, after: NightlyRow) -> list[str]:
    """What else changed between the two runs."""
    notes = []
    if before.identity != after.identity:
        notes.append("another piece of hardware in B")
    if before.sqnr_db is not None and after.sqnr_db is not None and abs(before.sqnr_db - after.sqnr_db) > NOTED_DB:
        notes.append(f"SQNR {before.sqnr_db:.1f} dB in A, {after.sqnr_db:.1f} dB in B")
    return notes
