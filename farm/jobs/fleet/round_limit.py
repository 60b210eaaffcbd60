"""How long a unit may show no progress in a round of a model before it counts as hanging, by the plan's largest step.

farmrt tells of progress step by step in the first round, and knows from it how long later ones may take.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.workspace import data_file
from runtime.errors import DeadlineError, FormatError
from runtime.plan import records
from runtime.plan.container import read_file
from runtime.plan.records import SectionId

OPTION = "--round-limit"
KEY = "round_limit"
LEAST_S = 120.0
# Assumed of very slow boards.
MACS_PER_S = 20e6
BYTES_PER_S = 20e6


def round_limit_s(plan_file: Path) -> float:
    """Seconds that the largest step of a plan may take on a very slow unit; LEAST_S at least.

    The plan of another build, whose format this one may not know, gets LEAST_S.
    """
    try:
        macs, size_bytes = _work(plan_file)
    except FormatError:
        return LEAST_S
    return max(LEAST_S, macs / MACS_PER_S + size_bytes / BYTES_PER_S)


def _work(plan_file: Path) -> tuple[int, int]:
    """Multiply-accumulates of the largest step, and bytes of all weights and activations."""
    sections = read_file(plan_file, records.PLAN_MAGIC)
    weights = data_file(plan_file)
    size_bytes = int(sections[SectionId.POOL]["size"].sum()) + (weights.stat().st_size if weights.is_file() else 0)
    return int(sections[SectionId.STEP]["macs"].max(initial=0)), size_bytes


@contextmanager
def named(limit_s: float) -> Iterator[None]:
    """Lets a DeadlineError say which limit was exceeded, and what sets another one."""
    try:
        yield
    except DeadlineError as error:
        text = (
            f"a round may go {limit_s:g} s without progress here; {OPTION} SECONDS or the key {KEY} sets another limit"
        )
        raise DeadlineError(f"{error}; {text}") from None


def rounds_deadline_s(rounds: int, round_ms: float) -> float:
    """A generous deadline for rounds of a known duration."""
    return 60.0 + math.ceil(rounds * round_ms / 1000 * 5)
