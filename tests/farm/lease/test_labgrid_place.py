"""A unit's place in labgrid, with a real coordinator: held with the lease, given back, taken back from the dead."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farm.config.inventory import HOST, LabgridPlace, load_inventory
from farm.lease import labgrid_place, lease
from farm.transport.local import LocalTransport
from runtime.errors import ConfigError, UnitBusyError
from tests.conftest import require

PROGRAMS = Path(__file__).parents[3] / "build" / "labgrid" / "bin"  # where `make labgrid` puts them
START_S = 60.0
Ask = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a coordinator that has the place `rack-7`."""
    monkeypatch.setenv("PATH", f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}")
    found = shutil.which("labgrid-coordinator")
    require("labgrid", "" if found else "labgrid is not installed: make labgrid")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    log = (tmp_path / "coordinator.log").open("w")
    with log, subprocess.Popen([str(found), "-l", address], cwd=tmp_path, stdout=log, stderr=log) as process:
        try:
            end_s = time.monotonic() + START_S
            while question(address, "create").returncode:
                assert process.poll() is None and time.monotonic() < end_s
            yield address
        finally:
            process.terminate()


def question(address: str, *words: str, user: str = "bob") -> subprocess.CompletedProcess[str]:
    command = ["labgrid-client", "-x", address, "-p", "rack-7", *words]
    environment = {**os.environ, "LG_USERNAME": user}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=START_S)


def test_the_place_is_held_with_the_lease_and_given_back(coordinator: str, tmp_path: Path) -> None:
    unit = dataclasses.replace(HOST, labgrid=LabgridPlace(coordinator, "rack-7"))
    transport = LocalTransport(tmp_path / "unit", {})
    with lease.acquire(unit, transport, "test", locks=tmp_path):
        assert "/farm-" in question(coordinator, "show").stdout
        assert question(coordinator, "acquire").returncode != 0, "nobody else has it"
    assert question(coordinator, "acquire").returncode == 0
    with (
        pytest.raises(UnitBusyError, match=r"host: labgrid place rack-7 is not to be had: .*bob"),
        lease.acquire(unit, transport, "test", locks=tmp_path),
    ):
        pass
    assert lease.holder(transport) is None, "the lease was given back"


def test_what_a_dead_job_left_behind_is_taken_back(coordinator: str) -> None:
    unit = dataclasses.replace(HOST, labgrid=LabgridPlace(coordinator, "rack-7"))
    assert question(coordinator, "acquire", user="farm-alice").returncode == 0
    with labgrid_place.held(unit, "alice", 0.0, print):
        pass
    assert question(coordinator, "acquire").returncode == 0, "and given back"


def test_one_waits_for_a_place(coordinator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labgrid_place, "POLL_S", 0.1)
    unit = dataclasses.replace(HOST, labgrid=LabgridPlace(coordinator, "rack-7"))
    assert question(coordinator, "acquire").returncode == 0
    said: list[str] = []

    def say(text: str) -> None:
        if not said:
            assert question(coordinator, "release").returncode == 0
        said.append(text)

    with labgrid_place.held(unit, "alice", START_S, say):
        assert said[0].startswith("host: waiting for labgrid place rack-7: ")


def test_without_its_client_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    unit = dataclasses.replace(HOST, labgrid=LabgridPlace("lab:20408", "rack-7"))
    with (
        pytest.raises(ConfigError, match=r"a unit with a labgrid place needs labgrid.*farm\[labgrid\]"),
        labgrid_place.held(unit, "alice", 0.0, print),
    ):
        pass


def test_units_without_a_place_ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    with labgrid_place.held(HOST, "alice", 0.0, print):
        pass


def test_devices_yml_names_places(tmp_path: Path) -> None:
    file = tmp_path / "devices.yml"
    entry = "devices:\n  board:\n    address: 10.0.0.7\n    labgrid: {{coordinator: {}, place: rack-7}}\n"
    file.write_text(entry.format("lab:20408"))
    (unit,) = load_inventory(file).units
    assert unit.labgrid == LabgridPlace("lab:20408", "rack-7")
    file.write_text(entry.format("-x"))
    with pytest.raises(
        ConfigError, match=r"devices\.yml:4: devices\.board\.labgrid\.coordinator: this is no host:port"
    ):
        load_inventory(file)
