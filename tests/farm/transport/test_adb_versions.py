"""With each adb server that people have, the newest and Debian's: programs and files, and phones that return."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.emulation.phone_unit import private_adb_server
from farm.transport import adb
from farm.transport.adb_server import AdbDevice, AdbServer, find_adb
from farm.units import lookup
from runtime.errors import DeviceLostError, JobError
from tests import adb_programs
from tests.conftest import require
from tests.farm.emulated_units import shorten_waits
from tests.farm.transport.contract import DEADLINE_S, run_shell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=adb_programs.NAMES)
def adb_program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The adb that the tests of this module run with, one after the other."""
    name: str = request.param
    require("debian_adb", adb_programs.missing(name))
    with pytest.MonkeyPatch.context() as patched:
        adb_programs.use(name, tmp_path_factory.mktemp("program"), patched)
        yield name


@pytest.fixture(scope="module")
def port(adb_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a server of that program."""
    with private_adb_server(tmp_path_factory.mktemp("adb")) as found:
        yield found


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch)


@pytest.fixture
def phone() -> Iterator[EmulatedPhone]:
    with EmulatedPhone(PhoneSettings()) as started:
        yield started


@pytest.fixture
def unit(phone: EmulatedPhone, port: int) -> Unit:
    return Unit(
        "mi8", "adb", "sdm845", "MI 8", ("host",), serial=f"127.0.0.1:{phone.port}", adb_server=AdbAddress(port=port)
    )


def wait_until_offline(unit: Unit) -> None:
    end = time.monotonic() + DEADLINE_S
    server = AdbServer(unit.adb_server)
    while AdbDevice(unit.serial, "offline", "MI_8") not in server.devices(end):
        assert time.monotonic() < end
        time.sleep(0.05)


def listed_state(unit: Unit) -> str:
    """The unit's state in the list of its server's phones."""
    return {phone.serial: phone.state for phone in lookup.adb_phones(unit.adb_server)}[unit.serial]


def test_the_server_is_of_the_program_that_the_test_asks_for(adb_program: str, port: int) -> None:
    version = subprocess.run([find_adb(), "version"], capture_output=True, text=True, check=True).stdout
    assert ("debian" in version) == (adb_program == adb_programs.DEBIAN)


def test_programs_run_and_files_are_copied(unit: Unit, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(os.urandom(300_000))
    with closing(adb.connect(unit)) as transport:
        assert transport.push({"data": tmp_path / "data"}) == ["data"]
        assert run_shell(transport, "wc -c <data; exit 3").exit_status == 3
        transport.pull("data", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "data").read_bytes()


@pytest.mark.parametrize("fault", ["disconnect:away=1", "reboot:away=1", "disconnect:at=connect,away=1"])
def test_a_phone_that_returned_is_connected_within_seconds(unit: Unit, phone: EmulatedPhone, fault: str) -> None:
    """adb 29 itself tries again after ten, each time; a busy machine may be slow once."""
    if "connect," not in fault:
        adb.connect(unit).close()
    assert any(seconds_until_back(unit, phone, fault) < 8.0 for _ in range(3))


def seconds_until_back(unit: Unit, phone: EmulatedPhone, fault: str) -> float:
    """How long it takes until a program runs again on a phone that was away."""
    phone.inject(fault)
    begun = time.monotonic()
    while time.monotonic() - begun < DEADLINE_S:
        with suppress(DeviceLostError), closing(adb.connect(unit)) as transport:  # it may only now go away
            assert run_shell(transport, "echo back").stdout == b"back\n"
            break
    return time.monotonic() - begun


def test_an_open_transport_works_again_when_the_phone_is_back(unit: Unit, phone: EmulatedPhone) -> None:
    with closing(adb.connect(unit)) as transport:
        process = transport.start(["sh", "-c", "echo there; exec cat"])
        assert process.read_line(DEADLINE_S) == "there"
        phone.inject("disconnect:away=1")
        with pytest.raises(DeviceLostError):
            process.read_line(DEADLINE_S)
        assert run_shell(transport, "echo back").stdout == b"back\n"


def test_the_list_of_phones_shows_one_that_returned_as_usable(unit: Unit, phone: EmulatedPhone) -> None:
    adb.connect(unit).close()
    phone.inject("disconnect:away=0.3")
    wait_until_offline(unit)
    end = time.monotonic() + DEADLINE_S
    while listed_state(unit) != "device":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_phone_that_is_away_stays_in_the_list(
    unit: Unit, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a phone that devices.yml does not name would have to be connected by hand again."""
    monkeypatch.setattr(adb, "SETTLE_S", 1.0)
    adb.connect(unit).close()
    phone.inject("disconnect:away=60")
    wait_until_offline(unit)
    assert listed_state(unit) == "offline"
    with pytest.raises(JobError, match="is offline: adb sees it"):
        adb.connect(unit)
    assert listed_state(unit) == "offline"
