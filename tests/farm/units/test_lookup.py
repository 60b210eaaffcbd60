"""The units that a deployment file is for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from farm.config import deployment
from farm.config.inventory import Unit
from farm.units import lookup
from farm.units.selection import SelectableUnit, Selection
from tests.farm.model.tiny_model import deployment_text


def phone(name: str, state: str = "ready") -> SelectableUnit:
    return SelectableUnit(Unit(name, "adb", "sdm845", name, ("arm64-v8a",), serial=name), state)


@pytest.mark.parametrize(("socs", "chosen"), [("all", "abc"), ("sdm845", "abc"), ("random", "c")])
def test_all_and_random_mean_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socs: str, chosen: str
) -> None:
    """Of `random` one unit is left to chance, of those that are ready; a unit that the user names goes before it."""
    drawn: list[Any] = []
    monkeypatch.setattr(random, "choice", lambda units: drawn.extend(units) or units[-1])
    path = tmp_path / "net.yml"
    path.write_text(deployment_text().replace("target_abis: [host]", f"target_abis: [arm64-v8a]\ntarget_socs: {socs}"))
    source = deployment.load(path)
    there = [phone("a"), phone("b", "busy"), phone("c")]
    assert "".join(unit.name for unit in lookup.units_among(there, source)) == chosen
    assert [candidate.unit.name for candidate in drawn] == (["a", "c"] if socs == "random" else [])
    assert [unit.name for unit in lookup.units_among(there, source, Selection(devices=("b",)))] == ["b"]
