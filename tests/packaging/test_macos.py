"""A Mac controls phones: everything can be imported there, a phone is found, leased, written to and cleaned.

The processes here take themselves for ones on macOS (mac/sitecustomize.py). The emulated phone and its adb server run
elsewhere. What needs Linux says so in one line.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.config.adb_address import AdbAddress
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.transport.adb_server import AdbServer
from tests.farm.emulated_units import ENTRY

ROOT = Path(__file__).parents[2]
CONNECT_S = 30.0
MAC = Path(__file__).parent / "mac"
CALL = "import sys; from farm import cli; sys.exit(cli.call(sys.argv[1:]))"

IMPORT_ALL = """
import importlib, pkgutil, sys
assert sys.platform == "darwin"
for package in ("farm", "runtime", "tuner"):
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        # The programs run beside their framework, which need not be here.
        if not found.name.startswith("runtime.frameworks.programs."):
            importlib.import_module(found.name)
"""

PHONE = """
import contextlib, pathlib
from farm.farmrt.unit_file_store import UnitFileStore
from farm.condition.device_state import read_state
from farm.lease import lease
from farm.store import Store
from farm.store.process import is_gone, own_process, process_identity
from farm.transport import connect
from farm.units import lookup
from farm.units.selection import Selection
import os, subprocess, sys

(unit,) = lookup.chosen_units(Selection(devices=("mi8",)))
file = pathlib.Path("sent")
file.write_bytes(bytes(range(256)) * 100)
with contextlib.closing(connect(unit)) as transport, lease.acquire(unit, transport, "a Mac's job") as held:
    with UnitFileStore(transport, 10**9, held.check) as store:
        remote = store.put([file])[file]
        transport.pull(remote, pathlib.Path("back"))
    held.check(certain=True)
    print(read_state(transport).battery_percent)
assert pathlib.Path("back").read_bytes() == file.read_bytes()
with Store.open("rows.db") as rows:
    run = rows.begin("mac", "")
    assert rows.run(run).state == "running"
    rows.end(run)
    assert rows.run(run).state == "finished"
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
told = process_identity(child.pid)
assert told and not is_gone(told) and not is_gone(own_process())
child.communicate()
assert is_gone(told)
"""


@pytest.fixture
def phone(adb_port: int, tmp_path: Path) -> Iterator[EmulatedPhone]:
    """A phone that the devices.yml of the test's folder lists."""
    with EmulatedPhone(PhoneSettings(soc="sdm845")) as started:
        entry = ENTRY.format(name="mi8", phone=started.port, server=adb_port, soc="sdm845")
        (tmp_path / "devices.yml").write_text(f"devices:\n{entry}  host: {{transport: local, target_abis: [host]}}\n")
        AdbServer(AdbAddress(port=adb_port)).connect(f"127.0.0.1:{started.port}", time.monotonic() + CONNECT_S)
        yield started


def mac(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python there as on a Mac."""
    paths = os.pathsep.join([str(MAC), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "XDG_RUNTIME_DIR": str(folder)}
    command = [sys.executable, "-c", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_everything_can_be_imported(tmp_path: Path) -> None:
    done = mac(tmp_path, IMPORT_ALL)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_phone_is_found_leased_and_written_to(phone: EmulatedPhone, tmp_path: Path) -> None:
    listed = mac(tmp_path, CALL, "devices", "--json")
    units = {each["name"]: each for each in json.loads(listed.stdout)["devices"]}
    assert units["mi8"]["state"] == "ready", listed
    assert units["host"]["state"] == "unreachable"
    assert (
        units["host"]["reason"] == "running networks here needs Linux; this machine (Darwin) controls phones and boards"
    )
    done = mac(tmp_path, PHONE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().isdecimal()
    cleaned = mac(tmp_path, CALL, "clean", "--device", "mi8")
    assert cleaned.returncode == 0, cleaned.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("emulate phone", "error: an emulated phone needs Linux"),
        ("emulate board start", "error: an emulated board needs Linux"),
        ("build", "host: not built: farmrt runs on Linux, not on this machine (Darwin)"),
    ],
)
def test_what_needs_linux_says_so(command: str, line: str, tmp_path: Path) -> None:
    done = mac(tmp_path, CALL, *command.split())
    assert done.returncode != 0
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1
