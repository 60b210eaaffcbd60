"""What a comparison in turns found, as the parts of its row."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from farm.decision.comparison import ComparisonDecision, turns_that_count
from farm.jobs.validate import Validation
from farm.rows.compare import ComparisonOutcome, Side
from farm.rows.latency import Latency
from farm.rows.nightly import Block
from farm.rows.result import OK
from farm.rows.row import Ending, Provenance
from farm.rows.status import Status


def ending_of(decision: ComparisonDecision, blocks: Sequence[Block]) -> Ending:
    """How a comparison ends whose outputs agree: badly where nothing could be decided."""
    if decision.outcome != ComparisonOutcome.NONE:
        return OK
    throttled = throttled_text(blocks)
    return Ending(status=Status.FAILED, reason=f"{decision.verdict}{throttled and f' ({throttled})'}")


def throttled_text(blocks: Sequence[Block]) -> str:
    """What slowed the unit down in some blocks."""
    return "; ".join(dict.fromkeys(block.throttled for block in blocks if block.throttled))


def agreement(validation: Validation, must_agree: bool) -> Validation:
    """B's outputs compared with A's: builds and engines must agree, two versions of a model need not."""
    if validation.is_ok or not must_agree:
        return Validation(OK, validation.comparison)
    reason = f"B's outputs depart from A's: {validation.ending.reason}"
    return Validation(Ending(status=validation.ending.status, reason=reason), validation.comparison)


def side_of(
    side: Side, arm: str, blocks: Sequence[Block], model: str, made_with: Provenance, memory: Mapping[str, int]
) -> Side:
    """The figures of one side after all turns; `memory` in bytes."""
    good = [block for turn in turns_that_count(blocks) for block in turn if block.arm == arm]
    return side.model_copy(
        update={
            "model": model,
            "versions": made_with.versions,
            "fingerprint": made_with.fingerprint,
            "latency_ms": Latency.of([sample for block in good for sample in block.samples]) if good else None,
            "init_ms": _median(block.init_ms for block in good),
            "first_ms": _median(block.first_ms for block in good),
            "memory_bytes": dict(memory),
        }
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
