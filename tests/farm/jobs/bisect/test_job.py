"""A bisection of thirty commits with simulated times, and one of a few with real ones."""

import dataclasses
import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.config import inventory
from farm.config.inventory import Unit
from farm.decision.bisection import Finding
from farm.decision.operator_changes import Times
from farm.jobs.bisect import job, state
from farm.jobs.bisect.commits import ModelCommits, commits_between
from farm.jobs.bisect.job import BisectOptions, Bisector, BisectStep
from farm.jobs.compare import duet
from farm.jobs.compare.builds import CompareOptions
from farm.jobs.compare.contender import Contender
from farm.jobs.fleet.unit import OpenUnit
from farm.rows.compare import CompareRow
from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block
from farm.rows.status import Status
from runtime.errors import ConfigError, DeviceLostError, FormatError, JobError
from tests.farm.jobs.bisect.repositories import model_repository

SLOW_FROM, COMMITS = 17, 31
OPTIONS = BisectOptions("tiny", "cpu", turns=6, most_turns=24)


@dataclasses.dataclass
class Simulated:
    """Stands for `compare_job`: times of commits are drawn from what `level` says of their number."""

    numbers: dict[str, int]
    level: Callable[[int], float]
    noise: float = 0.01
    reasons: dict[int, tuple[Status, str]] = dataclasses.field(default_factory=dict)
    busy: Collection[int] = ()
    drawn: random.Random = dataclasses.field(default_factory=lambda: random.Random(1))
    measured: list[int] = dataclasses.field(default_factory=list)

    def __call__(
        self, both: tuple[Contender, Contender], units: Sequence[Unit], options: CompareOptions, *_: Any
    ) -> Iterator[CompareRow]:
        a, b = (self.numbers[contender.side.commit] for contender in both)
        self.measured.append(b)
        common: dict[str, Any] = {
            "unit": units[0].name,
            "soc": "host",
            "device_model": "host",
            "model": "tiny",
            "runtime": "cpu",
        }
        common["library"] = "l"
        status, reason = self.reasons.get(b, (Status.OK, ""))
        if status != Status.OK:
            yield CompareRow(**common, status=status, reason=reason)
            return
        arms = (("a", a), ("b", b))
        blocks = [self._block(arm, each, b in self.busy) for _ in range(options.turns) for arm, each in arms]
        yield CompareRow(**common, status=status, blocks=tuple(blocks), ratio=1.0)

    def _block(self, arm: str, number: int, is_busy: bool) -> Block:
        """A process's own luck makes all of its rounds slower or faster; a busy unit makes all commits look alike."""
        level = 10.0 * (3.0 if is_busy else self.level(number)) * math.exp(self.drawn.gauss(0, self.noise))
        state = DeviceState()
        times: dict[str, Any] = {"init_ms": 1.0, "first_ms": level, "samples": (level,) * 4}
        times |= {"state_before": state, "state_after": state, "waited_share": 0.8 if is_busy else None}
        return Block(time="2026-01-01T00:00:00+00:00", arm=arm, **times)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_repository(tmp_path_factory.mktemp("bisect") / "models", COMMITS, SLOW_FROM)


@pytest.fixture
def hashes(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return commits_between(root, f"HEAD~{COMMITS - 1}", "main")


@pytest.fixture
def simulated(hashes: list[str], monkeypatch: pytest.MonkeyPatch) -> Simulated:
    made = Simulated({commit: number for number, commit in enumerate(hashes)}, lambda at: 1 + 0.1 * (at >= SLOW_FROM))
    monkeypatch.setattr(job, "compare_job", made)
    return made


def bisector(root: Path, hashes: Sequence[str], options: BisectOptions = OPTIONS) -> Bisector:
    return Bisector(ModelCommits(root, Path("tiny.yml")), hashes, inventory.HOST, options)


@pytest.mark.slow
def test_a_planted_slowdown_among_thirty_commits_is_found(root: Path, hashes: list[str], simulated: Simulated) -> None:
    made = bisector(root, hashes)
    steps = list(made.steps())
    assert made.result and made.result.suspects == [hashes[SLOW_FROM]] and made.result.skipped == []
    assert made.result.whole.low < 1.1 < made.result.whole.high
    assert len(steps) <= 2 + 2 * math.ceil(math.log2(COMMITS)) and steps[0].commit == hashes[-1]
    assert simulated.measured[-1] == SLOW_FROM, "it ends with the duet of the commit and the one before it"


@pytest.mark.slow
def test_the_slowdown_is_found_in_most_searches_however_noisy(
    root: Path, hashes: list[str], simulated: Simulated
) -> None:
    found = 0
    for seed in range(20):
        simulated.drawn, simulated.noise = random.Random(seed), 0.03
        made = bisector(root, hashes)
        made.forget()
        list(made.steps())
        assert made.result
        found += hashes[SLOW_FROM] in made.result.suspects
    assert found >= 19


def test_no_change_between_the_ends_is_said(root: Path, hashes: list[str], simulated: Simulated) -> None:
    simulated.level = lambda at: 1.0
    made = bisector(root, hashes)
    steps = list(made.steps())
    assert made.result and not made.result.suspects and {step.commit for step in steps} == {hashes[-1]}
    assert len(simulated.measured) == OPTIONS.most_turns // OPTIONS.turns, "measured as long as is allowed"


def test_commits_that_cannot_be_made_are_passed_over(root: Path, hashes: list[str], simulated: Simulated) -> None:
    broken = (Status.BUILD_FAILED, "B: does not compile")
    simulated.reasons = dict.fromkeys((15, 16, 18), broken)
    made = bisector(root, hashes)
    steps = list(made.steps())
    assert made.result and made.result.suspects == hashes[15 : SLOW_FROM + 1]
    assert set(made.result.skipped) <= {hashes[number] for number in (15, 16, 18)}
    assert any(step.problem == "build_failed: does not compile" and step.found == Finding.SKIPPED for step in steps)


@pytest.mark.parametrize(("at", "reason", "message"), [(30, "B: no luck", "BAD"), (30, "A: no luck", "GOOD")])
def test_an_end_that_cannot_be_measured_is_the_users(
    root: Path, hashes: list[str], simulated: Simulated, at: int, reason: str, message: str
) -> None:
    simulated.reasons = {at: (Status.BUILD_FAILED, reason)}
    with pytest.raises(ConfigError, match=f"{message} .* cannot be measured: .*no luck"):
        list(bisector(root, hashes).steps())


@pytest.mark.slow
def test_a_lost_unit_ends_it_and_the_same_call_goes_on(root: Path, hashes: list[str], simulated: Simulated) -> None:
    simulated.reasons = {15: (Status.DEVICE_LOST, "the unit went away")}
    with pytest.raises(DeviceLostError, match="goes on from here"):
        list(bisector(root, hashes).steps())
    before = list(simulated.measured)
    simulated.reasons, simulated.measured = {}, []
    made = bisector(root, hashes)
    list(made.steps())
    assert made.result and made.result.suspects == [hashes[SLOW_FROM]]
    assert 30 in before and 30 not in simulated.measured, "what was measured is not measured again"


def test_a_commit_on_a_busy_unit_is_passed_over_and_measured_by_the_next_call(
    root: Path, hashes: list[str], simulated: Simulated
) -> None:
    """If they counted, both would be like GOOD, and the search would go on behind them, away from the slowdown."""
    simulated.busy = (15, 22)
    made = bisector(root, hashes)
    steps = list(made.steps())
    assert made.result and made.result.suspects == [hashes[SLOW_FROM]]
    assert made.result.skipped == [hashes[15], hashes[22]]
    problems = {step.problem for step in steps if step.found == Finding.SKIPPED}
    busy = "the unit was busy with other work: rounds waited 80 % of their time for a core"
    assert problems == {f"all turns but 0 were spoiled: {busy}; the same command measures it again"}
    simulated.busy, simulated.measured = (), []
    again = bisector(root, hashes)
    list(again.steps())
    assert again.result and again.result.suspects == [hashes[SLOW_FROM]] and again.result.skipped == []
    assert 15 in simulated.measured and 30 not in simulated.measured


def test_an_end_on_a_busy_unit_is_measured_by_the_next_call(
    root: Path, hashes: list[str], simulated: Simulated
) -> None:
    simulated.busy = (30,)
    with pytest.raises(JobError, match=r"BAD .* all turns but 0 .* busy with other work.*; the same command measures"):
        list(bisector(root, hashes).steps())
    simulated.busy = ()
    made = bisector(root, hashes)
    list(made.steps())
    assert made.result and made.result.suspects == [hashes[SLOW_FROM]]


@pytest.mark.slow
def test_a_state_of_something_else_is_refused(root: Path, hashes: list[str], simulated: Simulated) -> None:
    list(bisector(root, hashes).steps())
    (path,) = state.FOLDER.glob("*.json")
    path.write_text("{}")
    with pytest.raises(FormatError, match="--fresh begins anew"):
        bisector(root, hashes)


@pytest.mark.slow
def test_options_that_change_the_answer_have_their_own_state(
    root: Path, hashes: list[str], simulated: Simulated
) -> None:
    for memory in (None, "buffer"):
        list(bisector(root, hashes, dataclasses.replace(OPTIONS, memory=memory)).steps())
    assert len(list(state.FOLDER.glob("*.json"))) == 2


def plant_times(patch: pytest.MonkeyPatch) -> None:
    """Processes really run; what they say of a round, and of each operator, is a millisecond for each of the batch."""
    run_turn, profile = duet.run_turn, duet._profile

    def batch(entry: duet.Entry) -> float:
        return float(entry.inputs["x"].shape[0])

    def turn(opened: OpenUnit, entries: tuple[duet.Entry, duet.Entry], *more: Any) -> tuple[Block, ...]:
        blocks = zip(entries, run_turn(opened, entries, *more), strict=True)
        return tuple(block.model_copy(update={"samples": (batch(of),) * len(block.samples)}) for of, block in blocks)

    def profiled(opened: OpenUnit, rehearsal: duet.Rehearsal) -> Times:
        return dict.fromkeys(profile(opened, rehearsal), batch(rehearsal.entry))

    patch.setattr(duet, "run_turn", turn)
    patch.setattr(duet, "_profile", profiled)


@pytest.mark.slow
@pytest.mark.usefixtures("untold_waits")
def test_with_processes_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five commits, one of which makes the batch nine times as large; the operators that take longer are named."""
    monkeypatch.chdir(tmp_path)
    plant_times(monkeypatch)
    root = model_repository(tmp_path / "models", 5, 3)
    hashes = commits_between(root, "HEAD~4", "main")
    made = Bisector(ModelCommits(root, Path("tiny.yml")), hashes, inventory.HOST, BisectOptions("tiny", "cpu", 5, 10))
    steps: list[BisectStep] = list(made.steps())
    assert [step.problem for step in steps] == [""] * len(steps)
    assert made.result and made.result.suspects == [hashes[3]]
    assert made.result.duet and made.result.duet.ratio == pytest.approx(9.0)
    assert {each.type: each.difference_ms for each in made.result.duet.operators}["Conv2D"] == pytest.approx(8.0)
