"""CONTRIBUTING.md names files: they are there, or the page leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATHS = re.findall(r"`((?:farm|runtime|tuner|tests|benchmarks|docs)/[^` ]*)`", (ROOT / "CONTRIBUTING.md").read_text())


def test_the_page_names_files_that_are_there() -> None:
    assert len(PATHS) > 30
    assert [path for path in PATHS if not list(ROOT.glob(path.rstrip("/")))] == []
