"""The contract of every transport over adb, where the phone's shell and programs are Android's: mksh and toybox."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone
from farm.emulation.phone_unit import private_adb_server
from farm.transport import Transport, connect
from farm.transport.adb_server import AdbServer
from tests.conftest import require
from tests.farm.transport.contract import PosixContract

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0


@pytest.fixture(scope="module", params=[14, 7, 6], ids=["Android 14", "Android 7", "Android 6"])
def unit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unit]:
    """A phone of an adb server of its own.

    Android 7 has no sha256sum; Android 6 tells no exit status and no separate stderr.
    """
    missing = [name for name in ("mksh", "toybox") if not shutil.which(name)]
    require("mksh", f"not on this machine: {' and '.join(missing)}" if missing else "")
    home: Path = tmp_path_factory.mktemp("adb")
    settings = PhoneSettings(toybox=True, shell_v2=request.param > 6, android=request.param)
    with private_adb_server(home) as port, EmulatedPhone(settings) as phone:
        serial = f"127.0.0.1:{phone.port}"
        AdbServer(AdbAddress(port=port)).connect(serial, time.monotonic() + DEADLINE_S)
        yield Unit("phone", "adb", "sdm845", "phone", ("host",), serial=serial, adb_server=AdbAddress(port=port))


class TestAndroidsShell(PosixContract):
    """With a folder that is empty before each test."""

    @pytest.fixture
    def transport(self, unit: Unit) -> Iterator[Transport]:
        with contextlib.closing(connect(unit)) as opened:
            assert opened.run(["find", ".", "-mindepth", "1", "-delete"], DEADLINE_S).exit_status == 0
            yield opened

    def test_commands_run_in_mksh_with_toybox(self, transport: Transport) -> None:
        told = transport.run(["sh", "-c", 'echo "$KSH_VERSION"; readlink /system/bin/sha1sum'], DEADLINE_S)
        version, program = told.stdout.decode().splitlines()
        assert "MIRBSD KSH" in version and Path(program).name == "toybox"
