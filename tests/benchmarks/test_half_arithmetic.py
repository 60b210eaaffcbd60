"""Runs of another length reach every kernel that adds products, and no other."""

from __future__ import annotations

import pytest

from benchmarks.half_arithmetic import has_runs, with_runs
from runtime.lowering.lower import lower
from runtime.target import Target
from runtime.types import Precision
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import residual_block


@pytest.mark.parametrize("run", [0, 8])
def test_runs_are_an_option_of_what_adds_products(run: int) -> None:
    target = Target("host", "host", gpu_family="cpu", precision=Precision.FP16, fp16=True)
    plan = lower(residual_block(GraphMaker()), target)
    steps = with_runs(plan, run).steps
    adding = [step for step in steps if has_runs(step.kernel)]
    assert adding and len(adding) < len(steps)
    assert [step.defines.get("RUN", 0) for step in steps] == [run if step in adding else 0 for step in steps]
