"""A stock adb, as users have it, with an emulated phone; and the command that starts one."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import adbutils
import pytest

from farm.emulation import EmulatedPhone, PhoneSettings
from runtime.native.build import build_farmrt

pytestmark = pytest.mark.slow
TIMEOUT_S = 60.0
PATIENCE_S = 60.0

Adb = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="module")
def adb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adb]:
    """Runs adb with a server of its own."""
    home = str(tmp_path_factory.mktemp("adb"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = os.environ | {"HOME": home, "TMPDIR": home, "ADB_MDNS": "0", "ANDROID_ADB_SERVER_PORT": port}

    def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [adbutils.adb_path(), *map(str, arguments)]
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )

    try:
        assert run("start-server").returncode == 0
        yield run
    finally:
        run("kill-server")


@pytest.fixture(params=[True, False], ids=["shell v2", "old"])
def phone(request: pytest.FixtureRequest) -> Iterator[EmulatedPhone]:
    with EmulatedPhone(PhoneSettings(model="MI 8", shell_v2=request.param)) as found:
        yield found


def connect(adb: Adb, phone: EmulatedPhone) -> str:
    address = f"127.0.0.1:{phone.port}"
    assert adb("connect", address).stdout.decode() == f"connected to {address}\n"
    return address


def state(adb: Adb, address: str) -> str:
    lines = (line.split() for line in adb("devices").stdout.decode().splitlines())
    return next((words[1] for words in lines if words[:1] == [address]), "none")


def wait_for(adb: Adb, address: str, wanted: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while (found := state(adb, address)) != wanted:
        assert time.monotonic() < end, found
        time.sleep(0.1)


def test_a_stock_adb_works_unchanged(adb: Adb, phone: EmulatedPhone, tmp_path: Path) -> None:
    address = connect(adb, phone)
    assert b"product:dipper model:MI_8 device:dipper" in adb("devices", "-l").stdout
    assert adb("-s", address, "get-state").stdout == b"device\n"
    local, back = tmp_path / "a file", tmp_path / "back"
    local.write_bytes(os.urandom(3_000_001))
    local.chmod(0o755)
    assert b"Is a directory" in adb("-s", address, "push", local, "/data/local/tmp/new/").stderr
    assert adb("-s", address, "push", local, "/data/local/tmp/new/a file").returncode == 0
    assert adb("-s", address, "pull", "/data/local/tmp/new/a file", back).returncode == 0
    assert back.read_bytes() == local.read_bytes()
    assert adb("-s", address, "exec-out", "cat '/data/local/tmp/new/a file'").stdout == local.read_bytes()
    assert adb("-s", address, "exec-in", "cat >/data/in; touch /data/done", stdin=local.read_bytes()).returncode == 0
    wait_until((phone.root / "data/done").exists)
    assert (phone.root / "data/in").read_bytes() == local.read_bytes()
    assert b" a file\n" in adb("-s", address, "ls", "/data/local/tmp/new").stdout
    assert adb("-s", address, "pull", "/data/none", back).returncode == 1
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(30):
        (folder / str(number)).write_text(str(number))
    assert adb("-s", address, "push", folder, "/data/local/tmp").returncode == 0
    assert adb("-s", address, "pull", "/data/local/tmp/folder", tmp_path / "copy").returncode == 0
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {str(number) for number in range(30)}


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_exit_status_and_stderr_depend_on_the_shell_protocol(adb: Adb) -> None:
    command = "echo out; echo err >&2; exit 7"
    with EmulatedPhone() as phone:
        said = adb("-s", connect(adb, phone), "shell", command)
        assert (said.returncode, said.stdout, said.stderr) == (7, b"out\n", b"err\n")
    with EmulatedPhone(PhoneSettings(shell_v2=False)) as phone:
        said = adb("-s", connect(adb, phone), "shell", command)
        assert (said.returncode, said.stdout, said.stderr) == (0, b"out\r\nerr\r\n", b"")


def test_adb_shows_what_state_the_phone_is_in(adb: Adb) -> None:
    with EmulatedPhone() as phone:
        address = connect(adb, phone)
        phone.inject("unauthorized")
        wait_for(adb, address, "unauthorized")
        phone.clear_faults()
        wait_for(adb, address, "device")
        assert adb("-s", address, "reboot").returncode == 0
        wait_for(adb, address, "offline")
        wait_for(adb, address, "device")
    wait_for(adb, address, "offline")
    adb("disconnect", address)


@pytest.mark.opencl
@pytest.mark.parametrize("faults", [[], ["storage:free=100MB"]], ids=["", "with a limit"])
def test_farmrt_finds_opencl_on_the_phone(adb: Adb, faults: list[str]) -> None:
    with EmulatedPhone() as phone:
        for fault in faults:
            phone.inject(fault)
        address = connect(adb, phone)
        assert adb("-s", address, "push", build_farmrt(), "/data/local/tmp/farm/farmrt").returncode == 0
        answer = json.loads(adb("-s", address, "shell", "cd /data/local/tmp/farm && ./farmrt probe").stdout)
    assert answer["ok"], answer
    assert answer["opencl"]["device"]["name"]


def test_the_command_runs_phones_until_it_is_interrupted(adb: Adb) -> None:
    command = [sys.executable, "-c", "from farm.cli import main; main()", "emulate", "phone"]
    arguments = [
        "--port",
        "0",
        "--count",
        "2",
        "--serial",
        "S",
        "--soc",
        "kirin970",
        "--json",
        "--fault",
        "hot:temp=50",
    ]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        told = [json.loads(process.stdout.readline()) for _ in range(2)]
        try:
            assert [each["serial"] for each in told] == ["S-1", "S-2"]
            address = told[1]["address"]
            assert adb("connect", address).returncode == 0
            read = "getprop ro.serialno; cat /sys/class/thermal/thermal_zone2/temp"
            said = adb("-s", address, "shell", read).stdout.decode().split()
            assert said[0] == "S-2"
            assert 40_000 < int(said[1]) <= 50_000
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    assert not [each["root"] for each in told if Path(each["root"]).exists()]
    adb("disconnect")


def test_wrong_options_are_one_line() -> None:
    command = [sys.executable, "-c", "from farm.cli import main; main()", "emulate", "phone", "--fault", "hott"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (process.returncode, process.stderr) == (
        2,
        "error: --fault hott: unknown fault 'hott', did you mean 'hot'?\n",
    )
