"""A worker's minutely look at places in labgrid."""

from __future__ import annotations

import dataclasses

import pytest

from farm.cluster.place_sweep import PlaceSweep
from farm.config.inventory import HOST, Unit
from farm.lease import labgrid_place
from farm.units import lookup
from farm.units.survey import UnitEntry, UnitState
from runtime.errors import JobError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three units, one of them out of reach; whose places are looked at."""
    names: list[str] = []
    units = [dataclasses.replace(HOST, name=name) for name in ("one", "two", "three")]
    entries = [UnitEntry(unit, state=UnitState.OFFLINE if unit.name == "two" else UnitState.READY) for unit in units]

    def end_expired(unit: Unit) -> bool:
        names.append(unit.name)
        return True

    monkeypatch.setattr(lookup, "present", lambda: entries)
    monkeypatch.setattr(labgrid_place, "end_expired", end_expired)
    return names


def test_places_of_all_units_are_looked_at_in_the_first_pass(asked: list[str]) -> None:
    said: list[str] = []
    PlaceSweep(said.append).run()
    assert asked == ["one", "two", "three"] and not said


def test_what_goes_wrong_is_told_once_and_keeps_no_other_place(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, said = labgrid_place.end_expired, list[str]()

    def fails(unit: Unit) -> bool:
        if unit.name == "one":
            raise OSError(11, "Resource temporarily unavailable")
        return ends(unit)

    sweep = PlaceSweep(said.append)
    with monkeypatch.context() as broken:
        broken.setattr(labgrid_place, "end_expired", fails)
        for _ in range(2):
            sweep.run()
    assert asked == ["two", "three"] * 2
    assert said == ["one: labgrid's client: Resource temporarily unavailable"]
    sweep.run()

    def no_inventory() -> list[UnitEntry]:
        raise JobError("devices.yml: damaged")

    monkeypatch.setattr(lookup, "present", no_inventory)
    sweep.run()
    assert said[1:] == ["places in labgrid: devices.yml: damaged"]
