"""A unit's place in labgrid, with a real coordinator: held with lease and reservation, given back, also by the dead."""

import dataclasses
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from farm.config.inventory import HOST, LabgridPlace, Unit, load_inventory
from farm.lease import labgrid_place, lease, reservation
from farm.lease.marker import ENDED, Marker
from farm.transport.local import LocalTransport
from runtime.errors import ConfigError, LeaseLostError, UnitBusyError
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_a_dead_job_left_behind_is_taken_back(coordinator: str) -> None:
    unit = dataclasses.replace(HOST, labgrid=LabgridPlace(coordinator, "rack-7"))
    assert question(coordinator, "acquire", user="farm-alice").returncode == 0
    with labgrid_place.held(unit, "alice", 0.0, print):
        pass
    assert question(coordinator, "acquire").returncode == 0, "and given back"


@pytest.mark.slow
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


@dataclasses.dataclass(frozen=True)
class Board:
    """A unit with a place, and what people do with it."""

    unit: Unit
    transport: LocalTransport
    locks: Path

    def reserve(self, duration_s: float = 3600.0, owner: str = "alice@lab 1", force: bool = False) -> str:
        return reservation.reserve(self.unit, self.transport, "flashing", duration_s, owner, force, self.locks)

    def release(self, owner: str = "alice@lab 1", force: bool = False) -> str:
        return lease.release(self.unit, self.transport, force, owner, self.locks)

    def job(self) -> AbstractContextManager[lease.Lease]:
        return lease.acquire(self.unit, self.transport, "test", locks=self.locks)


@pytest.fixture
def board(coordinator: str, tmp_path: Path) -> Board:
    unit = dataclasses.replace(HOST, name="board", labgrid=LabgridPlace(coordinator, "rack-7"))
    return Board(unit, LocalTransport(tmp_path / "unit", {}), tmp_path)


@pytest.mark.slow
def test_a_reservation_has_the_place_until_it_is_released(coordinator: str, board: Board) -> None:
    assert board.reserve().endswith(": flashing; labgrid place rack-7 too")
    refused = question(coordinator, "acquire")
    assert refused.returncode != 0 and "farm-reservation/alice@lab-1-until-20" in refused.stderr
    with pytest.raises(UnitBusyError, match=r"reserved by alice"), board.job():
        pass
    assert "until 20" in board.reserve(7200.0), "one's own is replaced"
    with pytest.raises(UnitBusyError, match=r"reserved by alice"):
        board.release("bob")
    assert question(coordinator, "acquire").returncode != 0
    assert board.release().endswith("; labgrid place rack-7 too")
    assert question(coordinator, "acquire").returncode == 0


@pytest.mark.slow
def test_a_place_that_somebody_else_has_is_not_reserved(coordinator: str, board: Board) -> None:
    assert question(coordinator, "acquire").returncode == 0
    for force in (False, True):
        with pytest.raises(UnitBusyError, match=r"^board: labgrid place rack-7 is not to be had: .*/bob\b"):
            board.reserve(force=force)
        assert lease.holder(board.transport) is None, "the unit is free"
    assert "/bob" in question(coordinator, "show").stdout
    assert board.release(force=True) == "board: was free", "and it is not taken from them"
    assert "/bob" in question(coordinator, "show").stdout


@pytest.mark.slow
def test_a_reservation_that_expired_gives_the_place_back_when_somebody_looks(
    coordinator: str, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.reserve(0.5)
    time.sleep(1.5)  # a place's time is in seconds
    with monkeypatch.context() as away:
        away.setattr(labgrid_place, "PROGRAM", "false")
        assert lease.holder(board.transport, board.unit) is None
    assert question(coordinator, "acquire").returncode != 0, "labgrid did not answer"
    assert lease.holder(board.transport, board.unit) is None
    assert Marker(board.transport).read().heartbeat == ENDED, "labgrid is not asked again"
    assert question(coordinator, "acquire").returncode == 0


@pytest.mark.slow
def test_the_next_job_gets_the_place_of_a_reservation_that_expired(coordinator: str, board: Board) -> None:
    board.reserve()
    assert not labgrid_place.end_expired(board.unit), "before its time nobody gives it back"
    board.reserve(0.5)
    time.sleep(1.5)
    with board.job():
        assert "/farm-" in question(coordinator, "show").stdout
        assert labgrid_place.end_expired(board.unit)
        assert "/farm-" in question(coordinator, "show").stdout, "what a job has is not given back"
    assert question(coordinator, "acquire").returncode == 0


@pytest.mark.slow
def test_by_force_a_reservation_takes_the_place_from_a_job(coordinator: str, board: Board) -> None:
    with board.job() as held:
        board.reserve(force=True)
        with pytest.raises(LeaseLostError):
            held.check(certain=True)
    assert "farm-reservation/alice@lab-1" in question(coordinator, "show").stdout, "the job's end releases nothing"
    assert "reserved by bob" in board.reserve(owner="bob", force=True)
    assert "farm-reservation/bob-until-" in question(coordinator, "show").stdout


@pytest.mark.slow
def test_a_release_says_that_labgrid_does_not_answer(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board.reserve()
    monkeypatch.setattr(labgrid_place, "PROGRAM", "false")
    assert "; labgrid place rack-7 may not be: labgrid at 127.0.0.1:" in board.release()
    assert lease.holder(board.transport) is None


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
