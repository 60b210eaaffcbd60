"""Duets of a nightly run: which a unit makes, and one of them, pair by pair."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
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
from farm.decision.judgement import Judgement
from farm.decision.planned_duet import judge_planned
from farm.jobs.compare.duet import Entry, rehearse, run_turn
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.nightly.bundles import Inputs, NightBundles, changed_facts, duet_entry
from farm.rows.bundle import BundleManifest
from farm.rows.duet import DuetFigures, DuetPair, SoftwareVerdict
from farm.rows.series import Case
from farm.store.bundle_archive import LostBundleError

MOST_SPOILED = 2  # so many times the pairs that are wanted are measured where heat or other work spoils them


class PairNotebook(Protocol):
    """Where pairs are kept as soon as they are measured, so that a duet that is killed can go on."""

    def note_pair(self, case: Case, pair: DuetPair) -> None:
        """Keeps a pair."""

    def pairs(self, case: Case) -> Sequence[DuetPair]:
        """The pairs of a case that are kept already, oldest first."""


@dataclasses.dataclass(frozen=True)
class DuetCase:
    """A case that a duet may be made of: tonight's bundle and judgement, its inputs, and what a round takes."""

    tonight: BundleManifest
    judgement: Judgement
    inputs: Inputs
    round_ms: float


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
        return DuetFigures(fallback="there is no bundle of an earlier night to compare with")
    return DuetFigures()


class Duet:
    """One duet on an open unit."""

    def __init__(
        self, opened: OpenUnit, bundles: NightBundles, case: Case, about: DuetCase, plan: DuetPlan, rest: RetryPolicy
    ) -> None:
        self._opened, self._bundles, self._rest = opened, bundles, rest
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
            with TemporaryDirectory() as folder:
                entries = self._entries(Path(folder)) if judgement.more else None
                while entries and judgement.more and not is_over() and not self._is_spoiled(pairs):
                    pairs.append(self._pair(entries, len(pairs), seed))
                    notebook.note_pair(self._case, pairs[-1])
                    judgement = self._judged(pairs)
        except LostBundleError as error:
            return DuetFigures(against=self._before.run, fallback=str(error))
        return self._figures(pairs, judgement, time.monotonic() - begun_s)

    def _judged(self, pairs: Sequence[DuetPair]) -> DuetJudgement:
        good = [times for pair in pairs if (times := pair.times_ms)]
        builds = (one.files.get("farmrt", f"run {one.run}") for one in (self._about.tonight, self._before))
        return judge_planned(good, self._plan, *builds)

    def _is_spoiled(self, pairs: Sequence[DuetPair]) -> bool:
        """Whether heat or other work spoils so many pairs that the duet will not come to an end."""
        good = sum(pair.times_ms is not None for pair in pairs)
        return len(pairs) - good > MOST_SPOILED * (good + 1)

    def _entries(self, folder: Path) -> tuple[Entry, Entry]:
        """Both bundles as they lie in the archive, with kernels, so that no pair compiles them."""
        archive, inputs = self._bundles.archive, self._about.inputs
        before = duet_entry(archive, "a", self._before, folder / "a", inputs)
        tonight = duet_entry(archive, "b", self._about.tonight, folder / "b", inputs)
        return self._compiled(before), self._compiled(tonight)

    def _compiled(self, entry: Entry) -> Entry:
        if entry.kernels or entry.bundle.runtime == "cpu":
            return entry
        return rehearse(self._opened, entry, entry.folder / f"compiled_{entry.arm}.bin").entry

    def _pair(self, entries: tuple[Entry, Entry], number: int, seed: int) -> DuetPair:
        """The next pair; of each two pairs each software begins one, drawn by lot."""
        self._opened.progress.stage(
            f"{self._case.model} ({self._case.runner}, {self._case.setting}) against run {self._before.run}: "
            f"pair {number + 1}"
        )
        order = random.Random(f"{seed}/{self._case}/{number // 2}").sample((0, 1), 2)  # its order is no secret
        before, tonight = run_turn(self._opened, entries, self._about.round_ms, order[number % 2], self._rest)
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
