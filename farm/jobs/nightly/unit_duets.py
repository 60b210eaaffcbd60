"""The duets of one unit's night: what its cases leave, which duets are made, and what the rows say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from farm.decision.duet_schedule import DuetPlan
from farm.jobs.fleet.job_rows import is_beyond_row
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.nightly.bundles import NightBundles, leave_bundle
from farm.jobs.nightly.case import Software
from farm.jobs.nightly.duets import Duet, DuetCase, PairNotebook, plans_of, without_duet
from farm.rows.bundle import BundleManifest
from farm.rows.duet import DuetFigures
from farm.rows.series import Case
from farm.units.system_facts import read_system
from runtime.errors import FarmError


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
