"""Files that a phone hashes with farmrt while they arrive: one program for a whole push, and nothing unverified."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.emulation.phone_unit import private_adb_server
from farm.transport import adb
from farm.transport.adb import AdbTransport
from runtime.errors import DeviceError, JobError
from runtime.native.build import build_farmrt
from tests.farm.transport.contract import DEADLINE_S, run_shell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with private_adb_server(tmp_path_factory.mktemp("adb")) as found:
        yield found


@pytest.fixture(params=["shell 2", "old"])
def phone(request: pytest.FixtureRequest) -> Iterator[EmulatedPhone]:
    with EmulatedPhone(PhoneSettings(shell_v2=request.param == "shell 2")) as running:
        yield running


@pytest.fixture
def transport(phone: EmulatedPhone, port: int) -> Iterator[AdbTransport]:
    """A phone with farmrt on it."""
    serial = f"127.0.0.1:{phone.port}"
    opened = adb.connect(
        Unit("mi8", "adb", "sdm845", "MI 8", ("host",), serial=serial, adb_server=AdbAddress(port=port))
    )
    opened.push({"farmrt": build_farmrt("host")})
    opened.hash_with("farmrt")
    yield opened
    opened.close()


@pytest.fixture
def programs(transport: AdbTransport, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by each program that is started on the phone."""
    started: list[str] = []
    start = transport._start

    def noted(argv: Any, deadline: float) -> Any:
        started.append(" ".join(argv))
        return start(argv, deadline)

    monkeypatch.setattr(transport, "_start", noted)
    return started


def test_a_push_starts_no_program(transport: AdbTransport, tmp_path: Path, programs: list[str]) -> None:
    """The one that looked what is there on the connection's first push serves all others."""
    files = {f"folder/{name}": tmp_path / str(number) for number, name in enumerate(["a b", ".c", "d'e", "f\\", "$g"])}
    for path in files.values():
        path.write_bytes(os.urandom(300_000))
    (tmp_path / "0").chmod(0o755)
    assert sorted(transport.push(files)) == sorted(files)
    assert transport.push(files) == [], "contents and modes are as they are here"
    assert programs == []
    for remote, path in files.items():
        assert transport.run(["cat", remote], DEADLINE_S).stdout == path.read_bytes()
    assert run_shell(transport, "ls -A").stdout == b"farmrt\nfolder\n"


def test_names_that_are_no_line_are_pushed_too(transport: AdbTransport, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    for name in ("two\nlines", "carriage\rreturn", "not UTF-8 \udcff"):
        assert transport.push({name: tmp_path / "source", "plain": tmp_path / "source"})
        assert transport.push({name: tmp_path / "source"}) == []


@pytest.mark.parametrize("end", ["killed", "reboot"])
def test_a_program_that_ended_between_pushes_is_started_again(
    transport: AdbTransport, phone: EmulatedPhone, tmp_path: Path, programs: list[str], end: str
) -> None:
    (tmp_path / "source").write_bytes(b"x")
    if end == "reboot":
        phone.inject("reboot:away=0.1")
    else:
        serving = [each for each in psutil.Process().children(recursive=True) if _serves_pushes(each)]
        assert serving
        for each in serving:
            with contextlib.suppress(psutil.NoSuchProcess):  # ends with the one before it
                each.kill()
    _wait_until_it_answers(transport)
    programs.clear()
    assert transport.push({"new": tmp_path / "source"}) == ["new"]
    assert len(programs) == 1, "one, which looks, hashes and moves"


def _serves_pushes(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "IFS= read -r line" in " ".join(process.cmdline())
    return False


def _wait_until_it_answers(transport: AdbTransport) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            transport.run(["true"], DEADLINE_S)
            return
        except JobError:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_many_files_that_no_command_line_holds(transport: AdbTransport, tmp_path: Path, programs: list[str]) -> None:
    (tmp_path / "source").write_bytes(b"x")
    files = {f"{'long' * 40}/{number}": tmp_path / "source" for number in range(300)}
    assert sorted(transport.push(files)) == sorted(files)
    assert transport.push(files) == []
    assert any("install_push" in program for program in programs)


def test_a_file_that_is_altered_on_its_way_does_not_appear(
    transport: AdbTransport, phone: EmulatedPhone, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(bytes(5000))
    phone.inject("alter:at=push,on=push-,bytes=1000")
    with pytest.raises(DeviceError, match="data: arrived with another content"):
        transport.push({"data": tmp_path / "data"})
    phone.clear_faults()
    assert run_shell(transport, "ls -A").stdout == b"farmrt\n"


def test_what_cannot_be_moved_is_said_and_cleared_away(
    transport: AdbTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_bytes(b"x")
    run_shell(transport, "mkdir folder")
    send = transport._send

    def send_and_disturb(*arguments: Any) -> None:
        send(*arguments)
        run_shell(transport, "rmdir folder; echo > folder")

    monkeypatch.setattr(transport, "_send", send_and_disturb)
    with pytest.raises(DeviceError, match=r"mi8: .*folder"):
        transport.push({"folder/data": tmp_path / "data"})
    assert run_shell(transport, "ls -A").stdout == b"farmrt\nfolder\n"


def test_a_killed_hasher_is_no_failed_push(
    transport: AdbTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_bytes(b"x")
    transport.push({"hasher": _script(tmp_path, "echo tried >> tried; kill -9 $$")})
    transport.hash_with("hasher")
    assert transport.push({"data": tmp_path / "data"}) == ["data"]
    assert run_shell(transport, "cat data tried").stdout.startswith(b"xtried\n")


def _script(folder: Path, text: str) -> Path:
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
