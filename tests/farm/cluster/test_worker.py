"""What a host offers of its units, as they come and go."""

import dataclasses

import pytest

from farm.cluster.worker import PlaceSweep, UnitWatch, offer_of
from farm.config.inventory import HOST, Unit
from farm.lease import labgrid_place
from farm.units import lookup, survey
from farm.units.survey import UnitEntry, UnitReport, UnitState
from runtime.errors import JobError

PHONE = Unit("mi8", "adb", "sdm845", "MI 8", ("arm64-v8a",), tags=("rack2", "quiet"), serial="1234")


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> dict[str, UnitState]:
    """What units answer; each question is one `asked` more."""
    answers = {"mi8": UnitState.READY}

    def identify(entry: UnitEntry, _: object) -> UnitReport:
        answers[f"asked {len(answers)}"] = UnitState.READY
        return UnitReport(entry.unit, answers[entry.unit.name])

    monkeypatch.setattr(survey, "identify", identify)
    return answers


def asked(states: dict[str, UnitState]) -> int:
    return sum(name.startswith("asked") for name in states)


def test_a_unit_is_offered_by_name_soc_and_tags() -> None:
    offer = offer_of(PHONE, "lab")
    assert (offer.name, offer.local_name) == ("mi8", "mi8")
    assert offer.resources == {"unit:mi8": 1, "at:lab": 1, "soc:sdm845": 1, "tag:rack2": 1, "tag:quiet": 1}


def test_the_hosts_own_unit_is_called_as_the_host() -> None:
    assert (offer_of(HOST, "lab").name, offer_of(HOST, "lab").local_name) == ("lab", "host")


def test_a_unit_is_asked_once_while_it_is_there(states: dict[str, UnitState]) -> None:
    watch, entry = UnitWatch(), UnitEntry(PHONE)
    assert watch.usable([entry], 0) == [PHONE] and watch.usable([entry], 1000) == [PHONE]
    assert asked(states) == 1
    assert watch.usable([], 1001) == []
    assert watch.usable([entry], 1002) == [PHONE] and asked(states) == 2


def test_a_unit_that_does_not_answer_is_asked_again_later(states: dict[str, UnitState]) -> None:
    watch, entry = UnitWatch(ask_again_s=30), UnitEntry(PHONE)
    states["mi8"] = UnitState.UNREACHABLE
    assert watch.usable([entry], 0) == [] and watch.usable([entry], 10) == [] and asked(states) == 1
    states["mi8"] = UnitState.BUSY
    assert watch.usable([entry], 40) == [PHONE]


def test_a_unit_that_is_known_not_to_be_ready_is_not_asked(states: dict[str, UnitState]) -> None:
    away = dataclasses.replace(UnitEntry(PHONE), state=UnitState.OFFLINE)
    assert UnitWatch().usable([away], 0) == [] and asked(states) == 0


@pytest.fixture
def asked_places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
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


def test_places_of_all_units_are_looked_at_in_the_first_pass(asked_places: list[str]) -> None:
    said: list[str] = []
    PlaceSweep(said.append).run()
    assert asked_places == ["one", "two", "three"] and not said


def test_what_goes_wrong_is_told_once_and_keeps_no_other_place(
    asked_places: list[str], monkeypatch: pytest.MonkeyPatch
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
    assert asked_places == ["two", "three"] * 2
    assert said == ["one: labgrid's client: Resource temporarily unavailable"]
    sweep.run()

    def no_inventory() -> list[UnitEntry]:
        raise JobError("devices.yml: damaged")

    monkeypatch.setattr(lookup, "present", no_inventory)
    sweep.run()
    assert said[1:] == ["places in labgrid: devices.yml: damaged"]
