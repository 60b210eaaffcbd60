"""How long a round may go without progress follows from its largest step, unless the user says it."""

import dataclasses
from pathlib import Path

import pytest

from farm.config.inventory import HOST
from farm.farmrt.session import Session
from farm.jobs.fleet import unit
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.planner import choose_target
from farm.jobs.fleet.round_limit import LEAST_S, round_limit_s
from farm.jobs.models.plans import lowered
from runtime.plan.plan import Plan
from tests.farm.emulated_units import EmulatedUnits, do_before_command, host_farmrt_processes
from tests.farm.jobs.fleet.test_unit import prepared, probe
from tests.farm.model.tiny_model import write_deployment


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    found = prepared(tmp_path)
    return lowered(found, choose_target(HOST, probe(), found, "gpu"), found.options())


def limit_of(plan: Plan, folder: Path, macs: int = 0, weights_bytes: int = 0) -> float:
    """The limit of a plan whose first step has so many multiply-accumulates, and that has so many bytes of weights."""
    first, *others = plan.steps
    steps = (dataclasses.replace(first, macs=macs), *(dataclasses.replace(each, macs=0) for each in others))
    file = folder / "x.plan"
    write_plan(dataclasses.replace(plan, steps=steps, data=bytes(weights_bytes) or plan.data), file)
    return round_limit_s(file)


def test_little_work_has_the_least_limit(plan: Plan, tmp_path: Path) -> None:
    assert limit_of(plan, tmp_path) == limit_of(plan, tmp_path, macs=10**9) == LEAST_S


@pytest.mark.slow
def test_the_limit_grows_with_the_work(plan: Plan, tmp_path: Path) -> None:
    vgg16 = limit_of(plan, tmp_path, macs=15_500_000_000)
    assert 700 < vgg16 < 900
    assert limit_of(plan, tmp_path, macs=15_500_000_000, weights_bytes=200_000_000) > vgg16 + 9


def test_a_plan_of_another_build_has_the_least_limit(tmp_path: Path) -> None:
    (tmp_path / "x.plan").write_bytes(b"FARMPLAN of another version")
    assert round_limit_s(tmp_path / "x.plan") == LEAST_S


@pytest.mark.slow
@pytest.mark.opencl
def test_a_round_beyond_the_limit_is_a_row_that_names_it_and_its_option(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch
) -> None:
    (emulated.folder / "devices.yml").unlink()
    watched_ms: list[object] = []
    load = Session.loading
    monkeypatch.setattr(
        Session, "loading", lambda *given, **words: watched_ms.append(words["watchdog_ms"]) or load(*given, **words)
    )
    monkeypatch.setattr(unit, "COMPILE_S", 1.0)
    do_before_command(monkeypatch, "run", lambda: [each.suspend() for each in host_farmrt_processes(emulated)])
    done = emulated.farm("run", "tiny.yml", "--device", "host", "--round", "1", "--round-limit", "0.5")
    assert (done.status, done.row["status"], watched_ms) == (1, "timeout", [500]), done
    told = "a round may go 0.5 s without progress here; --round-limit SECONDS or the key round_limit sets another limit"
    assert told in done.row["reason"]


@pytest.mark.slow
@pytest.mark.opencl
def test_the_deployment_file_sets_a_limit_that_the_option_replaces(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch
) -> None:
    (emulated.folder / "devices.yml").unlink()
    write_deployment(emulated.folder, runtime="cpu+gpu", round_limit="77.5")
    limits_s = [
        [row["settings"]["round_limit_s"] for row in emulated.farm("run", "tiny.yml", "--round", "1", *more).rows]
        for more in ([], ["--round-limit", "88"])
    ]
    assert limits_s == [[77.5, 77.5], [88.0, 88.0]]


@pytest.mark.slow
@pytest.mark.opencl
def test_a_variant_that_does_not_come_to_an_end_costs_opbench_one_limit(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch
) -> None:
    (emulated.folder / "devices.yml").unlink()
    do_before_command(monkeypatch, "trial", lambda: [each.suspend() for each in host_farmrt_processes(emulated)])
    pattern = "^unary/buffer/fp32/(Relu|Sigmoid)"
    done = emulated.farm("opbench", "--device", "host", "--filter", pattern, "--min-time", "0.01", "--round-limit", "3")
    assert (done.status, [row["status"] for row in done.rows]) == (1, ["timeout", "ok"]), done
    assert "--round-limit SECONDS" in done.rows[0]["reason"]
