"""The next rung goes to the family that is expected to save most of the models' time per second of device time."""

import dataclasses
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runtime.kernels.spec import MemoryType
from runtime.lowering.trials import TrialLaunch
from runtime.peaks import MeasuredPeaks, PeakFigure
from runtime.types import Precision
from tests.tuner.simulated_device import CONV, LAUNCHES, TARGET, SimulatedDevice, launch
from tuner import space
from tuner.budget import Budget
from tuner.device_pool import pool_of_one
from tuner.family_scheduler import explore_families
from tuner.floors import Floors
from tuner.journal import Journal
from tuner.search import LEVELS, search
from tuner.trial import Candidate, Trial, TrialStatus
from tuner.trial_runner import TrialRunner


class FakeFamily:
    """A family whose rungs save and cost what is given; it has one task of so many variants."""

    def __init__(
        self,
        runner: Any,
        name: str,
        time_ns: float,
        rungs: list[tuple[float, float]],
        variants: int = 4,
        least_ns: float = 0.0,
    ) -> None:
        self.least_ns, self.runs_by_default = least_ns, True
        self.name, self.time_ns, self.tasks, self.build_s = name, time_ns, ["task"], 0.0
        self._runner, self._rungs, self._variants = runner, rungs, variants
        self.saved_ns = self.imagined_ns = 0.0

    def confirm(self) -> None:
        """A second look shows that some of what was saved was luck."""
        self.time_ns += self.imagined_ns
        self.saved_ns -= self.imagined_ns
        self.imagined_ns = 0.0

    def variants(self, task: str) -> list[int]:
        return list(range(self._variants))

    def play(self) -> Iterator[None]:
        for gain_ns, cost_s in self._rungs:
            self.time_ns -= gain_ns
            self.saved_ns += gain_ns
            self._runner.spent_s += cost_s
            yield


def order(runner: Any, *families: Any, patience: float = math.inf, returns: bool = False) -> list[str]:
    strategy: Any = SimpleNamespace(explore=FakeFamily.play)
    return [family.name for family in explore_families(families, strategy, runner, patience, returns)]


def new_runner() -> Any:
    return SimpleNamespace(spent_s=0.0, has_company=False)


def test_the_heaviest_family_is_first_and_all_are_explored_to_their_end() -> None:
    runner = new_runner()
    light = FakeFamily(runner, "light", 10.0, [(0.0, 1.0)])
    heavy = FakeFamily(runner, "heavy", 100.0, [(0.0, 1.0), (0.0, 1.0)])
    explored = order(runner, light, heavy)
    assert explored[0] == "heavy"
    assert sorted(explored) == ["heavy"] * 3 + ["light"] * 2, "each rung, and the call that finds none left"


def test_a_family_of_few_variants_is_explored_before_one_of_many() -> None:
    runner = new_runner()
    many = FakeFamily(runner, "many", 100.0, [(0.0, 1.0)], variants=40)
    few = FakeFamily(runner, "few", 100.0, [(0.0, 1.0)], variants=2)
    assert order(runner, many, few)[0] == "few"


def test_a_gain_keeps_the_family_and_a_rung_without_gain_yields_to_others() -> None:
    runner = new_runner()
    winner = FakeFamily(runner, "winner", 100.0, [(40.0, 1.0), (0.0, 1.0), (0.0, 1.0)])
    other = FakeFamily(runner, "other", 20.0, [(0.0, 1.0)], variants=20)
    assert order(runner, winner, other)[:3] == ["winner", "winner", "other"]


def test_what_is_left_above_the_peaks_bounds_what_a_rung_may_save() -> None:
    runner = new_runner()
    heavy = FakeFamily(runner, "heavy", 100.0, [(0.0, 1.0)], least_ns=95.0)
    light = FakeFamily(runner, "light", 40.0, [(0.0, 1.0)])
    assert order(runner, heavy, light)[0] == "light", "5 of heavy may be saved, 12 of light are expected to be"


def test_a_family_at_the_peaks_is_left_to_others() -> None:
    runner = new_runner()
    arriving = FakeFamily(runner, "arriving", 100.0, [(20.0, 1.0), (0.0, 1.0)], least_ns=79.0)
    other = FakeFamily(runner, "other", 10.0, [(0.0, 1.0)])
    assert order(runner, arriving, other) == ["arriving", "other", "other"], "80 are within 3 % of 79"


def test_a_family_is_taken_up_again_when_a_peak_is_disproved() -> None:
    runner = new_runner()
    left = FakeFamily(runner, "left", 100.0, [(0.0, 1.0)], least_ns=99.0)
    other = FakeFamily(runner, "other", 10.0, [(0.0, 1.0), (0.0, 1.0)])

    def play(family: FakeFamily) -> Iterator[None]:
        for number, _ in enumerate(FakeFamily.play(family)):
            if family is other and number == 1:
                left.least_ns = 0.0
            yield

    strategy: Any = SimpleNamespace(explore=play)
    explored = [family.name for family in explore_families([left, other], strategy, runner)]  # type: ignore[list-item]
    assert explored[:2] == ["other", "other"] and "left" in explored[2:]


def test_a_family_is_left_that_has_saved_nothing_for_so_long_unless_a_default_of_it_fails() -> None:
    runner = new_runner()
    rungs = [(0.0, 1.0)] * 4
    noise, gains = (FakeFamily(runner, str(first), 100.0, [(first, 1.0), *rungs]) for first in (1.0, 3.0))
    failing = FakeFamily(runner, "failing", 100.0, rungs)
    failing.runs_by_default = False
    explored = order(runner, noise, gains, failing, patience=2)
    counts = {family.name: explored.count(family.name) for family in (noise, gains, failing)}
    assert counts == {"1.0": 2, "3.0": 6, "failing": 5}, "each rung, and the call that finds none left"


def test_a_family_that_was_left_has_the_time_that_no_other_needs() -> None:
    runner = new_runner()
    left, other = (FakeFamily(runner, name, 100.0, [(gain, 1.0)] * 3) for name, gain in (("left", 0.0), ("other", 9.0)))
    explored = order(runner, left, other, patience=1, returns=True)
    assert explored.count("left") == 4 and explored[-3:] == ["left"] * 3


def test_a_family_is_left_whose_savings_were_luck() -> None:
    runner = new_runner()
    lucky = FakeFamily(runner, "lucky", 100.0, [(9.0, 1.0)] * 3)
    lucky.imagined_ns = 8.0
    assert order(runner, lucky, patience=1) == ["lucky"]
    lucky.imagined_ns = 8.0
    assert len(order(runner, lucky)) == 4, "without patience to lose nothing is looked at twice"


def test_a_family_is_left_whose_rungs_have_ceased_to_save() -> None:
    for patience, count in ((1, 5), (math.inf, 10)):
        runner = new_runner()
        ceasing = FakeFamily(runner, "ceasing", 100.0, [(9.0, 1.0), (5.0, 1.0), *[(0.1, 1.0)] * 7])
        assert len(order(runner, ceasing, patience=patience)) == count


def programs_tried(noise: float) -> int:
    """How many programs a search tries where the default was chosen and all candidates are as fast as each other."""
    random = np.random.default_rng(1)

    def measure(each: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        times, defaults = (tuple(1e6 * np.exp(noise * random.normal(size=reps))) for _ in range(2))
        beside = defaults if candidate != space.default_candidate(each) else ()
        return Trial(TrialStatus.OK, times, 0.01, 0.0, 0.0, 1.0, own_ns=beside)

    runner = TrialRunner(pool_of_one(measure), Journal(None, "x"), Budget(30.0))
    level = LEVELS["quick"].of_chosen_defaults
    search(LAUNCHES, lambda each, multiple: space.candidate_costs(each, TARGET, multiple), runner, level)
    return len(runner.programs)


@pytest.mark.slow
def test_what_seems_faster_by_noise_alone_keeps_no_search_going() -> None:
    assert max(programs_tried(0.03), programs_tried(0.06)) < 2 * programs_tried(0.0)


MAC_NS = 1e-3  # at 1e9 multiply-adds per ms
PEAKS = MeasuredPeaks({PeakFigure.MACS: 1e9, PeakFigure.BUFFER_BYTES: 1e6})


def of(macs: int = 0, moved: int = 0, precision: Precision = Precision.FP32) -> TrialLaunch:
    return dataclasses.replace(launch(CONV, 1, 1, 1), macs=macs, bytes=moved, precision=precision)


def test_the_longer_of_computing_and_moving_is_the_least() -> None:
    floors = Floors(PEAKS)
    assert floors.least_ns(of(macs=10**6)) == pytest.approx(10**6 * MAC_NS)
    assert floors.least_ns(of(macs=10**6, moved=4096)) == pytest.approx(4096.0)
    assert floors.least_ns(of(moved=4096, precision=Precision.FP16_STORAGE)) == pytest.approx(2048.0)


def test_what_is_not_known_allows_any_time() -> None:
    on_images = dataclasses.replace(CONV, memory=MemoryType.IMAGE)
    assert Floors().least_ns(of(macs=10**9, moved=10**9)) == 0.0
    assert Floors(PEAKS).least_ns(dataclasses.replace(of(moved=4096), kernel=on_images)) == 0.0
    assert Floors(PEAKS).least_ns(of(macs=10**9, precision=Precision.FP16)) == 0.0, "half arithmetic has its own peak"


def test_a_peak_that_a_launch_beats_counts_for_nothing() -> None:
    floors = Floors(PEAKS)
    floors.note(of(macs=10**6, moved=500), 995.0)
    assert floors.least_ns(of(macs=10**6)) == pytest.approx(1000.0), "half a per cent may be chance"
    floors.note(of(macs=10**6, moved=500), 980.0)
    assert floors.least_ns(of(macs=10**6)) == 0.0
    assert floors.least_ns(of(moved=500)) == pytest.approx(500.0), "the bytes of that launch did not beat theirs"
    floors.note(of(macs=10**6), math.inf)


def conv_is_at_its_peak(each: TrialLaunch, candidate: Candidate, trial: Trial) -> Trial:
    """By default 1x1 convolutions do as many multiply-adds as the device can; everything else is slower."""
    if each.kernel is not CONV:
        return trial
    ns = each.macs * MAC_NS * (1.0 if candidate == space.default_candidate(each) else 1.5)
    return dataclasses.replace(trial, ns=(ns,) * len(trial.ns))


def conv_trials(peaks: MeasuredPeaks, level: str) -> int:
    """How many trials of 1x1 convolutions a search makes."""
    launches = [dataclasses.replace(each, macs=math.prod(each.dims.values())) for each in LAUNCHES]
    device = SimulatedDevice(noise=0.0, spoil=conv_is_at_its_peak)
    runner = TrialRunner(pool_of_one(device), Journal(None, "x"), Budget(30.0))
    outcome = search(
        launches,
        lambda each, multiple: space.candidate_costs(each, TARGET, multiple),
        runner,
        LEVELS[level],
        peaks=peaks,
    )
    return sum(count for key, count in outcome.trials.items() if key.startswith(CONV.name))


@pytest.mark.slow
def test_a_search_leaves_a_kernel_whose_launches_are_at_the_peak() -> None:
    by_default = sum(each.kernel is CONV for each in LAUNCHES)
    assert conv_trials(PEAKS, "quick") == by_default
    assert conv_trials(MeasuredPeaks(), "quick") > 2 * by_default
    too_low = MeasuredPeaks({PeakFigure.MACS: 0.9e9})
    assert conv_trials(too_low, "quick") == conv_trials(MeasuredPeaks(), "quick"), "these launches disprove it"


@pytest.mark.slow
def test_an_exhaustive_search_stops_at_no_peak() -> None:
    assert conv_trials(PEAKS, "exhaustive") == conv_trials(MeasuredPeaks(), "exhaustive")
