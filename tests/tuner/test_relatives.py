"""Other devices' journals: how alike a device is, which variants it suggests first and which builds it spares."""

import dataclasses
import math
from pathlib import Path

import pytest

from runtime.kernels.spec import Variant, variant
from tests.tuner.simulated_device import LAUNCHES, SimulatedDevice, true_time_ns
from tests.tuner.test_search import expand
from tuner.device_pool import pool_of_one
from tuner.journal import Journal, foreign_trials
from tuner.ranking import Ranking
from tuner.relatives import KernelRelatives, Relative, Relatives, relatives_of
from tuner.search import LEVELS, search
from tuner.trial import Candidate, Trial, TrialStatus
from tuner.trial_runner import TrialRunner

VARIANTS = [variant(TILE=size) for size in range(9)]


def device(family: str, times_ns: list[float], kernel: str = "conv") -> Relative:
    relative = Relative(family)
    for each, ns in zip(VARIANTS, times_ns, strict=False):
        relative.observe(kernel, "launch", each.name, ns)
    return relative


def seen(relatives: Relatives, times_ns: list[float], key: str = "other") -> None:
    for each, ns in zip(VARIANTS, times_ns, strict=False):
        relatives.own.observe("conv", key, each.name, ns)


def test_before_any_probe_the_family_says_how_alike_devices_are() -> None:
    relatives = Relatives("cpu")
    same, kind, gpu, unknown = (relatives.likeness(Relative(name)) for name in ("cpu", "pocl-3.1", "adreno-6xx", ""))
    assert 1 > same > kind > gpu == unknown > 0


def test_then_the_order_of_variants_does_whatever_the_scale() -> None:
    alike, unlike = device("adreno-6xx", [1e3, 2e3, 3e3, 4e3]), device("cpu", [4, 3, 2, 1])
    relatives = Relatives("cpu", [alike, unlike])
    seen(relatives, [1, 2, 3, 4])
    assert relatives.likeness(alike) == 1 and relatives.likeness(unlike) == 0
    assert relatives.penalty("conv", VARIANTS[0]) == 0, "who orders them the other way round has no say"
    assert relatives.penalty("conv", VARIANTS[3]) == pytest.approx(math.log(4))


def test_variants_that_are_as_fast_here_are_no_evidence() -> None:
    other = device("cpu", [1, 2, 3, 4])
    relatives = Relatives("cpu", [other])
    before = relatives.likeness(other)
    seen(relatives, [1.00, 1.01, 1.02, 1.01])
    assert relatives.likeness(other) == before


def test_the_best_is_tried_first_with_probes_from_among_the_others() -> None:
    relatives = Relatives("cpu", [device("pocl-3.1", [9, 8, 7, 6, 5, 4, 3, 2, 1])])
    order = relatives.in_order("conv", VARIANTS)
    assert order == [VARIANTS[index] for index in (8, 6, 4, 2, 7, 5, 3, 1, 0)]


def test_where_no_device_knows_a_kernel_probes_are_spread_over_its_table() -> None:
    relatives = Relatives("cpu", [device("pocl-3.1", [9, 8, 7, 6, 5, 4, 3, 2, 1])])
    order = relatives.in_order("unknown kernel", VARIANTS)
    assert order == [VARIANTS[index] for index in (0, 2, 4, 6, 1, 3, 5, 7, 8)]


def test_only_a_device_that_was_shown_to_be_alike_spares_builds() -> None:
    relatives = Relatives("cpu", [device("cpu", [1, 2, 3, 4, 5, 1.1])])
    assert not relatives.is_far_behind("conv", VARIANTS[4])
    seen(relatives, [1, 2, 3, 4])
    assert relatives.is_far_behind("conv", VARIANTS[4])
    assert not relatives.is_far_behind("conv", VARIANTS[5]), "nearly the best there"
    assert not relatives.is_far_behind("conv", VARIANTS[7]), "unknown there"


def test_what_was_tried_here_is_judged_by_its_own_times() -> None:
    relatives = Relatives("cpu", [device("cpu", [1, 2, 3, 4, 5])])
    ranking = Ranking(KernelRelatives(relatives, "conv"))
    for index, ns in ((0, 1.0), (1, 2.0), (2, 3.0), (4, 6.0)):
        ranking.observe("here", Candidate(VARIANTS[index], (1, 1, 1)), ns)
    assert not ranking.is_far_behind(VARIANTS[4], by_options=False) and ranking.is_far_behind(
        VARIANTS[3], by_options=False
    )


def write(path: Path, fingerprint: str, family: str, times_ns: dict[Variant, float]) -> None:
    with Journal(path, fingerprint, {"gpu_family": family}) as journal:
        for each, ns in times_ns.items():
            trial = Trial(TrialStatus.OK if math.isfinite(ns) else TrialStatus.FAILED, (ns,))
            journal.add("conv", "launch", Candidate(each, (1, 1, 1)), trial)


def test_good_trials_of_other_fingerprints_are_read_from_every_journal(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "mine", "cpu", {VARIANTS[0]: 1.0})
    write(tmp_path / "a.jsonl", "theirs", "pocl-3.1", {VARIANTS[0]: 2.0, VARIANTS[1]: math.inf})
    write(tmp_path / "b.jsonl", "phone", "adreno-6xx", {VARIANTS[1]: 3.0})
    (tmp_path / "c.jsonl").write_text("not a journal\n")
    files = [*sorted(tmp_path.glob("*.jsonl")), tmp_path / "not there"]
    found = list(foreign_trials(files, "mine"))
    assert [(each.fingerprint, each.family, each.ns) for each in found] == [
        ("theirs", "pocl-3.1", 2.0),
        ("phone", "adreno-6xx", 3.0),
    ]


def built(path: Path, relatives: Relatives) -> tuple[int, float]:
    """Programs that a quick search builds, and the model's time with what it chose."""
    with Journal(path, "mine") as journal:
        runner = TrialRunner(pool_of_one(SimulatedDevice()), journal)
        outcome = search(LAUNCHES, expand, runner, LEVELS["quick"], relatives=relatives)
    chosen_ns = sum(true_time_ns(each.launch, each.chosen) * len(each.launch.uses) for each in outcome.verdicts)
    return len(runner.programs), chosen_ns


@pytest.mark.slow
def test_a_search_that_starts_from_a_twin_builds_fewer_programs_and_finds_as_much(tmp_path: Path) -> None:
    alone, alone_ns = built(tmp_path / "alone.jsonl", Relatives("cpu"))
    twin = [dataclasses.replace(each, fingerprint="twin") for each in foreign_trials([tmp_path / "alone.jsonl"], "")]
    helped, helped_ns = built(tmp_path / "helped.jsonl", relatives_of("cpu", twin))
    assert helped < 0.7 * alone
    assert helped_ns < 1.04 * alone_ns
