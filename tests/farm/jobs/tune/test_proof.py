"""The proof of a tuning on equals: how often its intervals cover 1, and how often chance alone publishes a table."""

import dataclasses
import operator

import numpy as np
import pytest

from farm.farmrt.answers import LoadAnswer
from farm.jobs.compare.interleaved import LEAST_LOOK, Effort, PlanMeasurement
from farm.jobs.tune.proof import (
    LEAST_GAIN,
    Proof,
    gains,
    is_decided,
    is_futile,
    is_hopeless,
    is_plain_gain,
    is_settled,
    proved_again,
    tuning_outcome,
)
from farm.jobs.validate import Validation
from farm.rows.row import Ending, Throttling
from farm.rows.status import Status
from farm.rows.tune import TuneOutcome
from runtime.statistics.ratios import Ratio, ratio_of_pairs

TRIES = 1000
PROCESSES = Effort().processes
WELL, COOL = Ending(status=Status.OK), Throttling()


def three_ways(kind: str, size: float, gain: float = 0.0, seed: int = 0) -> list[tuple[Ratio, Ratio]]:
    """New over default and over the table in force, which take turns: processes differ by their size, minutes drift."""
    random = np.random.default_rng(int(1000 * size) + seed)
    drift = random.normal(0, 0.05, (TRIES, 1, PROCESSES))
    shape = (TRIES, 3, PROCESSES)
    effects = random.normal(0, 1, shape) if kind == "normal" else random.standard_t(3, shape) / 3**0.5
    times = np.exp(drift + size * effects + random.normal(0, 0.002, shape))
    times[:, 2] *= 1 - gain
    found = [(ratio_of_pairs(new, default), ratio_of_pairs(new, in_force)) for default, in_force, new in times.tolist()]
    return [(one, other) for one, other in found if one and other]


@pytest.mark.parametrize("kind", ["normal", "heavy tails"])
@pytest.mark.parametrize("size", [0.0, 0.005, 0.01, 0.02])
def test_equals_are_hardly_ever_published_and_intervals_are_honest(kind: str, size: float) -> None:
    tries = three_ways(kind, size)
    assert len(tries) == TRIES
    for which in range(2):
        covered = sum(each[which].low <= 1.0 <= each[which].high for each in tries)
        assert 0.93 <= covered / TRIES <= 0.975
    once, again = ([is_new(*each) for each in drawn] for drawn in (tries, three_ways(kind, size, seed=1000)))
    alone = [is_new(gain) for gain, _ in tries]
    assert sum(once) / TRIES < 0.02 and sum(alone) / TRIES < 0.04, "alone: one end of a 95 % interval"
    assert sum(map(operator.and_, once, again)) <= 2, "in a thousand"


def decided(*ratios: Ratio | None, most_ratio: float = 1.0) -> tuple[TuneOutcome, str]:
    """By what is over the default and, if given, over what is in force."""
    named = dict(zip(("the default", "what is in force"), ratios, strict=False))
    return tuning_outcome(True, WELL, COOL, named, most_ratio)


def is_new(*ratios: Ratio) -> bool:
    return decided(*ratios)[0] == TuneOutcome.NEW


def test_a_gain_of_three_percent_among_processes_that_differ_by_one_is_published_by_both_proofs() -> None:
    once, again = ([is_new(*each) for each in three_ways("normal", 0.01, 0.03, seed)] for seed in (0, 1000))
    assert sum(map(operator.and_, once, again)) / TRIES > 0.9


def processes_and_outcome(
    gain: float, random: np.random.Generator, again: bool = False, size: float = 0.01
) -> tuple[int, bool]:
    """How many processes of each ran until nothing was left to prove, and whether what they show is new."""
    default, new = np.exp(size * random.normal(0, 1, (2, PROCESSES))) * [[1.0], [1 - gain]]
    for count in range(LEAST_LOOK, PROCESSES + 1):
        pairs = (new / default)[:count].tolist()
        if is_settled([pairs], again=again):
            break
    ratio = ratio_of_pairs(new[:count].tolist(), default[:count].tolist())
    assert ratio
    return count, is_new(ratio)


def test_a_proof_ends_early_where_nothing_is_gained_and_misses_hardly_any_gain() -> None:
    """Processes differ by 1 %."""
    random = np.random.default_rng(5)
    of_equals = [processes_and_outcome(0.0, random) for _ in range(TRIES)]
    assert sum(count for count, _ in of_equals) / TRIES < 0.65 * PROCESSES
    assert sum(new for _, new in of_equals) / TRIES < 0.02
    whole = [is_new(gain) for gain, _ in three_ways("normal", 0.01, 0.02)]
    ended = [new for _, new in (processes_and_outcome(0.02, random) for _ in range(TRIES))]
    assert sum(ended) > sum(whole) - 0.02 * TRIES


def test_a_proof_ends_early_that_will_hardly_show_a_gain() -> None:
    """Half a percent is gained, by processes that hardly differ; none of it would count."""
    random = np.random.default_rng(7)
    tried = [processes_and_outcome(0.005, random, size=0.003) for _ in range(TRIES // 4)]
    assert sum(count for count, _ in tried) / len(tried) < 0.55 * PROCESSES and not any(new for _, new in tried)
    pairs = [0.994, 0.996, 0.995, 0.993, 0.996, 0.995]
    assert is_futile(pairs) and not is_futile([ratio - 0.01 for ratio in pairs])
    assert not is_futile(pairs, most_ratio=1.05), "slower by as much as is allowed for less memory"
    assert is_settled([[0.9] * 6, pairs]), "over what is in force it gains too little"


def test_a_second_proof_ends_where_the_gain_is_seen_again() -> None:
    random = np.random.default_rng(8)
    counts = {
        again: [processes_and_outcome(0.015, random, again) for _ in range(TRIES // 4)] for again in (False, True)
    }
    mean = {again: sum(count for count, _ in tried) / len(tried) for again, tried in counts.items()}
    share = {again: sum(new for _, new in tried) / len(tried) for again, tried in counts.items()}
    assert mean[True] < 0.8 * mean[False] and share[True] > share[False] - 0.05
    of_equals = [processes_and_outcome(0.0, random, again=True) for _ in range(TRIES)]
    assert sum(new for _, new in of_equals) / TRIES < 0.05, "and the first proof passes fewer than one in fifty"


def test_a_proof_ends_early_where_the_gain_is_plain() -> None:
    """Processes differ by 1 %."""
    random = np.random.default_rng(6)
    plain = [processes_and_outcome(0.05, random) for _ in range(TRIES // 4)]
    assert sum(count for count, _ in plain) / len(plain) < 0.6 * PROCESSES and all(new for _, new in plain)
    all_gain, counts, may_not = Ratio(0.97, 0.96, 0.98), Ratio(0.985, 0.98, 0.99), Ratio(0.985, 0.97, 0.995)
    assert is_decided([all_gain, counts]) and not is_decided([all_gain, may_not])


def test_a_proof_goes_on_while_any_gain_may_be_proved() -> None:
    near, none = Ratio(0.99, 0.97, 1.01), Ratio(1.0, 0.99, 1.01)
    assert not is_hopeless([near]) and is_hopeless([near, none]) and is_hopeless([none, near])
    assert not is_hopeless([none], most_ratio=1.05), "slower by as much as is allowed for less memory"


def test_a_gain_that_is_certain_and_below_one_percent_is_not_published() -> None:
    small, enough = Ratio(0.994, 0.993, 0.995), Ratio(0.985, 0.984, 0.986)
    assert decided(small) == (
        TuneOutcome.KEPT,
        "faster than the default by less than the 1 % that count: gain 0.6 % (0.5 to 0.7)",
    )
    assert decided(enough, small)[1].startswith("faster than what is in force by less")
    assert is_new(enough, enough) and decided(small, small, most_ratio=1.05)[0] == TuneOutcome.NEW


def test_what_is_in_force_and_was_measured_too_seldom_is_not_replaced() -> None:
    measured = PlanMeasurement(LoadAnswer.model_construct(), 1.0, {}, ((1.0,),))
    assert gains(measured, measured, measured) == {"the default": None, "what is in force": None}
    assert list(gains(measured, None, measured)) == ["the default"]
    enough = Ratio(0.985, 0.984, 0.986)
    outcome, reason = decided(enough, None)
    assert outcome == TuneOutcome.KEPT and reason.startswith("the budget was spent")
    assert is_new(enough)


@pytest.mark.parametrize("kind", ["normal", "heavy tails"])
@pytest.mark.parametrize("size", [0.002, 0.01])
def test_a_gain_that_needs_no_second_proof_is_hardly_ever_chance(kind: str, size: float) -> None:
    """Looked at after each process from the sixth on; of 5 % that are gained most are plain."""
    random = np.random.default_rng(int(1000 * size))

    def share_of_plain(gain: float, tries: int) -> float:
        shape = (tries, PROCESSES)
        effects = random.normal(0, 1, shape) if kind == "normal" else random.standard_t(3, shape) / 3**0.5
        drawn = np.exp(2**0.5 * size * effects) * (1 - gain)
        looks = range(LEAST_LOOK, PROCESSES + 1)
        return sum(any(is_plain_gain(pairs[:count]) for count in looks) for pairs in drawn.tolist()) / tries

    assert share_of_plain(LEAST_GAIN, TRIES) < 0.005
    assert share_of_plain(0.05, TRIES // 10) > 0.6
    assert not is_plain_gain([0.9] * (LEAST_LOOK - 1))


def test_only_a_gain_in_doubt_is_proved_again() -> None:
    slow, fast, hardly = (((ms,) for ms in times) for times in ([100.0] * 6, [95.0, 94.0] * 3, [98.0, 97.0, 99.5] * 2))
    default, plain, doubtful = (
        PlanMeasurement(LoadAnswer.model_construct(), 1.0, {}, tuple(times)) for times in (slow, fast, hardly)
    )
    validation = Validation(WELL)
    proofs = [Proof(TuneOutcome.NEW, "", WELL, validation, default, None, new, COOL) for new in (plain, doubtful)]
    again = dataclasses.replace(proofs[1], outcome=TuneOutcome.KEPT, reason="no gain")
    assert proved_again(proofs[0], lambda: again) is proofs[0]
    assert proved_again(proofs[1], lambda: again).outcome == TuneOutcome.KEPT
