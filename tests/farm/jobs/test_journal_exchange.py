"""Hosts that carry their journals to each other by messages, some of which are lost."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.jobs.tune import journal_exchange
from farm.jobs.tune.journal_exchange import JournalExchange
from runtime.kernels.spec import variant
from tuner.journal import HEADER_LINE, Journal
from tuner.shared_journal import SharedJournal
from tuner.trial import Candidate, Trial, TrialStatus

SIZES = tuple(Candidate(variant(BLOCK=4), (size, 1, 1)) for size in range(1, 9))
OK = Trial(TrialStatus.OK, (100.0,), 0.2)


class Lab:
    """Hosts by name, and what they say to each other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.hosts: dict[str, JournalExchange] = {}

    def start(self, name: str) -> None:
        """A host begins, or begins again."""
        self.hosts[name] = JournalExchange(self._folder / name, name)

    def journal(self, host: str) -> Journal:
        shared = SharedJournal(self._folder / host, "sim", HEADER_LINE)
        shared.poll_s = 0.0
        return Journal(None, "f", shared=shared)

    def carry(self, arrives: Callable[[Any], bool] = lambda message: True) -> None:
        """Has all hosts look, and all that they say heard by all."""
        for host in self.hosts.values():
            host.announce()
            host.look()
        while messages := [host.outgoing.pop(0) for host in self.hosts.values() if host.outgoing]:
            for message in filter(arrives, messages):
                for host in self.hosts.values():
                    host.hear(message)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Two hosts."""
    made = Lab(tmp_path)
    for name in ("alpha", "beta"):
        made.start(name)
    return made


def add(lab: Lab, host: str, *candidates: Candidate) -> None:
    with lab.journal(host) as journal:
        for each in candidates:
            journal.add("conv", "key", each, OK)


def known(lab: Lab, host: str) -> list[Candidate]:
    with lab.journal(host) as journal:
        return [each for each in SIZES if journal.find("conv", "key", each)]


def test_trials_cross_both_ways_while_tuners_are_at_work(lab: Lab) -> None:
    with lab.journal("alpha") as alpha, lab.journal("beta") as beta:
        alpha.add("conv", "key", SIZES[0], OK)
        beta.add("conv", "key", SIZES[1], OK)
        lab.carry()
        assert alpha.find("conv", "key", SIZES[1]) == OK and beta.find("conv", "key", SIZES[0]) == OK


def test_a_host_that_is_new_gets_what_was_before(lab: Lab) -> None:
    add(lab, "alpha", *SIZES[:3])
    lab.carry()
    lab.start("gamma")
    for _ in range(3):
        lab.carry()
    assert known(lab, "gamma") == known(lab, "beta") == list(SIZES[:3])


def test_what_was_lost_on_the_way_comes_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_exchange, "PART_BYTES", 200)
    add(lab, "alpha", *SIZES[:2])
    lab.carry(lambda message: False)
    add(lab, "alpha", *SIZES[2:4])
    numbers = itertools.count()
    lab.carry(lambda message: next(numbers) > 1)
    for _ in range(3):
        lab.carry()
    assert known(lab, "beta") == list(SIZES[:4])


def test_a_worker_that_starts_again_says_nothing_twice(lab: Lab) -> None:
    add(lab, "alpha", *SIZES[:2])
    lab.carry()
    lab.start("alpha")
    lab.hosts["alpha"].announce()
    lab.hosts["alpha"].look()
    assert [message["lines"] for message in lab.hosts["alpha"].outgoing] == [""]
    add(lab, "alpha", SIZES[2])
    lab.carry()
    assert known(lab, "beta") == list(SIZES[:3])


@pytest.mark.parametrize("name", ["../evil.jsonl", "evil.txt", "a\n.jsonl", ""])
def test_a_message_that_makes_no_sense_is_passed_over(lab: Lab, tmp_path: Path, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    lab.hosts["beta"].hear({"journal": name, "host": "alpha", "offset": 0, "lines": "x\n"})
    lab.hosts["beta"].hear({"journal": "sim.x.jsonl", "host": "alpha", "offset": "far", "lines": "x\n"})
    lab.hosts["beta"].hear({"journal": "sim.x.jsonl", "wanted_of": "beta", "offset": -1})
    lab.hosts["beta"].look()
    assert sorted(tmp_path.rglob("*")) == before
