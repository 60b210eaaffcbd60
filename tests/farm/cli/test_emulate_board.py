"""`farm emulate board --json` says how to reach a running board, and nothing but the document on standard output."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from farm.emulation import board as boards
from tests.farm.conftest import CallFarm


@pytest.fixture
def running(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a board says its stages; then it runs as process 42, on a port that was free."""
    process: list[Any] = []

    def start(board: boards.Board, say: boards.Say, source: object) -> None:
        say("making it")
        process.append(SimpleNamespace(pid=42))

    monkeypatch.setattr(boards, "start", start)
    monkeypatch.setattr(boards, "stop", lambda board: bool(process) and bool(process.pop()))
    monkeypatch.setattr(boards, "running", lambda board: process[0] if process else None)
    monkeypatch.setattr(boards, "running_port", lambda board: 2022)


@pytest.mark.usefixtures("running")
def test_each_action_prints_one_document(farm: CallFarm) -> None:
    status, out, err = farm("emulate", "board", "start", "--port", "0", "--json")
    found = json.loads(out)
    assert (status, found["state"], found["process"], err) == (0, "running", 42, "making it\n")
    assert (found["unit"]["address"], found["unit"]["port"], found["unit"]["transport"]) == ("127.0.0.1", 2022, "ssh")
    assert found["known_hosts"] == "build/board/known_hosts"
    stopped = [json.loads(farm("emulate", "board", "stop", "--json")[1]) for _ in range(2)]
    assert [(each["stopped"], each["state"], each["unit"]) for each in stopped] == [
        (True, "absent", None),
        (False, "absent", None),
    ]


@pytest.mark.usefixtures("running")
def test_the_status_of_a_board_that_does_not_run_is_1(farm: CallFarm) -> None:
    status, out, _ = farm("emulate", "board", "status", "--json")
    assert (status, json.loads(out)["status"], json.loads(out)["state"]) == (1, "failed", "absent")
    assert farm("emulate", "board", "status")[:2] == (1, "build/board: no board\n")


@pytest.mark.usefixtures("own_folder")
def test_a_mistake_is_a_document(farm: CallFarm) -> None:
    status, out, err = farm("emulate", "board", "start", "--mirror", "http://127.0.0.1:1", "--json")
    assert (status, json.loads(out)["error"]) == (2, {"message": err[7:-1], "kind": "config"})
