"""The decision on A and B, its words, and stored runs against each other."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from farm.decision.comparison import (
    compare_figures,
    count_of_waiting,
    coverage,
    decide,
    decide_turns,
    differences,
    is_worse,
    p_text,
    slowest_first,
)
from farm.jobs.compare.runs import StoredRun, compare_runs, only_in_one
from farm.rows.compare import CompareRow, ComparisonOutcome, Side
from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block, NightlyRow
from farm.rows.run_info import RunInfo
from farm.tables import table
from farm.tables.compare import compare_table, coverage_lines, note_lines, side_text
from tests.farm.rows.nightly_rows import LEVEL_MS, TIME, nightly_case, noisy_samples


def test_a_slower_b_is_decided_and_described() -> None:
    found = decide(noisy_samples(10), noisy_samples(10, 1.05 * LEVEL_MS, seed=2), margin_percent=1)
    assert found.outcome == ComparisonOutcome.SLOWER
    assert found.ratio is not None and found.ratio_ci is not None
    low, high = found.ratio_ci
    assert low < found.ratio < high and low < 1.05 < high and found.effect == 1.0
    assert found.verdict == (
        f"B is {100 * (found.ratio - 1):.1f} % slower ({100 * (low - 1):.1f} to {100 * (high - 1):.1f}), p < 0.001"
    )


def test_a_faster_b_is_described_with_the_smaller_gain_first() -> None:
    found = decide(noisy_samples(10), noisy_samples(10, 0.9 * LEVEL_MS, seed=2), margin_percent=1)
    assert found.outcome == ComparisonOutcome.FASTER and found.ratio_ci is not None
    least, most = 100 * (1 - found.ratio_ci[1]), 100 * (1 - found.ratio_ci[0])
    assert f"% faster ({least:.1f} to {most:.1f})" in found.verdict


def test_a_difference_within_the_margin_does_not_count() -> None:
    found = decide(noisy_samples(20, percent=0.1), noisy_samples(20, 1.008 * LEVEL_MS, 0.1, 2), margin_percent=1)
    assert found.outcome == ComparisonOutcome.TOO_SMALL and found.verdict.endswith(": not more than the 1 % that count")
    assert (
        decide(noisy_samples(20, percent=0.1), noisy_samples(20, 1.008 * LEVEL_MS, 0.1, 2), 0.5).outcome
        == ComparisonOutcome.SLOWER
    )


def test_a_large_difference_of_few_blocks_is_undecided_and_not_called_the_same() -> None:
    a_ms, b_ms = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 1.61], [1.7, 1.8, 1.6, 1.2, 1.75, 1.65, 1.04]
    found = decide(a_ms, b_ms, margin_percent=1)
    assert found.outcome == ComparisonOutcome.UNDECIDED and found.p_value is not None and found.p_value >= 0.01
    assert found.verdict.startswith("undecided: B is ") and found.verdict.endswith("more measurements would tell")
    assert decide(a_ms * 3, b_ms * 3, margin_percent=1).outcome == ComparisonOutcome.SLOWER


def turns(a_ms: Sequence[float], b_ms: Sequence[float], shares: Sequence[float | None]) -> list[Block]:
    """A block of A and one of B for each turn; A's rounds waited for a core for so large a share of their time."""
    state = DeviceState()
    common: dict[str, Any] = {"time": TIME, "init_ms": 1.0, "first_ms": 1.0}
    common |= {"state_before": state, "state_after": state}
    return [
        Block(**common, arm=arm, samples=(level_ms,), waited_share=share)
        for a, b, share in zip(a_ms, b_ms, shares, strict=True)
        for arm, level_ms, share in (("a", a, share), ("b", b, None if share is None else share / 2))
    ]


BUSY = "the unit was busy with other work: rounds waited 80 % of their time for a core"


def test_rounds_that_mostly_waited_are_never_told_to_be_the_same() -> None:
    a_ms, b_ms = noisy_samples(10), noisy_samples(10, seed=2)
    assert decide_turns(turns(a_ms, b_ms, [0.1] * 10), 1).outcome == ComparisonOutcome.SAME
    found = decide_turns(turns(a_ms, b_ms, [0.8] * 10), 1)
    assert found.outcome == ComparisonOutcome.UNDECIDED and found.ratio and found.smallest_percent is None
    assert found.verdict == f"undecided: {BUSY}, which hides differences; measure again when it is idle"
    small = decide_turns(turns(a_ms, [1.03 * value for value in a_ms], [0.8] * 10), 5)
    assert small.outcome == ComparisonOutcome.UNDECIDED, "a small one may be a large one"


def test_what_shows_in_spite_of_the_waits_is_told_with_a_word_on_them() -> None:
    found = decide_turns(turns(noisy_samples(10), noisy_samples(10, 1.3 * LEVEL_MS, seed=2), [0.8] * 10), 1)
    assert found.outcome == ComparisonOutcome.SLOWER and found.verdict.endswith(f"{BUSY}, so that it may be more")


def test_turns_that_waited_are_left_out_where_enough_others_are_there() -> None:
    slow_ms = [3 * LEVEL_MS] * 10  # what waits hide: there B seems as fast as A
    blocks = turns([*slow_ms, *noisy_samples(8)], [*slow_ms, *noisy_samples(8, 1.3 * LEVEL_MS, seed=2)], [0.8] * 18)
    calm = turns(noisy_samples(8), noisy_samples(8, 1.3 * LEVEL_MS, seed=2), [0.0, None] * 4)
    assert decide_turns(blocks[:20] + calm, 1) == decide_turns(calm, 1)
    assert decide_turns(calm, 1).outcome == ComparisonOutcome.SLOWER
    assert (count_of_waiting(blocks[:20] + calm), count_of_waiting(calm)) == (10, 0)
    hot = [block.model_copy(update={"throttled": "severe"}) for block in calm]
    none = decide_turns(hot, 1)
    assert none.outcome == ComparisonOutcome.NONE and none.verdict == "not decided: 0 turns count; 8 are needed"


def drifting(random: np.random.Generator, turn_count: int, factor: float) -> list[Block]:
    """Turns with 1 % of noise each, on a unit whose level walks by 10 % over them all."""
    steps = random.normal(0, 0.10 / math.sqrt(turn_count), turn_count)
    levels = LEVEL_MS * np.exp(np.cumsum(steps)[:, None] + random.normal(0, 0.01, (turn_count, 2))) * (1.0, factor)
    return turns(*levels.T.tolist(), [None] * turn_count)


TOLD = (ComparisonOutcome.SLOWER, ComparisonOutcome.FASTER)


def test_a_drift_of_ten_percent_hides_no_two_percent_and_makes_no_false_calls() -> None:
    random = np.random.default_rng(3)
    slower = [decide_turns(drifting(random, 20, 1.02), 1).outcome for _ in range(250)]
    same = [decide_turns(drifting(random, 20, 1.0), 0).outcome for _ in range(500)]
    assert slower.count(ComparisonOutcome.SLOWER) >= 0.9 * len(slower)
    assert sum(outcome in TOLD for outcome in same) <= 0.02 * len(same)  # 1 %, and what chance adds
    few = [decide_turns(drifting(random, 8, 1.0), 0).outcome for _ in range(500)]
    assert sum(outcome in TOLD for outcome in few) <= 0.02 * len(few)


def test_half_of_the_time_waited_hides_half_of_a_difference() -> None:
    a_ms, b_ms = noisy_samples(10), noisy_samples(10, seed=2)
    calm, half = (decide_turns(turns(a_ms, b_ms, [share] * 10), 0) for share in (0.0, 0.5))
    assert calm.smallest_percent and half.smallest_percent == pytest.approx(2 * calm.smallest_percent)


def test_runs_of_a_busy_unit_are_not_the_same_either() -> None:
    def run(number: int, share: float) -> StoredRun:
        row = nightly_case(seed=number)
        blocks = tuple(block.model_copy(update={"waited_share": share}) for block in row.blocks)
        return night(number, row.model_copy(update={"blocks": blocks}))

    (calm,) = compare_runs(run(1, 0.0), run(2, 0.1), 4)
    (busy,) = compare_runs(run(1, 0.0), run(2, 0.8), 4)
    assert (calm.outcome, busy.outcome) == (ComparisonOutcome.SAME, ComparisonOutcome.UNDECIDED)
    assert BUSY in busy.verdict


def test_without_a_difference_the_smallest_detectable_one_is_named() -> None:
    found = decide(noisy_samples(10), noisy_samples(10, seed=2), margin_percent=1)
    assert found.outcome == ComparisonOutcome.SAME and found.smallest_percent is not None
    assert found.verdict == (
        f"no difference beyond the noise (the smallest that would show: {found.smallest_percent:.1f} %)"
    )


@pytest.mark.slow
def test_false_alarms_are_rare_and_the_named_smallest_difference_is_detected() -> None:
    trials = [(noisy_samples(10, seed=2 * n), noisy_samples(10, seed=2 * n + 1)) for n in range(300)]
    found = [decide(a, b, margin_percent=0) for a, b in trials]
    alarms = sum(each.outcome in (ComparisonOutcome.SLOWER, ComparisonOutcome.FASTER) for each in found)
    assert alarms <= 9  # 1 % of 300, and what chance adds
    smallest = float(np.median([each.smallest_percent for each in found if each.smallest_percent]))
    assert 0.5 < smallest < 4.0
    shifted = [decide(a, [value * (1 + smallest / 100) for value in b], 0) for a, b in trials]
    share = sum(each.outcome == ComparisonOutcome.SLOWER for each in shifted) / len(shifted)
    assert 0.75 < share < 0.99


@pytest.mark.parametrize(
    "a_ms",
    [[], [1.0] * 4, [math.nan] * 10, [0.0] * 10, [1.0, 1.1, 1.2, 1.3, math.inf, math.nan]],
    ids=["none", "few", "nan", "zero", "few of many"],
)
def test_too_few_figures_give_no_decision(a_ms: list[float]) -> None:
    for found in (decide(a_ms, noisy_samples(10), 1), decide(noisy_samples(10), a_ms, 1)):
        assert found.outcome == ComparisonOutcome.NONE and found.ratio is None
        assert found.verdict.startswith("not decided: A has ") and "5 of each are needed" in found.verdict


def test_identical_figures_are_the_same() -> None:
    assert decide([1.0] * 10, [1.0] * 10, 1).outcome == ComparisonOutcome.SAME


def test_small_p_values_are_shown_as_below_a_thousandth() -> None:
    assert (p_text(0.0123), p_text(0.00099)) == ("p = 0.012", "p < 0.001")


# --- rows and their table


def row(model: str = "m", **more: Any) -> CompareRow:
    names = {"unit": "u", "soc": "s", "device_model": "d", "library": "l", "runtime": "gpu", "status": "ok"}
    return CompareRow(model=model, **{**names, **more})


def test_failures_then_the_slowest_come_first() -> None:
    rows = [row("fast", ratio=0.9), row("none"), row("slow", ratio=1.2), row("failed", status="failed")]
    assert [each.model for each in slowest_first(rows)] == ["failed", "slow", "fast", "none"]


@pytest.mark.parametrize(
    ("found", "worse"),
    [
        (row(outcome="slower"), True),
        (row(outcome="too_small"), False),
        (row(outcome="faster"), False),
        (row(outcome="none"), False),
        (row(status="wrong_result"), True),
    ],
)
def test_failures_and_confirmed_regressions_make_the_exit_status_1(found: CompareRow, worse: bool) -> None:
    assert is_worse(found) is worse


def test_control_characters_from_a_device_do_not_reach_the_terminal() -> None:
    found = row("\x1b[2Jm", status="failed", reason="\x1b[31mno", notes=("driver: \x07",))
    text = table.plain(compare_table([found]))
    assert "\x1b" not in text and "\\x1b[2Jm" in text
    assert note_lines([found]) == ["\x1b[2Jm on u (gpu): driver: \x07"]  # whoever prints it escapes it


def test_each_side_is_described_by_its_run_and_commit() -> None:
    assert side_text(Side(name="good", kind="run", run=3, commit="0123456789abcdef")) == "good (run 3, 0123456789ab)"
    assert side_text(Side(name="run:3", kind="run", run=3)) == "run:3 (run 3)"
    assert side_text(Side(name="a.yml", kind="model")) == "a.yml"
    assert side_text(Side(name="main", commit="0123456789abcdef")) == "main (0123456789ab)"
    assert side_text(Side(name="../x", changed=True)) == "../x (not under git, with changes)"


def test_differences_name_what_both_sides_have_with_other_values() -> None:
    a = Side(fingerprint={"driver": "1", "soc": "x"}, versions={"numpy": "2", "gone": "1"})
    b = Side(fingerprint={"driver": "2", "soc": "x"}, versions={"numpy": "3"})
    assert differences(a, b) == ("driver: 1 in A, 2 in B", "numpy: 2 in A, 3 in B")


# --- stored runs


def night(run: int, *rows: NightlyRow) -> StoredRun:
    info = RunInfo(run, "nightly", "farm nightly", TIME, commit=f"{run}" * 40)
    return StoredRun(f"run:{run}", info, rows)


def test_runs_are_compared_case_by_case() -> None:
    a, b = (
        night(1, nightly_case(), nightly_case("gone"), nightly_case("other")),
        night(2, nightly_case(level_ms=11, seed=2), nightly_case("other"), nightly_case("new")),
    )
    slow, same = slowest_first(compare_runs(a, b, margin_percent=4))
    assert (slow.model, slow.outcome, same.model, same.outcome) == (
        "m",
        ComparisonOutcome.SLOWER,
        "other",
        ComparisonOutcome.SAME,
    )
    assert (slow.a.run, slow.b.run, slow.job, slow.margin_percent) == (1, 2, "compare", 4.0)
    assert slow.b.latency_ms == slow.latency_ms and slow.latency_ms and len(slow.latency_ms.samples) == 24
    assert only_in_one(a, b) == ["gone (gpu, default) on u: only in A", "new (gpu, default) on u: only in B"]


def test_each_setting_is_compared_as_a_case_of_its_own() -> None:
    (found,) = compare_runs(
        night(1, nightly_case(setting="image")), night(2, nightly_case(setting="image"), nightly_case()), 4
    )
    assert found.settings["setting"] == "image"


def test_throttled_blocks_are_left_out() -> None:
    hot = nightly_case(level_ms=20)
    blocks = tuple(block.model_copy(update={"throttled": "hot"}) for block in hot.blocks)
    mixed = nightly_case(seed=2).model_copy(update={"blocks": (*nightly_case(seed=2).blocks, *blocks)})
    (found,) = compare_runs(night(1, nightly_case()), night(2, mixed), 4)
    assert found.outcome == ComparisonOutcome.SAME
    (found,) = compare_runs(night(1, nightly_case()), night(2, hot.model_copy(update={"blocks": blocks})), 4)
    assert found.outcome == ComparisonOutcome.NONE and "B 0" in found.verdict and not is_worse(found)


@pytest.mark.parametrize("status", ["wrong_result", "failed", "device_lost"])
def test_a_case_that_failed_in_b_alone_is_worse(status: str) -> None:
    bad: dict[str, Any] = {"status": status, "reason": "broken"}
    (found,) = compare_runs(night(1, nightly_case()), night(2, nightly_case(**bad)), 4)
    assert (found.status, found.reason, is_worse(found)) == (status, "in B: broken", True)
    (found,) = compare_runs(night(1, nightly_case(**bad)), night(2, nightly_case()), 4)
    assert not is_worse(found) and found.verdict == f"not compared: A {status}: broken"
    (found,) = compare_runs(night(1, nightly_case(**bad)), night(2, nightly_case(**bad)), 4)
    assert not is_worse(found)


def test_other_changes_between_the_runs_are_noted() -> None:
    a = nightly_case(identity="0", sqnr_db=60.0, fingerprint={"driver": "1"})
    b = nightly_case(identity="1", sqnr_db=40.0, fingerprint={"driver": "2"})
    (found,) = compare_runs(night(1, a), night(2, b), 4)
    wanted = ("driver: 1 in A, 2 in B", "another piece of hardware in B", "SQNR 60.0 dB in A, 40.0 dB in B")
    assert found.notes == wanted


def row_with_itself(low: float, high: float, outcome: ComparisonOutcome = ComparisonOutcome.SAME) -> CompareRow:
    return CompareRow.model_construct(model="m", unit="u", runtime="gpu", ratio_ci=(low, high), outcome=outcome)


def simulated(comparisons: int, process_percent: float, replicates: int, rounds: int) -> list[CompareRow]:
    """Comparisons of equals whose processes differ by so much; each round of a process counts as a replicate."""
    random = np.random.default_rng(5)
    rows = []
    for _ in range(comparisons):
        processes = np.exp(random.normal(0, process_percent / 100, (2, replicates)))
        times = np.repeat(processes, rounds, axis=1) * np.exp(random.normal(0, 0.001, (2, replicates * rounds)))
        decision = decide(times[0].tolist(), times[1].tolist(), 0.0)
        rows.append(CompareRow.model_construct(**dict(compare_figures(Side(), Side(), decision, 0.0))))
    return rows


def test_intervals_are_counted_and_measured() -> None:
    rows = [row_with_itself(0.99, 1.01)] * 18 + [
        row_with_itself(1.001, 1.03),
        row_with_itself(0.95, 0.99, ComparisonOutcome.FASTER),
    ]
    found = coverage(rows)
    assert found is not None
    assert (found.comparisons, found.covering, found.told) == (20, 18, 1)
    assert found.width_percent == pytest.approx(2.0)
    assert found.share_ci == pytest.approx((0.683, 0.988), abs=1e-3)  # Clopper and Pearson's tables
    assert found.is_honest


def test_without_intervals_nothing_is_said() -> None:
    empty = CompareRow.model_construct(model="m", unit="u", runtime="cpu", ratio_ci=None)
    assert coverage([empty]) is None
    assert coverage_lines([empty]) == ["m on u (cpu): no comparison had an interval"]


@pytest.mark.slow
@pytest.mark.parametrize("process_percent", [0.0, 0.5, 2.0])
def test_a_process_a_replicate_is_honest(process_percent: float) -> None:
    found = coverage(simulated(300, process_percent, replicates=10, rounds=1))
    assert found is not None and found.is_honest


@pytest.mark.slow
def test_rounds_of_one_process_as_replicates_are_not() -> None:
    found = coverage(simulated(100, 1.0, replicates=2, rounds=5))
    assert found is not None and found.covering < 70
    assert not found.is_honest


def test_a_line_for_each_case() -> None:
    other = row_with_itself(0.5, 0.6).model_copy(update={"unit": "v"})
    lines = coverage_lines([row_with_itself(0.99, 1.01), *[other] * 3, row_with_itself(0.98, 1.02)])
    assert lines[0].startswith(
        "m on u (gpu): 2 of 2 intervals cover 1 (16 to 100 %), as 95 % intervals do; median width"
    )
    assert lines[1].startswith("m on v (gpu): 0 of 3 intervals cover 1 (0 to 71 %), NOT as")
