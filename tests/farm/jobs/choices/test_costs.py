"""Costs of a SoC by replayed journals: its own, else the best match of its GPU family, else modelled."""

import dataclasses
import math
from collections.abc import Mapping

import pytest

from farm.config.execution import Execution
from farm.jobs.choices.costs import NEVER_MS, KnownCosts, known_costs, trials_fingerprint
from farm.workspace import journal_file
from runtime.kernels.spec import Variant
from runtime.lowering.launch import Launch
from runtime.lowering.lower import emit_launches
from runtime.lowering.options import Options
from runtime.selection.costs import CostOrigin, cost_key
from runtime.selection.listing import find_candidates
from runtime.selection.selection import select_choice
from runtime.target import Target
from tests.runtime.graphs import GraphMaker
from tuner.journal import Journal
from tuner.trial import DRIVERS_CHOICE, Candidate, Trial, TrialStatus

PHONE = Target("sdm845", "arm64-v8a", "Adreno (TM) 630", "v1", "OpenCL 2.0", "adreno-6xx")
TWIN = dataclasses.replace(PHONE, soc="sdm670", gpu="Adreno (TM) 615")
COUSIN = dataclasses.replace(PHONE, soc="sm8550", gpu="Adreno (TM) 740", gpu_family="adreno-7xx")
STRANGER = dataclasses.replace(PHONE, soc="rk3399", gpu="Mali-T860", gpu_family="mali-midgard")
MS = 1e6


pytestmark = pytest.mark.usefixtures("own_folder")


def write(target: Target, times: Mapping[str, float], tells_family: bool = True) -> None:
    provenance = {"gpu_family": target.gpu_family} if tells_family else {}
    with Journal(journal_file(target.soc), trials_fingerprint(target), provenance) as journal:
        for key, ms in times.items():
            status = TrialStatus.OK if math.isfinite(ms) else TrialStatus.WRONG
            ns = (ms * MS,) if math.isfinite(ms) else ()
            journal.add("k", key, Candidate(Variant(), DRIVERS_CHOICE), Trial(status, ns))


def launches() -> list[Launch]:
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.conv(maker.input(1, 4, 8, 8), 8), 4))
    return emit_launches(graph, PHONE, Options()).launches


def test_each_cost_says_its_origin() -> None:
    every = launches()
    own, of_family, modelled = every[0], every[1], every[2]
    write(PHONE, {cost_key(own): 2.0})
    write(TWIN, {cost_key(own): 1.0, cost_key(of_family): 3.0})
    known = known_costs(PHONE)
    costs = known.costs()
    assert (costs.origin(own), costs.milliseconds(own)) == (CostOrigin.MEASURED, 2.0)
    assert (costs.origin(of_family), costs.milliseconds(of_family)) == (CostOrigin.FAMILY, 6.0), (
        "twice as slow as its twin"
    )
    assert costs.origin(modelled) == CostOrigin.MODELLED and costs.milliseconds(modelled) > 0
    assert known.family_source == "sdm670"
    doubtful = known.costs(3.0)
    assert doubtful.milliseconds(own) == 2.0 and doubtful.milliseconds(of_family) == 18.0
    assert doubtful.milliseconds(modelled) == pytest.approx(3 * costs.milliseconds(modelled))


def test_the_very_family_is_the_best_match_then_the_wider_one_and_no_other() -> None:
    write(STRANGER, {"a": 1.0, "b": 1.0})
    assert known_costs(PHONE).family == {}
    write(COUSIN, {"a": 5.0, "b": 5.0})
    assert known_costs(PHONE).family == {"a": 5.0, "b": 5.0}
    write(TWIN, {"a": 2.0})
    assert known_costs(PHONE).family == {"a": 2.0}


def test_an_older_journal_belongs_to_the_family_of_its_soc() -> None:
    write(TWIN, {"a": 2.0}, tells_family=False)
    assert known_costs(PHONE).family == {"a": 2.0}, "sdm670 is known to have an Adreno 6xx"
    assert known_costs(dataclasses.replace(PHONE, gpu_family="unknown")).family == {}


def test_another_driver_or_hint_is_another_device() -> None:
    write(PHONE, {"a": 2.0})
    assert known_costs(PHONE).measured == {"a": 2.0}
    newer = dataclasses.replace(PHONE, driver="v2")
    assert (known_costs(newer).measured, known_costs(newer).family) == ({}, {"a": 2.0})
    assert known_costs(PHONE, Execution(gpu_perf_hint="high")).measured == {}


def test_what_fails_on_the_device_is_never_worth_it() -> None:
    write(PHONE, {"a": math.inf})
    assert known_costs(PHONE).measured == {"a": NEVER_MS}
    assert KnownCosts(PHONE, {}).with_measured({"a": math.inf, "b": 1.0}).measured == {"a": NEVER_MS, "b": 1.0}


@pytest.mark.parametrize("content", ["rubbish", '{"journal": "farm-tuning", "version": 7}\n'])
def test_a_damaged_journal_is_refused_by_name_and_the_others_are_used(content: str) -> None:
    write(TWIN, {"a": 2.0})
    path = journal_file("sm8550")
    path.write_text(content)
    known = known_costs(PHONE)
    assert known.family == {"a": 2.0}
    assert known.refused == (f"{path}: no tuning journal of version 1",)
    assert path.read_text() == content, "nothing is lost"


def test_recorded_times_decide_between_images_and_buffers() -> None:
    """The same graph on a GPU that loves images, and on one that loves buffers."""
    maker = GraphMaker()
    x = maker.input(1, 8, 16, 16)
    for _ in range(4):
        x = maker.conv(x, 8)
    graph = maker.finish(x)
    every = {cost_key(each): each for each in find_candidates(graph, PHONE).launches()}
    for soc, loved in (("sdm845", "image"), ("sm8550", "buffer")):
        target = dataclasses.replace(PHONE, soc=soc)
        write(target, {key: 0.1 if each.kernel.memory == loved else 1.0 for key, each in every.items()})
        selection = select_choice(graph, target, known_costs(target).costs())
        assert {str(choice.place) for choice in selection.choice.nodes.values()} == {loved}
        assert all(node.origins == (CostOrigin.MEASURED,) for node in selection.nodes.values())
