"""What is known of hosts and their units, look by look."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from farm.cluster import hosts
from farm.cluster.address import parse_cluster_address
from farm.cluster.hosts import HostLook
from farm.cluster.unit_tasks import SeenUnit
from farm.serve.cluster_source import FORGOTTEN_S, GONE, ClusterSource, known_after, merged
from farm.units.health import HealthHistory, JobOutcome
from farm.units.survey import UnitState
from runtime.errors import JobError
from tests.farm.serve.rack import unit_report

ADDRESS = parse_cluster_address("tcp://127.0.0.1:8786")
HISTORY = HealthHistory(outcomes=(JobOutcome(time=1.0, ok=False, reason="timeout"),))


def seen(number: int, state: UnitState = UnitState.READY) -> SeenUnit:
    return SeenUnit(dataclasses.replace(unit_report(number), state=state, reason=""), HISTORY)


def test_a_silent_host_keeps_its_units_out_of_reach_for_a_day() -> None:
    known = known_after({}, [HostLook("beta", (seen(1),)), HostLook("alpha", (seen(0),))], 100.0)
    assert list(merged(known)) == ["phone-000", "phone-001"]
    silent = known_after(known, [HostLook("alpha", (seen(0),)), HostLook("beta", error="is slow")], 200.0)
    host, unit = merged(silent)["phone-001"]
    assert (host, unit.report.state, unit.report.reason) == ("beta", UnitState.UNREACHABLE, "host beta: is slow")
    gone = known_after(silent, [HostLook("alpha", (seen(0),))], 300.0)
    assert gone["beta"].error == GONE and "phone-001" in merged(gone)
    back = known_after(gone, [HostLook("beta", (seen(1),))], 400.0)
    assert merged(back)["phone-001"][1].report.state == UnitState.READY and back["alpha"].error == GONE
    assert list(known_after(gone, [HostLook("alpha", (seen(0),))], 101.0 + FORGOTTEN_S)) == ["alpha"]


def test_a_host_that_never_answered_is_named() -> None:
    known = known_after({}, [HostLook("beta", error="is slow")], 100.0)
    assert known["beta"].error == "is slow" and merged(known) == {}


@pytest.mark.parametrize("first", ["alpha", "beta"])
def test_a_unit_that_two_hosts_list_is_where_it_is_there(first: str) -> None:
    states = {"alpha": UnitState.NOT_CONNECTED, "beta": UnitState.NOT_CONNECTED, first: UnitState.BUSY}
    known = known_after({}, [HostLook(host, (seen(1, state),)) for host, state in states.items()], 1.0)
    assert merged(known)["phone-001"][0] == first


class MadeUpHosts:
    """Stands for a connection; `fault` is raised when it is asked."""

    def __init__(self, looks: Sequence[HostLook]) -> None:
        self.looks, self.fault, self.is_open = looks, "", True
        self.asked: list[tuple[object, ...]] = []

    def look(self) -> Sequence[HostLook]:
        if self.fault:
            self.is_open = False
            raise OSError(self.fault)
        return self.looks

    def reserve(self, *asked: object) -> str:
        self.asked.append(asked)
        return "done"

    def close(self) -> None:
        self.is_open = False


def test_the_scheduler_goes_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MadeUpHosts] = []

    def connect(*_: object) -> MadeUpHosts:
        if made and made[-1].fault == "still away":
            made[-1].fault = "away"
            raise JobError("no scheduler answers there")
        made.append(MadeUpHosts([HostLook("alpha", (seen(0),))]))
        return made[-1]

    monkeypatch.setattr(hosts, "join", connect)
    source = ClusterSource(ADDRESS)
    look = source.look()
    assert (look.hosts, look.host_of) == ({"alpha": ""}, {"phone-000": "alpha"})
    assert source.health(look.reports[0].unit) == HISTORY
    made[0].fault = "still away"
    for _ in range(2):
        with pytest.raises(JobError, match="no scheduler answers there"):
            source.look()
    assert source.look() == look and len(made) == 2
    assert source.reserve("phone-000", 60.0, "why", "alice", False) == "done"
    assert made[1].asked == [("phone-000", 60.0, "why", "alice", False, "alpha")]


def test_nothing_is_asked_of_a_host_that_is_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = MadeUpHosts([HostLook("alpha", (seen(0),))])
    monkeypatch.setattr(hosts, "join", lambda *_: found)
    source = ClusterSource(ADDRESS)
    source.look()
    found.looks = [HostLook("alpha", error="did not answer within 45 s")]
    source.look()
    with pytest.raises(JobError, match="phone-000: its host alpha did not answer"):
        source.reserve("phone-000", 60.0, "why", "alice", False)
    assert found.asked == []
