"""Duets of a nightly run: which a unit makes, and one of them, pair by pair."""

import contextlib
import dataclasses
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from farm.condition.throttling import RetryPolicy
from farm.decision.duet import DuetJudgement
from farm.decision.duet_schedule import (
    DuetPlan,
    build_variance,
    is_hint,
    is_spent,
    looks_tonight,
    scheduled_against,
    suspected_duet,
)
from farm.decision.duet_verdict import judge_planned
from farm.decision.judgement import Judgement
from farm.jobs.compare.duet import ARMS, Entry, Turn, rehearse, run_turn
from farm.jobs.fleet.job_rows import is_beyond_row
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.nightly.bundles import Inputs, NightBundles, changed_facts, duet_entry, leave_bundle
from farm.jobs.nightly.case import Software
from farm.rows.bundle import BundleManifest
from farm.rows.duet import NO_EARLIER, DuetFigures, DuetPair, SoftwareVerdict
from farm.rows.series import Case
from farm.store.bundle_archive import BundleArchive, LostBundleError
from farm.units.system_facts import read_system
from runtime.errors import FarmError

MOST_SPOILED = 2  # so many times the pairs that are wanted are measured where heat or other work spoils them


class PairNotebook(Protocol):
    """Where pairs are kept as soon as they are measured, so that a duet that is killed can go on."""

    def note_pair(self, case: Case, pair: DuetPair) -> None:
        """Keeps a pair."""

    def pairs(self, case: Case) -> Sequence[DuetPair]:
        """The pairs of a case that are kept already, oldest first."""


DuetTurns = Callable[[OpenUnit, BundleManifest, Path], AbstractContextManager[Turn]]
"""Brings an earlier night's bundle, whose files go to a folder, and tonight's software to a unit: A and B."""


@dataclasses.dataclass(frozen=True)
class DuetCase:
    """A case that a duet may be made of: tonight's bundle and judgement, and what runs an earlier one beside it."""

    tonight: BundleManifest
    judgement: Judgement
    turns: DuetTurns


def plans_of(bundles: NightBundles, cases: Mapping[Case, Judgement], busy_s: float) -> dict[Case, DuetPlan]:
    """The duets to make on a unit: what looks changed first, then looks by the calendar."""
    pasts = {case: bundles.past(case) for case in cases}
    spent = is_spent(pasts, busy_s)
    asked = {case: plan for case in cases if (plan := suspected_duet(pasts[case], cases[case], spent))}
    rest = {case: past for case, past in pasts.items() if case not in asked and scheduled_against(past) is not None}
    hints = [case for case in rest if is_hint(cases[case])]
    looks = looks_tonight(rest, hints, busy_s)
    by_calendar = {case: scheduled_against(rest[case]) for case in looks}
    looked = {case: DuetPlan(against, False) for case, against in by_calendar.items() if against is not None}
    return {
        case: dataclasses.replace(plan, variance=build_variance(pasts[case], cases[case]))
        for case, plan in (asked | looked).items()
    }


def without_duet(bundles: NightBundles, case: Case) -> DuetFigures:
    """What the row of a case says that no duet was made of."""
    if scheduled_against(bundles.past(case)) is None:
        return DuetFigures(fallback=NO_EARLIER)
    return DuetFigures()


@dataclasses.dataclass(frozen=True)
class BundleTurns:
    """Turns of two farmrt, with the files of their bundles; a `DuetTurns`. A round takes about `round_ms`."""

    archive: BundleArchive
    tonight: BundleManifest
    inputs: Inputs
    round_ms: float
    rest: RetryPolicy

    @contextlib.contextmanager
    def __call__(self, opened: OpenUnit, before: BundleManifest, folder: Path) -> Iterator[Turn]:
        """Fetches both; kernels are compiled first, so that no turn does it."""
        fetched = (
            duet_entry(self.archive, arm, manifest, folder / arm, self.inputs)
            for arm, manifest in zip(ARMS, (before, self.tonight), strict=True)
        )
        a, b = (_compiled(opened, entry) for entry in fetched)
        yield lambda first: run_turn(opened, (a, b), self.round_ms, first, self.rest)


def _compiled(opened: OpenUnit, entry: Entry) -> Entry:
    if entry.kernels or entry.bundle.runtime == "cpu":
        return entry
    return rehearse(opened, entry, entry.folder / f"compiled_{entry.arm}.bin").entry


class Duet:
    """One duet on an open unit."""

    def __init__(self, opened: OpenUnit, bundles: NightBundles, case: Case, about: DuetCase, plan: DuetPlan) -> None:
        self._opened, self._bundles = opened, bundles
        self._case, self._about, self._plan = case, about, plan
        self._before = next(one for one in bundles.before(case) if one.run == plan.against)

    def measure(self, notebook: PairNotebook, seed: int, is_over: Callable[[], bool]) -> DuetFigures:
        """Measures pairs until it is decided, none where the software is the same to the byte.

        Raises what tells that the unit is gone; a bundle that is lost is told in the figures.
        """
        if self._before.is_same_software(self._about.tonight):
            return self._figures((), DuetJudgement(SoftwareVerdict.SAME, 1.0, 1.0, 1.0), 0.0, identical=True)
        begun_s = time.monotonic()
        pairs = [pair for pair in notebook.pairs(self._case) if pair.against == self._before.run]
        judgement = self._judged(pairs)
        try:
            with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
                turns = self._about.turns(self._opened, self._before, Path(folder))
                turn = stack.enter_context(turns) if judgement.more else None
                while turn and judgement.more and not is_over() and not self._is_spoiled(pairs):
                    pairs.append(self._pair(turn, len(pairs), seed))
                    notebook.note_pair(self._case, pairs[-1])
                    judgement = self._judged(pairs)
        except LostBundleError as error:
            return DuetFigures(against=self._before.run, fallback=str(error))
        return self._figures(pairs, judgement, time.monotonic() - begun_s)

    def _judged(self, pairs: Sequence[DuetPair]) -> DuetJudgement:
        good = [times for pair in pairs if (times := pair.times_ms)]
        return judge_planned(good, self._plan, self._about.tonight.program, self._before.program)

    def _is_spoiled(self, pairs: Sequence[DuetPair]) -> bool:
        """Whether heat or other work spoils so many pairs that the duet will not come to an end."""
        good = sum(pair.times_ms is not None for pair in pairs)
        return len(pairs) - good > MOST_SPOILED * (good + 1)

    def _pair(self, turn: Turn, number: int, seed: int) -> DuetPair:
        """The next pair; of each two pairs each software begins one, drawn by lot."""
        self._opened.progress.stage(
            f"{self._case.model} ({self._case.runner}, {self._case.setting}) against run {self._before.run}: "
            f"pair {number + 1}"
        )
        order = random.Random(f"{seed}/{self._case}/{number // 2}").sample((0, 1), 2)  # its order is no secret
        before, tonight = turn(order[number % 2])
        return DuetPair(against=self._before.run, before=before, tonight=tonight)

    def _figures(
        self, pairs: Sequence[DuetPair], judgement: DuetJudgement, seconds: float, identical: bool = False
    ) -> DuetFigures:
        is_known = judgement.low is not None and judgement.high is not None
        begun = self._plan.claim.begun if self._plan.claim else None
        return DuetFigures(
            against=self._before.run,
            against_time=self._before.started,
            against_commit=self._before.commit,
            suspected=self._plan.suspected,
            settled_by=self._plan.settled_by,
            verdict=judgement.verdict,
            ratio=judgement.ratio,
            ratio_ci=(judgement.low or 0.0, judgement.high or 0.0) if is_known else None,
            pairs=tuple(pairs),
            earlier_pairs=len(self._plan.earlier) if pairs else 0,
            identical=identical,
            claim=self._bundles.info.id if judgement.claimed and begun is None else begun,
            builds=math.sqrt(self._plan.variance) if judgement.claimed else None,
            environment=changed_facts(self._before, self._about.tonight),
            seconds=round(seconds, 3),
        )


class UnitDuets:
    """What is known so far of one unit's duets; it outlives the connection to the unit."""

    def __init__(self, bundles: NightBundles, notebook: PairNotebook, seed: int) -> None:
        self._bundles, self._notebook = bundles, notebook
        self._seed = seed
        self._facts: dict[str, str] | None = None
        self._tonight: dict[Case, BundleManifest] = {}
        self._made: dict[Case, DuetFigures] = {}
        self._unkept: dict[Case, str] = {}

    def leave(self, opened: OpenUnit, case: Case, software: Software | None) -> None:
        """Leaves tonight's bundle of a case. Where it cannot be kept, the row says so."""
        if software is None:
            self._unkept[case] = f"what {case.engine} runs cannot be kept for another night"
            return
        if self._facts is None:
            self._facts = read_system(opened.transport)
        try:
            self._tonight[case] = leave_bundle(self._bundles, opened, case, software, self._facts)
        except OSError as error:
            self._unkept[case] = f"tonight's bundle cannot be kept: {error.strerror or error}"
        except FarmError as error:
            self._unkept[case] = f"tonight's bundle cannot be kept: {error}"

    def tonight(self, case: Case) -> BundleManifest | None:
        """Tonight's bundle of a case, where it was left."""
        return self._tonight.get(case)

    def make(
        self, opened: OpenUnit, cases: Mapping[Case, DuetCase], busy_s: float, is_over: Callable[[], bool]
    ) -> None:
        """Makes the duets of the night. Raises what tells that the unit is gone."""
        judged = {case: about.judgement for case, about in cases.items()}
        for case, plan in plans_of(self._bundles, judged, busy_s).items():
            if case not in self._made and not is_over():
                self._made[case] = self._duet(opened, case, cases[case], plan, is_over)

    def _duet(
        self, opened: OpenUnit, case: Case, about: DuetCase, plan: DuetPlan, is_over: Callable[[], bool]
    ) -> DuetFigures:
        """A duet; where one of the two cannot be run, that is told instead."""
        try:
            duet = Duet(opened, self._bundles, case, about, plan)
            return duet.measure(self._notebook, self._seed, is_over)
        except FarmError as error:
            if is_beyond_row(error, opened):
                raise
            opened.session.revive()
            return DuetFigures(against=plan.against, fallback=f"the duet with run {plan.against} failed: {error}")

    def figures(self, case: Case, busy_s: float) -> DuetFigures:
        """What the row of a case says; `busy_s` is what its blocks took."""
        if case in self._unkept:
            return DuetFigures(fallback=self._unkept[case])
        made = self._made.get(case) or without_duet(self._bundles, case)
        return made.model_copy(update={"share": round(made.seconds / busy_s, 4) if busy_s else None})
