"""`farm accept` on played GPUs and emulated phones: each planted fault is found by the check that should find it."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.condition.device_state import Sensors
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.emulation.phone_unit import private_adb_server, unit_of_phone
from farm.emulation.played_gpu import played_environment
from farm.jobs.accept import case_batch, job, kernels, load
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.opening import open_unit
from farm.transport import Transport, adb
from farm.units import acceptance, health, lookup, survey
from farm.units.acceptance import AcceptanceFinding, Trust
from farm.units.health import CheckResult
from farm.units.selection import Selection
from farm.units.survey import UnitState
from runtime.kernels.source import build_options
from runtime.plan.plan import Plan, Step
from runtime.types import Precision
from tests.farm.conftest import CallFarm

pytestmark = [pytest.mark.slow, pytest.mark.opencl]

FEW = ("Relu", "Add")
CHECKS = {check.name: check for check in job.CHECKS}


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> Callable[[str, str], AcceptanceFinding]:
    """What a check finds on the host with a played GPU."""

    def found(profile: str, check: str) -> AcceptanceFinding:
        for name, value in played_environment(profile).items():
            monkeypatch.setenv(name, value)
        (unit,) = lookup.chosen_units(Selection(devices=("host",)))
        with open_unit(unit) as opened:
            return job.found(job.UnitTrial(opened, is_quick=True), CHECKS[check])

    return found


@pytest.fixture
def few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in kernels.small_cases() if case.op in FEW]
    monkeypatch.setattr(kernels, "small_cases", lambda: iter(cases))
    monkeypatch.setattr("farm.jobs.accept.load.SHORT_S", 0.1)
    monkeypatch.setattr("farm.jobs.accept.load.BATCH_S", 0.05)


@pytest.mark.parametrize(
    ("profile", "check", "state", "trust"),
    [
        ("mali-g72", "clock of events", "ok", Trust()),
        ("mali-g72:timestamps=reversed", "clock of events", "limited", Trust(host_times=True)),
        ("adreno640:timestamps=zero", "clock of events", "limited", Trust(host_times=True)),
        ("adreno640:profiling=hangs", "clock of events", "limited", Trust(host_times=True)),
        ("adreno640:recordings=refused", "launches", "ok", Trust(flush_every=0)),  # else this machine's times decide
        ("adreno640:dies_after_launches=3", "launches", "failed", Trust()),
        ("adreno640", "zero copy", "ok", Trust(zero_copy=True)),
        ("mali-g72", "zero copy", "ok", Trust()),
        ("adreno640:host_ptr=fails_late", "zero copy", "limited", Trust()),
        ("powervr-ge8320", "limits", "ok", Trust()),
        ("adreno640", "kernels", "ok", Trust()),
        ("adreno640:build_fails_on=read_imageh", "kernels", "limited", Trust()),
        ("adreno640:build_fails_on=void unary", "kernels", "limited", Trust()),
        ("mali-g72:build_crashes_on=void unary", "kernels", "limited", Trust()),
        ("mali-g72:max_registers=20", "kernels", "limited", Trust()),
        ("mali-g72:build_fails_on=kernel void", "kernels", "failed", Trust()),
        ("mali-g72:build_fails_on=conv", "sensors", "ok", Trust()),
    ],
)
@pytest.mark.usefixtures("few_kernels")
def test_a_planted_fault_is_found(
    find: Any, monkeypatch: pytest.MonkeyPatch, profile: str, check: str, state: str, trust: Trust
) -> None:
    monkeypatch.setattr(job, "EXAMINE_S", 10.0)
    finding = find(profile, check)
    assert (finding.state, finding.trust) == (state, trust), finding.text


def test_a_step_of_eight_bits_more_or_less_is_no_fault(find: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a half number has lost decides about what lies in the middle of two."""
    cases = [case for case in kernels.small_cases() if case.in_bytes and case.op == "HardSwish"]
    monkeypatch.setattr(kernels, "small_cases", lambda: iter(cases))
    finding = find("mali-g72", "kernels")
    assert len(cases) == 1 and finding.state == "ok", finding.text


def test_a_queue_that_waits_for_a_flush_gets_one(find: Any) -> None:
    assert find("mali-g72:pace=yes", "launches").trust.flush_every in (4, 16, 64)


def test_memory_that_is_not_there_is_not_planned_with(find: Any) -> None:
    finding = find("adreno640:memory_mb=64", "limits")
    assert finding.state == "limited" and 0 < (finding.trust.max_allocation_bytes or 0) <= 64 << 20


@pytest.mark.usefixtures("few_kernels")
def test_a_unit_whose_driver_refuses_kernels_is_accepted_without_them(
    farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crashes, a class of kernels that builds nowhere, and the load that runs without it; told, and tried afresh."""
    for name, value in played_environment("mali-g72:build_crashes_on=void unary").items():
        monkeypatch.setenv(name, value)
    status, out, _ = farm("accept", "host", "--quick")
    assert status == 0 and "host: accepted" in out and "FAILED" not in out
    assert "limited kernels: " in out and "variants of unary (buffer)" in out and "-> plans do without " in out
    monkeypatch.setenv("FARM_PLAYED_KEYS", "")
    (kernels_found,) = (
        each
        for each in json.loads(farm("accept", "host", "--quick", "--fresh", "--json")[1])["findings"]
        if each["check"] == "kernels"
    )
    assert kernels_found["state"] == "ok" and "do not work" not in kernels_found["text"]


@pytest.fixture
def planted(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[AcceptanceFinding, Plan]]:
    """What is found of kernels where launches of some programs change nothing, and the plan of a convolution then."""
    case = next(each for each in kernels.small_cases() if each.op == "Conv" and each.weights[0][2:] == (1, 1))
    monkeypatch.setattr(kernels, "small_cases", lambda: iter([case]))

    def found(wrong_on: str) -> tuple[AcceptanceFinding, Plan]:
        for name, value in played_environment(f"mali-g72:image_width=0,wrong_on={wrong_on}").items():
            monkeypatch.setenv(name, value)
        (unit,) = lookup.chosen_units(Selection(devices=("host",)))
        with open_unit(unit) as opened:
            finding = job.found(job.UnitTrial(opened, is_quick=False), CHECKS["kernels"])
            return finding, case_batch.cases_plan(opened, [case], opened.probe.target(unit.soc, memory="buffer"))

    return found


def test_another_variant_takes_the_place_of_a_wrong_one(planted: Any) -> None:
    """It is used from then on, and both are told; a unit of which no variant is right fails."""
    step = _gemm(planted("nothing of this name")[1])
    options = build_options(step.variant, Precision.FP32, step.defines)
    finding, plan = planted(options)
    other = _gemm(plan)
    assert other.variant != step.variant and finding.state == "limited", finding.text
    wrong = f"{step.kernel.name} buffer fp32 {step.variant.name} computes wrongly (y["
    assert wrong in finding.text and f"{other.variant.name} is right and used" in finding.text
    finding, _ = planted("-DACTIVATION")
    assert finding.state == "failed" and finding.text.startswith("buffer/fp32 Conv"), finding.text


def _gemm(plan: Plan) -> Step:
    return next(step for step in plan.steps if len(step.kernel.variants) > 1)


@pytest.mark.usefixtures("few_kernels")
def test_what_no_time_is_left_for_is_named(monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    monkeypatch.setattr(kernels, "BATCH", 1)
    monkeypatch.setattr(kernels, "BUDGET_S", 0.0)
    finding = find("mali-g72:image_width=0", "kernels")
    assert finding.state == "limited" and finding.text.endswith("no time was left for Add, Relu"), finding.text


@pytest.mark.usefixtures("few_kernels")
def test_what_no_time_was_left_for_is_tried_the_next_time(
    monkeypatch: pytest.MonkeyPatch, farm: CallFarm, own_folder: Path
) -> None:
    for name, value in played_environment("mali-g72:image_width=0").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(kernels, "BATCH", 1)
    monkeypatch.setattr(kernels, "BUDGET_S", 0.0)

    def found() -> dict[str, Any]:
        findings = json.loads(farm("accept", "host", "--quick", "--json")[1])["findings"]
        return next(each for each in findings if each["check"] == "kernels")

    assert found()["late"] == ["Add", "Relu"]
    monkeypatch.setattr(kernels, "BUDGET_S", 600.0)
    last = found()
    assert (last["state"], last["late"], last["kept"]) == ("ok", [], False) and "; then " in last["text"]
    assert found()["kept"]


@dataclasses.dataclass(frozen=True)
class Phone:
    """An emulated phone and the unit that it is."""

    emulated: EmulatedPhone
    unit: Unit


@pytest.fixture
def phone(own_folder: Path) -> Iterator[Phone]:
    settings = PhoneSettings(soc="kirin970", gpu="mali-g72")
    with private_adb_server(own_folder) as port, EmulatedPhone(settings) as emulated:
        yield Phone(emulated, unit_of_phone("mate", emulated, port))


@pytest.mark.usefixtures("few_kernels")
def test_a_phone_is_accepted_once_and_again_after_an_update(phone: Phone) -> None:
    first = list(job.accept_job([phone.unit], is_quick=True))
    assert [each.finding.check for each in first] == list(CHECKS)
    assert not any(each.finding.state == "failed" or each.kept for each in first), first
    trust = acceptance.trust_of(phone.unit)
    assert trust.flush_every in (4, 16, 64) and not trust.zero_copy
    assert all(each.kept for each in job.accept_job([phone.unit], is_quick=True))
    with open_unit(phone.unit) as opened:
        assert opened.trust == trust
    phone.emulated.inject("property:name=ro.build.fingerprint,value=huawei/updated")
    with open_unit(phone.unit) as opened:
        assert opened.trust == Trust()
    again = list(job.accept_job([phone.unit], is_quick=True))
    assert not any(each.kept for each in again)


@pytest.mark.parametrize(
    ("fault", "check", "state", "trust"),
    [
        ("storage:free=300MB", "storage", "limited", {}),
        ("storage:free=50MB", "storage", "failed", {}),
        ("alter:at=pull,bytes=1000", "link", "failed", {}),
        ("sensor:zone=gpu,shows=charge", "sensors", "limited", {"ignored_zones": ("gpu",)}),
        ("asleep", "awake", "limited", {"wakes": True}),
    ],
)
@pytest.mark.usefixtures("few_kernels")
def test_a_fault_of_the_phone_is_found(
    phone: Phone, fault: str, check: str, state: str, trust: dict[str, object]
) -> None:
    with open_unit(phone.unit) as opened:
        phone.emulated.inject(fault)
        finding = job.found(job.UnitTrial(opened, is_quick=True), CHECKS[check])
    assert finding.state == state, finding.text
    assert finding.trust.model_dump(exclude_defaults=True) == trust and bool(finding.effect) == (state == "limited")


@pytest.mark.parametrize(
    ("fault", "found"), [("storage:free=2MB", ["storage"]), ("alter:at=pull,bytes=1000", ["storage", "link"])]
)
@pytest.mark.usefixtures("few_kernels")
def test_a_phone_that_keeps_no_files_is_tried_no_further(phone: Phone, fault: str, found: list[str]) -> None:
    """So that no kernel is blamed for it: once that is mended, all is tried."""
    with open_unit(phone.unit):  # farmrt is there
        pass
    phone.emulated.inject(fault)
    first = list(job.accept_job([phone.unit], is_quick=True))
    assert [each.finding.check for each in first] == found and first[-1].finding.state == "failed", first
    phone.emulated.clear_faults()
    assert [each.finding.check for each in job.accept_job([phone.unit], is_quick=True)] == list(CHECKS)


@pytest.mark.usefixtures("few_kernels")
def test_a_phone_that_becomes_slow_under_load_rests_until_it_is_fast(
    phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is slowed down behind the first readings, however few there are, and let go when it rests."""
    read, looks = load.read_sensors, iter(range(100))

    def look(transport: Transport) -> Sensors:
        if next(looks) == load.FEW:
            phone.emulated.inject("slow:factor=8")
        return read(transport)

    monkeypatch.setattr(load, "read_sensors", look)
    monkeypatch.setattr(load, "LONG_S", 3.0)
    monkeypatch.setattr(load, "BATCH_S", 0.4)  # more than the pauses by which a phone is slowed down
    monkeypatch.setattr(load, "AS_BEFORE", 3.0)  # this machine has other work
    with open_unit(phone.unit) as opened:
        monkeypatch.setattr(opened, "sleep", lambda _: phone.emulated.clear_faults())
        finding = job.found(job.UnitTrial(opened, is_quick=False), CHECKS["throttling"])
    assert finding.state == "limited" and finding.trust.rest_s == load.REST_STEP_S, finding.text
    assert "a throttled sample rests 10 s" in finding.effect


@pytest.mark.usefixtures("few_kernels")
def test_what_was_found_of_a_phone_is_what_jobs_do_there(phone: Phone) -> None:
    """It is woken before a sample, and rests as long as it needs."""
    with open_unit(phone.unit):  # its facts are known from now on
        pass
    found = AcceptanceFinding(check="storage", state="limited", text="", trust=Trust(wakes=True, rest_s=7))
    acceptance.keep(phone.unit, found)
    with open_unit(phone.unit) as opened:
        assert opened.rest.rest_s == 7
        phone.emulated.inject("asleep")
        opened.measured(lambda: None)
        assert opened.state().screen_on


@pytest.mark.usefixtures("few_kernels")
def test_an_acceptance_that_is_interrupted_goes_on(phone: Phone) -> None:
    begun = job.accept_job([phone.unit], is_quick=True)
    before = [next(begun).finding for _ in range(3)]
    begun.close()
    again = list(job.accept_job([phone.unit], is_quick=True))
    assert [each.finding for each in again[:3]] == before and all(each.kept for each in again[:3])
    assert len(again) == len(CHECKS) and not again[-1].kept


@pytest.mark.usefixtures("few_kernels")
def test_a_unit_that_computes_wrongly_is_quarantined_until_it_is_right(
    farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as wrong:
        wrong.setattr(case_batch, "first_fault", lambda *_: "y[0] is 1, the reference says 2")
        status, out, _ = farm("accept", "host", "--quick", "--json")
    findings = {each["check"]: each["state"] for each in json.loads(out)["findings"]}
    assert status == 1 and findings["kernels"] == "failed" and findings["link"] == "ok"
    (unit,) = lookup.chosen_units(Selection(devices=("host",)))
    quarantine = health.HealthRecords().read(unit).quarantine
    assert quarantine and "kernels: buffer/fp32" in quarantine.reason
    entry = next(entry for entry in lookup.present() if entry.unit.name == "host")
    assert survey.report_from_cache(entry).state == UnitState.QUARANTINED
    status, out, _ = farm("accept", "host", "--quick")
    assert status == 0 and "host: accepted" in out and health.HealthRecords().read(unit).quarantine is None
    assert "accepted 20" in farm("devices", "--device", "host")[1]


def test_a_phone_that_adb_reaches_over_the_network_is_asked_for_a_while(
    phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not devices.yml has its address: `adb connect` is all that most such phones get."""
    for name, value in {"PINGS": 2, "PING_EVERY_S": 0.05, "NETWORK_PING_S": 1.0}.items():
        monkeypatch.setattr(job, name, value)
    assert not phone.unit.address
    with open_unit(phone.unit) as opened:
        slept, sleep = list[float](), opened.sleep
        monkeypatch.setattr(opened, "sleep", lambda seconds: (slept.append(seconds), sleep(seconds)))
        finding = job.found(job.UnitTrial(opened, is_quick=False), CHECKS["link"])
    assert finding.state == "ok" and len(slept) > 2 and sum(slept) < 1.1, finding.text


@pytest.mark.usefixtures("few_kernels")
def test_a_phone_that_is_away_is_not_taken_for_good_since_it_was_accepted(
    phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in the quarantine that lost jobs brought it, and loses nobody's time."""
    assert not any(each.finding.state == "failed" for each in job.accept_job([phone.unit], is_quick=True))
    monkeypatch.setattr(adb, "SETTLE_S", 1.0)
    phone.emulated.inject("offline")
    records = health.HealthRecords()
    (found,) = job.accept_job([phone.unit], is_quick=True, fleet=FleetOptions(retries=0))
    assert (found.finding.check, found.finding.state) == ("unit", "failed")
    assert [outcome.ok for outcome in records.read(phone.unit).outcomes] == [False]
    records.record_check(phone.unit, [CheckResult("link", False, "was lost")])
    (found,) = job.accept_job([phone.unit], is_quick=True)
    assert found.finding.check == "connection" and records.read(phone.unit).quarantine


def test_no_unit_is_named(farm: CallFarm, own_folder: Path) -> None:
    status, _, said = farm("accept")
    assert (
        status == 2 and said == "error: name the units to accept; `farm devices` lists them (see farm accept --help)\n"
    )
