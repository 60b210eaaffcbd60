"""The survey of units: which there are, the report of each, and the cache of facts for absent ones."""

import dataclasses
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.config.adb_address import LOCAL, AdbAddress
from farm.config.fields import SAFE_NAME
from farm.config.inventory import HOST, Inventory, Unit
from farm.lease import host_lock
from farm.transport import Transport
from farm.transport.base import CompletedProgram
from farm.transport.local import LocalTransport
from farm.units import facts_cache, health, survey
from farm.units.facts import Facts
from farm.units.facts_cache import DriverFacts, driver_of
from farm.units.health import CheckResult
from farm.units.survey import AdbPhone, UnitEntry, UnitReport, UnitState, list_entries, unit_name
from runtime.errors import ConfigError, DeadlineError, DeviceError, DeviceLostError

MI8 = Unit("mi8", "adb", "unknown", "mi8", (), serial="0123")
WIFI = Unit("wifi", "adb", "sdm845", "wifi", ("arm64-v8a",), serial="10.0.0.5:5555", address="10.0.0.5")
BOARD = Unit("board", "ssh", "rk3399", "board", ("arm64",), address="10.0.0.6")


pytestmark = pytest.mark.usefixtures("own_folder")


def states(found: list[UnitEntry]) -> dict[str, tuple[str, str]]:
    return {each.unit.name: (each.state, each.reason) for each in found}


def test_phones_that_are_plugged_in_join_those_of_the_file() -> None:
    phones = [
        AdbPhone("0123", model="MI_8"),
        AdbPhone("9876", model="Pixel_3"),
        AdbPhone("x", "unauthorized", "unlock it"),
    ]
    found = list_entries(Inventory((HOST, MI8, BOARD)), {LOCAL: phones})
    assert [each.unit.name for each in found] == ["host", "mi8", "board", "Pixel_3-9876", "x"]
    assert [each.listed for each in found] == [True, True, True, False, False]
    assert found[3].unit == Unit("Pixel_3-9876", "adb", "unknown", "Pixel_3-9876", (), serial="9876")
    assert states(found)["x"] == (UnitState.UNAUTHORIZED, "unlock it")


def test_devices_yml_can_restrict_the_phones_to_listed_ones() -> None:
    found = list_entries(Inventory((MI8,), discover_adb=False), {LOCAL: [AdbPhone("0123"), AdbPhone("9876")]})
    assert [each.unit.name for each in found] == ["mi8"]


def test_each_adb_server_has_its_own_phones() -> None:
    other = Unit("other", "adb", "unknown", "other", (), serial="0123", adb_server=AdbAddress(port=5040))
    elsewhere = AdbAddress("bench7")
    inventory = Inventory((MI8, other, BOARD), adb_server=elsewhere)
    assert survey.adb_servers(inventory) == {LOCAL, AdbAddress(port=5040), elsewhere}
    phones = {LOCAL: [AdbPhone("0123")], AdbAddress(port=5040): [], elsewhere: [AdbPhone("0123")]}
    found = list_entries(inventory, phones)
    assert [(each.unit.name, each.state, each.unit.adb_server) for each in found] == [
        ("mi8", UnitState.READY, LOCAL),
        ("other", UnitState.NOT_CONNECTED, AdbAddress(port=5040)),
        ("board", UnitState.READY, LOCAL),
        ("0123", UnitState.READY, elsewhere),
    ]


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("device", UnitState.READY),
        ("unauthorized", UnitState.UNAUTHORIZED),
        ("no permissions", UnitState.NO_PERMISSIONS),
        ("authorizing", UnitState.UNAUTHORIZED),
        ("offline", UnitState.OFFLINE),
        ("bootloader", UnitState.OFFLINE),
        ("\x1b[31mready", UnitState.OFFLINE),
    ],
)
def test_states_of_adb_become_states_of_units(word: str, state: UnitState) -> None:
    (found,) = list_entries(Inventory((MI8,)), {LOCAL: [AdbPhone("0123", word)]})
    assert found.state == state
    assert found.reason.isprintable()
    assert (found.reason == "") == (state == UnitState.READY)


def test_a_listed_phone_must_be_plugged_in_unless_it_is_in_the_network() -> None:
    by_serial = dataclasses.replace(WIFI, name="by serial", address="")  # as `adb devices` lists it
    assert states(list_entries(Inventory((MI8, WIFI, by_serial)), {LOCAL: []})) == {
        "mi8": (UnitState.NOT_CONNECTED, "no phone with the serial 0123 is plugged in"),
        "wifi": (UnitState.READY, ""),
        "by serial": (UnitState.READY, ""),
    }
    unknown = list_entries(Inventory((MI8, WIFI)), {})  # the server could not be asked: the connection tells why
    assert states(unknown) == {"mi8": (UnitState.READY, ""), "wifi": (UnitState.READY, "")}


@pytest.mark.parametrize(
    ("phone", "name"),
    [
        (AdbPhone("0123abc", model="MI_8"), "MI_8-0123abc"),
        (AdbPhone("127.0.0.1:5555", model="Pixel 3"), "Pixel-3-127.0.0.1-5555"),
        (AdbPhone("emulator-5554"), "emulator-5554"),
        (AdbPhone("../..", model="../../etc"), "etc-"),
        (AdbPhone("\x1b[31m\n", model="\x1b"), "31m-"),
        (AdbPhone("0" * 300, model="x" * 300), f"{'x' * 30}-{'0' * 30}-"),
        (AdbPhone("(no serial number)"), "no-serial-number-"),
    ],
)
def test_unlisted_phones_are_named_by_model_and_serial(phone: AdbPhone, name: str) -> None:
    made = unit_name(phone)
    assert made == name if not name.endswith("-") else made.startswith(name) and len(made) == len(name) + 6
    assert SAFE_NAME.fullmatch(made)


@pytest.mark.slow
@given(st.text(), st.text())
def test_every_name_can_name_a_file(model: str, serial: str) -> None:
    assert SAFE_NAME.fullmatch(unit_name(AdbPhone(serial, model=model)))


def test_different_phones_have_different_names() -> None:
    named = Unit("MI_8-1", "adb", "unknown", "x", (), serial="0")
    phones = [AdbPhone("1", model="MI_8"), AdbPhone("a b"), AdbPhone("a\tb"), AdbPhone("-")]
    names = [each.unit.name for each in list_entries(Inventory((named,)), {LOCAL: phones})]
    assert len(set(names)) == 5


Ask = Callable[[UnitEntry, survey.Connect], UnitReport]


class FakeUnit:
    """Answers every command with the same output, or an error."""

    def __init__(self, *answers: str | bytes | Exception) -> None:
        self._answers = iter(answers)
        self.closed = False

    def run(self, argv: list[str], deadline_s: float) -> CompletedProgram:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return CompletedProgram(0, answer.encode() if isinstance(answer, str) else answer, b"")

    def close(self) -> None:
        self.closed = True


FACTS = "\n@farm ro.board.platform\nsdm845\n\n@farm ro.product.cpu.abilist\narm64-v8a\n\n@farm ro.product.model\nMI 8\n"
OLD_FACTS = f"{FACTS}\n@farm ro.build.version.release\n6.0.1\n\n@farm ro.build.version.sdk\n23\n"
STATE = "file /sys/class/thermal/thermal_zone0/temp=41500\nbattery level: 80\nbattery scale: 100\nbattery status: 2\n"
FREE = "boot=b\nuptime=100.5\ntoken=0\nbeat=\nclaim=\n"
HELD = (
    "boot=b\nuptime=100.5\ntoken=3\nbeat=99\n"
    'claim={"owner":"alice@lab","pid":42,"job":"tune\\u001b[31m","nonce":"n","lock":"","boot":"b","uptime_s":90,'
    '"lease_s":60}\n'
)


def asked(*answers: str | bytes | Exception, unit: Unit = MI8, how: Ask = survey.inspect) -> UnitReport:
    fake = FakeUnit(*answers)
    report = how(UnitEntry(unit), lambda _: fake)  # type: ignore[arg-type,return-value]
    assert fake.closed
    return report


def test_a_ready_unit_reports_facts_and_state() -> None:
    report = asked(FACTS, STATE, FREE)
    assert (report.state, report.reason) == (UnitState.READY, "")
    assert (report.unit.soc, report.unit.abis, report.unit.model) == ("sdm845", ("arm64-v8a",), "MI 8")
    assert (report.device.temperature_c, report.device.battery_percent, report.device.charging) == (41.5, 80, True)


def test_a_leased_unit_is_busy() -> None:
    report = asked(FACTS, STATE, HELD)
    assert report.state == UnitState.BUSY
    assert report.holder and (report.holder.owner, report.holder.pid) == ("alice@lab", 42)
    assert report.reason == report.holder.line
    assert report.reason.startswith("held by alice@lab (pid 42, tune") and report.reason.isprintable()


def test_a_unit_on_which_a_job_runs_is_watched_without_questions() -> None:
    asked(FACTS, STATE, FREE)
    busy = asked(HELD, how=survey.watch)
    assert (busy.state, busy.unit.soc, busy.device) == (UnitState.BUSY, "sdm845", survey.NO_STATE)
    idle = asked(FREE, FACTS, STATE, FREE, how=survey.watch)
    assert (idle.state, idle.device.temperature_c) == (UnitState.READY, 41.5)


def test_a_unit_in_quarantine_says_until_when() -> None:
    health.HealthRecords().record_check(MI8, [CheckResult("files", False, "came back changed")])
    report = asked(FACTS, STATE, FREE)
    assert report.state == UnitState.QUARANTINED
    assert "files: came back changed" in report.reason


@pytest.mark.parametrize(
    ("answers", "state", "reason"),
    [
        ([DeviceLostError("mi8: went away")], UnitState.UNREACHABLE, "went away"),
        ([DeadlineError("sh: did not end within 20 s")], UnitState.UNREACHABLE, "sh: did not end within 20 s"),
        ([OSError("\x1b[31mbroken\npipe")], UnitState.UNREACHABLE, r"\x1b[31mbroken pipe"),
        ([FACTS, DeviceLostError("mi8: went away")], UnitState.UNREACHABLE, "went away"),
        ([FACTS, STATE, DeviceError("no uptime")], UnitState.FAILING, "no uptime"),
        ([FACTS, STATE, "nonsense"], UnitState.FAILING, "the unit does not tell its uptime"),
        ([FACTS.replace("arm64-v8a", "mips"), STATE, FREE], UnitState.FAILING, "it runs no ABI that farm knows"),
        ([OLD_FACTS, STATE, FREE], UnitState.FAILING, "Android 6.0.1 (API 23) is too old: farm needs Android 7"),
        ([b"\xff" * 2**20, b"\xff" * 2**20, FREE], UnitState.FAILING, "it runs no ABI that farm knows"),
        ([DeviceError("x" * 2**20)], UnitState.UNREACHABLE, "xxx"),
    ],
)
def test_any_error_of_a_unit_becomes_a_report(
    answers: list[str | bytes | Exception], state: UnitState, reason: str
) -> None:
    report = asked(*answers)
    assert (report.state, report.reason[: len(reason)]) == (state, reason)
    assert report.reason.isprintable() and len(report.reason) <= survey.MAX_REASON


def test_a_unit_that_cannot_be_connected_is_unreachable() -> None:
    def connect(unit: Unit) -> Transport:
        raise ConfigError(f"{unit.name}: the key of 10.0.0.6 is not known; `farm devices trust board` shows it")

    report = survey.inspect(UnitEntry(BOARD), connect)
    assert report.state == UnitState.UNREACHABLE
    assert report.reason.startswith("the key of 10.0.0.6 is not known; `farm devices trust board`")


def test_a_board_whose_host_key_is_unknown_is_untrusted() -> None:
    error = DeviceError("board: shows the host key SHA256:x, which is not known yet", "host-key-unknown")
    report = asked(error, unit=BOARD)
    assert (report.state, report.reason) == (UnitState.UNTRUSTED, "shows the host key SHA256:x, which is not known yet")


def test_cached_facts_are_reported_for_an_absent_unit() -> None:
    asked(FACTS, STATE, FREE)
    facts_cache.update(MI8, driver=DriverFacts(gpu="Adreno 630", driver="512.0"))
    gone = asked(DeviceLostError("gone"))
    assert (gone.unit.soc, gone.unit.model, gone.unit.abis) == ("sdm845", "MI 8", ("arm64-v8a",))
    assert gone.driver.gpu == "Adreno 630"
    unplugged = survey.report_from_cache(UnitEntry(MI8, UnitState.NOT_CONNECTED, "not there"))
    assert (unplugged.unit.soc, unplugged.state, unplugged.reason) == ("sdm845", UnitState.NOT_CONNECTED, "not there")
    assert survey.report_from_cache(UnitEntry(MI8)).state == UnitState.READY


def test_a_phone_of_32_bits_says_what_is_missing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    phone = dataclasses.replace(MI8, abis=("armeabi-v7a",))
    report = survey.report_from_cache(UnitEntry(phone))
    assert report.state == UnitState.READY and report.reason.startswith("armeabi-v7a needs the Android NDK: set ")


def test_another_phone_of_the_same_name_has_no_cached_facts() -> None:
    asked(FACTS, STATE, FREE)
    other = Unit("mi8", "adb", "unknown", "mi8", (), serial="4567")
    assert asked(DeviceLostError("gone"), unit=other).unit == other


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"identity": 1}', "null", '{"facts": {"soc": "x"}}', "\0" * 70_000]
)
def test_a_damaged_cache_counts_as_empty(content: str) -> None:
    facts_cache.update(MI8, Facts(soc="sdm845"))
    path = Path("build/units/mi8/known.json")
    assert path.is_file()
    path.write_text(content)
    assert facts_cache.read(MI8) == facts_cache.CachedFacts(identity=host_lock.connection_key(MI8))


def test_a_cache_that_cannot_be_written_is_no_error() -> None:
    Path("build").write_text("a file")
    assert facts_cache.update(MI8, Facts(soc="sdm845")).facts.soc == "sdm845"


@pytest.mark.parametrize(
    ("probe", "driver"),
    [
        ({"opencl": {"platform_version": "OpenCL 3.0", "device": {"name": "Adreno 630", "driver": "v1\x1b[2J"}}},
         DriverFacts(gpu="Adreno 630", driver=r"v1\x1b[2J", opencl="OpenCL 3.0")),
        ({"opencl": {"device": None, "error": "none in /vendor"}}, DriverFacts(error="none in /vendor")),
        ({"opencl": {"device": {"name": 3, "driver": ["x"]}}}, DriverFacts()),
        ({"opencl": {"device": "Adreno"}}, DriverFacts(error="no OpenCL driver was found")),
        ({"opencl": []}, DriverFacts(error="no OpenCL driver was found")),
        ([], DriverFacts(error="no OpenCL driver was found")),
        (None, DriverFacts(error="no OpenCL driver was found")),
    ],
)  # fmt: skip
def test_the_driver_is_read_from_any_probe_answer(probe: object, driver: DriverFacts) -> None:
    assert driver_of(probe) == driver


@pytest.mark.slow
def test_units_are_asked_concurrently_and_a_silent_one_delays_no_other() -> None:
    barrier, silence = threading.Barrier(5), threading.Event()

    def ask(each: UnitEntry) -> UnitReport:
        if each.unit.name == "silent":
            silence.wait(30)
        else:
            barrier.wait(30)  # breaks unless all five are here at once
        return UnitReport(each.unit, UnitState.READY)

    units = [Unit(name, "ssh", "rk3399", name, ("arm64",)) for name in ("a", "b", "silent", "c", "d", "e")]
    start_s = time.monotonic()
    reports = survey.ask_all([UnitEntry(unit) for unit in units], ask, deadline_s=1.0)
    silence.set()
    assert time.monotonic() - start_s < 10
    assert [report.unit.name for report in reports] == ["a", "b", "silent", "c", "d", "e"]
    assert [report.state for report in reports if report.unit.name != "silent"] == [UnitState.READY] * 5
    assert (reports[2].state, reports[2].reason) == (UnitState.UNREACHABLE, "did not answer within 1 s")


def test_this_machine_is_a_ready_unit(tmp_path: Path) -> None:
    report = survey.inspect(UnitEntry(HOST), lambda unit: LocalTransport(tmp_path / unit.name, os.environ))
    assert (report.unit, report.state) == (HOST, UnitState.READY)
    assert report.device.load_average is not None
