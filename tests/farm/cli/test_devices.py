import datetime
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from farm.cli import devices
from farm.config.inventory import HOST, Unit
from farm.jobs.fleet import opencl_library
from farm.lease.holder import Holder
from farm.rows.device_state import DeviceState
from farm.tables.devices import devices_json, devices_table
from farm.tables.table import FittedTable, plain
from farm.transport import Transport, ssh
from farm.transport.ssh_known_hosts import HostKey
from farm.units import lookup, survey
from farm.units.facts import Facts
from farm.units.facts_cache import DriverFacts
from farm.units.health import CheckResult, HealthRecords
from farm.units.selection import Selection
from farm.units.survey import UnitEntry, UnitReport, UnitState
from runtime.errors import DeviceLostError
from tests.farm.conftest import CallFarm

Say = Callable[..., tuple[int, str, str]]

SINCE = datetime.datetime(2026, 3, 1, 12, 31, 5, tzinfo=datetime.UTC)
PHONE = UnitReport(
    Unit("mi8", "adb", "sdm845", "MI 8", ("arm64-v8a", "armeabi-v7a"), tags=("lab",), serial="0123"),
    UnitState.BUSY,
    "held by alice@lab (pid 42, tune)",
    Facts(model="MI 8", soc="sdm845", os="Android 10 (API 29)", gpu="adreno"),
    DriverFacts(gpu="Adreno 630", driver="OpenCL 2.0 QUALCOMM build", opencl="OpenCL 2.0"),
    DeviceState(temperature_c=41.5, battery_percent=80, charging=True),
    Holder("alice@lab", 42, "tune", SINCE, SINCE + datetime.timedelta(seconds=43)),
)
ESCAPE = "\x1b]0;owned\x07\u202e\n[red]"
HOSTILE = UnitReport(
    Unit("odd", "adb", "unknown", ESCAPE * 100, (), serial=ESCAPE),
    UnitState.OFFLINE,
    ESCAPE,
    Facts(model=ESCAPE, os=ESCAPE, gpu=ESCAPE * 100),
    DriverFacts(gpu="", driver=ESCAPE, error=ESCAPE),
    listed=False,
)


@pytest.fixture
def say(own_folder: Path, monkeypatch: pytest.MonkeyPatch, farm: CallFarm) -> CallFarm:
    """Calls farm in an empty folder, where no adb server runs; returns status, stdout, stderr."""
    monkeypatch.setattr("farm.units.lookup.adb_phones", lambda port: [])
    return farm


def test_the_table_has_a_line_for_each_unit() -> None:
    line = plain(devices_table([PHONE])).splitlines()[-1]
    assert [cell.strip() for cell in line.split(" | ")] == [
        "mi8",
        "adb",
        "MI 8",
        "sdm845",
        "arm64-v8a,armeabi-v7a",
        "Adreno 630 (OpenCL 2.0 QUALCOMM build)",
        "Android 10 (API 29)",
        "41.5",
        "80 % +",
        "busy: held by alice@lab (pid 42, tune)",
    ]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_terminal_always_shows_name_soc_state_and_reason(width: int) -> None:
    reason = "did not answer within 20 s, and then the link to it was lost three times in a row"
    lost = replace(PHONE, state=UnitState.UNREACHABLE, reason=reason)
    console = Console(file=io.StringIO(), width=width)
    console.print(FittedTable(devices_table([PHONE, lost])))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.split()[:1] == ["mi8"] for line in lines) == 2
    assert sum("sdm845" in line for line in lines) == 2
    words = " ".join(" ".join(lines).split())
    assert all(word in words for word in f"unreachable: {reason}".split())
    assert ("no room for: GPU (driver)" in words, "QUALCOMM build" in words) == (width < 200, width == 200)


def test_what_is_not_known_is_a_dash() -> None:
    board = UnitReport(Unit("board", "ssh", "unknown", "board", ()), UnitState.UNREACHABLE, "no route")
    line = plain(devices_table([board])).splitlines()[-1]
    assert [cell.strip() for cell in line.split(" | ")] == [
        "board", "ssh", "-", "unknown", "-", "-", "-", "-", "-", "unreachable: no route"
    ]  # fmt: skip


def test_a_unit_without_a_driver_says_so() -> None:
    board = UnitReport(HOST, UnitState.READY, driver=DriverFacts(error="no OpenCL driver was found"))
    assert plain(devices_table([board])).splitlines()[-1].endswith("| ready: no OpenCL driver was found")


def test_no_escape_of_a_device_reaches_the_screen() -> None:
    text = plain(devices_table([PHONE, HOSTILE]))
    assert all(line.isprintable() for line in text.splitlines())
    assert len(text.splitlines()) == 4
    assert max(map(len, text.splitlines())) < 1000
    assert json.dumps(devices_json([HOSTILE])).isascii()


def test_lists_this_machine(say: CallFarm) -> None:
    status, out, _ = say("devices")
    assert status == 0
    assert out.splitlines()[-1].startswith("host | local")
    status, out, _ = say("devices", "--json")
    (host,) = json.loads(out)["devices"]
    assert (host["name"], host["soc"], host["abis"], host["state"], host["listed"]) == (
        "host",
        "host",
        ["host"],
        "ready",
        True,
    )


def test_lists_what_cannot_be_reached_too(say: CallFarm) -> None:
    Path("devices.yml").write_text(
        "adb: {discover: listed}\n"
        "devices:\n"
        "  here: {transport: local, tags: lab}\n"
        "  gone: {address: 127.0.0.1, port: 1, target_socs: rk3399, target_abis: arm64, tags: lab}\n"
        "  odd: {address: 127.0.0.1, port: 1}\n"
    )
    status, out, _ = say("devices", "--json")
    here, gone, odd = json.loads(out)["devices"]
    assert status == 0
    assert (here["state"], gone["state"], odd["state"]) == ("ready", "unreachable", "unreachable")
    assert gone["reason"] and (gone["soc"], odd["soc"]) == ("rk3399", "unknown")
    assert [each["name"] for each in json.loads(say("devices", "--tag", "lab", "--json")[1])["devices"]] == [
        "here",
        "gone",
    ]


def test_no_match(say: CallFarm) -> None:
    status, out, err = say("devices", "--soc", "sdm845", "--json")
    assert (status, json.loads(out)["error"]["kind"]) == (3, "no_unit")
    assert err.startswith("error: --soc sdm845: no such unit; there are: host (SoC host, ABI host, ready); to add one")


def test_a_mistake_in_the_file(say: CallFarm) -> None:
    Path("devices.yml").write_text("devices:\n  pixel:\n    serial: a\n    prot: 3\n")
    status, _, err = say("devices")
    assert (status, err) == (2, "error: devices.yml:4: devices.pixel.prot: unknown key, did you mean 'port'?\n")


@pytest.mark.parametrize("as_json", [False, True])
def test_watching_a_pipe_prints_each_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    looks: list[list[UnitReport]] = [[PHONE], [PHONE], [HOSTILE]]
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def look() -> list[UnitReport]:
        if not looks:
            raise KeyboardInterrupt
        return looks.pop(0)

    devices._watch(look, as_json, 5.0)
    out = capsys.readouterr().out
    assert out.count("mi8") == out.count("odd") == 1
    if as_json:
        assert [json.loads(line)["devices"][0]["name"] for line in out.splitlines()] == ["mi8", "odd"]


def test_watching_ends_well(say: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(devices.time, "sleep", interrupted)
    status, out, err = say("devices", "--watch")
    assert (status, err) == (0, "")
    assert "host | local" in out


def test_release(say: CallFarm) -> None:
    assert say("devices", "release", "host")[:2] == (0, "host: was free\n")
    assert say("devices", "release", "hots")[0] == 3


@pytest.mark.slow
def test_check_begins_and_ends_a_quarantine(say: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_library, "_driver", lambda unit, transport: "Adreno 630\x1b[2J")
    HealthRecords().record_check(HOST, [CheckResult("files", False, "came back changed")])
    assert json.loads(say("devices", "--json")[1])["devices"][0]["state"] == "quarantined"
    status, out, _ = say("devices", "check", "host")
    assert status == 0
    assert r"ok   farmrt: Adreno 630\x1b[2J" in out.splitlines()
    assert json.loads(say("devices", "--json")[1])["devices"][0]["state"] == "ready"


def test_a_bad_check(say: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(unit: Unit) -> Transport:
        raise DeviceLostError("gone: no route")

    monkeypatch.setattr(opencl_library, "connect", connect)
    Path("devices.yml").write_text("devices: {gone: {address: 127.0.0.1, port: 1, target_abis: arm64}}\n")
    status, out, _ = say("devices", "check", "gone")
    assert status == 1
    assert out.startswith("BAD  connection: gone: no route\n") and "in quarantine since " in out
    status, out, _ = say("devices", "check", "gone", "--json")
    assert status == 1
    assert json.loads(out)["unit"] == "gone" and not json.loads(out)["findings"][0]["ok"]


@pytest.mark.slow
def test_probe_asks_farmrt(say: CallFarm) -> None:
    (host,) = json.loads(say("devices", "--probe", "--json")[1])["devices"]
    assert host["gpu"] and host["driver"] and "OpenCL" in host["opencl"]
    (later,) = json.loads(say("devices", "--json")[1])["devices"]
    assert (later["gpu"], later["driver"]) == (host["gpu"], host["driver"])


def test_only_units_that_may_be_meant_are_asked(say: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("devices.yml").write_text(
        "devices:\n"
        "  known: {address: a, target_abis: arm64, target_socs: rk3399}\n"
        "  unknown: {address: b, tags: lab}\n"
        "  other: {address: c, tags: desk}\n"
        "  phone: {serial: d, target_abis: arm64-v8a}\n"
    )
    asked: list[str] = []

    def identify(each: UnitEntry, connect: Any) -> UnitReport:
        asked.append(each.unit.name)
        return survey.report_from_cache(each)

    monkeypatch.setattr(survey, "identify", identify)
    for choice, units in {
        Selection(): {"unknown", "other", "phone"},
        Selection(devices=("known",)): set(),
        Selection(socs=("rk3399",)): {"unknown", "other", "phone"},
        Selection(tags=("lab",)): {"unknown"},
        Selection(tags=("lab", "desk"), one_per_soc=True): {"unknown", "other"},
        Selection(one_per_soc=True): {"known", "unknown", "other", "phone"},
    }.items():
        asked.clear()
        assert len(lookup.candidates(choice)) == 4
        assert set(asked) == units


class KnownHosts:
    """Stands for the host keys on the way to a board, and remembers those that were accepted."""

    def __init__(self, *keys: HostKey) -> None:
        self.keys = list(keys)
        self.trusted: list[HostKey] = []

    def host_key_of(self, unit: Unit) -> HostKey:
        return next((key for key in self.keys if key not in self.trusted), replace(self.keys[-1], state="known"))

    def trust(self, key: HostKey) -> None:
        self.trusted.append(key)


def host_key(host: str, state: Any = "unknown") -> HostKey:
    return HostKey(host, "ssh-ed25519", "AAAA", Path("known_hosts"), state)


@pytest.fixture
def board(say: CallFarm, monkeypatch: pytest.MonkeyPatch) -> Callable[..., KnownHosts]:
    def install(*keys: HostKey) -> KnownHosts:
        Path("devices.yml").write_text("devices: {pi: {address: pi.lan}, here: {transport: local}}\n")
        known = KnownHosts(*keys)
        monkeypatch.setattr(ssh, "host_key_of", known.host_key_of)
        monkeypatch.setattr(ssh, "trust", known.trust)
        return known

    return install


def test_trust_shows_each_fingerprint_first(say: CallFarm, board: Callable[..., KnownHosts]) -> None:
    known = board(host_key("gate"), host_key("[pi.lan]:22"))
    status, out, _ = say("devices", "trust", "pi", "--yes")
    assert status == 0
    assert [line.split(" SHA256:")[0] for line in out.splitlines()] == [
        "gate: ssh-ed25519",
        "[pi.lan]:22: ssh-ed25519",
        f"pi: [pi.lan]:22 is trusted ({known.keys[1].fingerprint})",
    ]
    assert [key.host for key in known.trusted] == ["gate", "[pi.lan]:22"]


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1), ("", 130)])
def test_trust_asks(
    say: CallFarm, board: Callable[..., KnownHosts], monkeypatch: pytest.MonkeyPatch, answer: str, status: int
) -> None:
    known = board(host_key("pi.lan", "changed"))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n" if answer else ""))
    found, out, _ = say("devices", "trust", "pi")
    assert (found, len(known.trusted)) == (status, 1 if status == 0 else 0)
    assert out.index("SHA256:") < out.index("WARNING: known_hosts holds another key") < out.index("Is this the key")


def test_trust_with_json_asks_on_standard_error_and_lists_the_keys(
    say: CallFarm, board: Callable[..., KnownHosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    board(host_key("gate"), host_key("pi.lan", "changed"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\nn\n"))
    status, out, err = say("devices", "trust", "pi", "--json")
    found = json.loads(out)
    assert (status, found["status"], found["unit"], found["trusted"]) == (1, "failed", "pi", False)
    assert [(key["host"], key["state"]) for key in found["keys"]] == [("gate", "unknown"), ("pi.lan", "changed")]
    assert err.index("gate: ssh-ed25519 SHA256:") < err.index("Is this the key of pi.lan?") < err.index("not accepted")
    found = json.loads(say("devices", "trust", "pi", "--yes", "--json")[1])
    assert (found["trusted"], [key["state"] for key in found["keys"]]) == (True, ["changed", "known"])


def test_what_is_never_trusted(say: CallFarm, board: Callable[..., KnownHosts]) -> None:
    known = board(host_key("pi.lan", "revoked"))
    status, _, err = say("devices", "trust", "pi", "--yes")
    assert (status, known.trusted) == (2, []) and "revokes this key" in err
    assert say("devices", "trust", "here")[0] == 2


def test_a_known_hosts_file_that_does_not_keep_it(
    say: CallFarm, board: Callable[..., KnownHosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    board(host_key("pi.lan"))
    monkeypatch.setattr(ssh, "trust", lambda key: None)
    status, _, err = say("devices", "trust", "pi", "--yes")
    assert (status, err) == (2, "error: pi: known_hosts does not keep the key of pi.lan\n")


@pytest.mark.slow
def test_a_reservation_is_seen_and_given_back(say: CallFarm) -> None:
    status, out, err = say("reserve", "host", "--for", "2h", "--reason", "flashing \x1b[31m it")
    assert err == ""
    assert status == 0 and out.startswith("host: reserved by ") and "\x1b" not in out
    (unit,) = json.loads(say("devices", "--json")[1])["devices"]
    assert unit["state"] == "reserved" and unit["held_by"].startswith("reserved by ") and unit["held_until"]
    assert say("release", "host")[1].startswith("host: freed, was reserved by ")
    assert json.loads(say("devices", "--json")[1])["devices"][0]["state"] == "ready"


def test_a_reservation_needs_a_time_and_a_known_unit(say: CallFarm) -> None:
    assert say("reserve", "host", "--for", "2 weeks", "--reason", "x")[0] == 2
    assert say("reserve", "host", "--for", "90d", "--reason", "x")[0] == 2
    assert say("reserve", "hots", "--for", "2h", "--reason", "x")[0] == 3
