"""What a host offers of its units, as they come and go."""

from __future__ import annotations

import dataclasses

import pytest

from farm.cluster.worker import UnitWatch, offer_of
from farm.config.inventory import HOST, Unit
from farm.units import survey
from farm.units.survey import UnitEntry, UnitReport, UnitState

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
