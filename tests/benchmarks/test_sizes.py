"""The table of sizes: its rows are those of the page, and equal features are built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import sizes
from benchmarks.sizes import Choice
from farm.jobs.build import BuildOptions, Built
from runtime.native.features import EVERYTHING, Features

ROWS = [
    Choice("all of it", EVERYTHING),
    Choice("`--only-operators` one, `runtime: cpu+gpu`", Features(operators=frozenset({"pool", "copy"}))),
    Choice("`--only-operators` two, `runtime: cpu+gpu`", Features(operators=frozenset({"copy", "pool"}))),
]


def test_table(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Features]] = []

    def build(abi: str, options: BuildOptions) -> Built:
        asked.append((abi, options.features))
        size = 1000 if options.features.operators is None else 600
        return Built(abi, "", size, f"cc for {abi}", 0.0, "", "", "", size // 2, (), None)

    monkeypatch.setattr(sizes, "build", build)
    lines = list(sizes.page(ROWS, ["host", "arm64"], sizes.measured(ROWS, ["host", "arm64"])))
    assert len(asked) == 4
    assert "| all of it | 1,000 | 1,000 |" in lines and "| all of it | 500 | 500 |" in lines
    assert "| `--only-operators` two, `runtime: cpu+gpu` | 600 | 600 |" in lines
    assert "(host: cc for host; arm64: cc for arm64)" in lines[0]


def test_the_page_has_its_place_and_a_row_for_each_network() -> None:
    text = Path(sizes.PAGE).read_text()
    table = text.partition(sizes.BEGIN)[2].partition(sizes.END)[0]
    for network in sizes.NETWORKS:
        assert all(f"| `--only-operators` {network}, `runtime: {runtime}` | " in table for runtime in sizes.RUNTIMES)
