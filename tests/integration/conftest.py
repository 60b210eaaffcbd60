"""The emulated board as a unit of farm: these tests need it running (`farm emulate board start`, as root)."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from farm.config import inventory
from farm.config.inventory import Unit
from farm.emulation import board as boards
from farm.emulation.board import Board
from farm.transport import Transport, connect
from tests.conftest import require
from tests.farm.conftest import CallFarm as CallFarm
from tests.farm.conftest import farm as farm

DEADLINE_S = 60.0
TREE = Path(__file__).parents[2]


def board_here() -> tuple[Board, str]:
    """The board, and why it does not run; FARM_BOARD names its folder where it is not the default."""
    found = Board(Path(os.environ.get("FARM_BOARD", TREE / boards.DEFAULT_FOLDER)))
    absent = f"no emulated board runs in {found.folder}; as root: farm emulate board start"
    return found, "" if boards.running(found) else absent


@pytest.fixture(scope="session")
def board() -> Board:
    """The running board."""
    found, absent = board_here()
    require("board", absent)
    return found


@pytest.fixture
def listed(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Unit]:
    """The board in the devices.yml of a new working folder; a home folder knows its host key and nothing else.

    One test at a time has it, of however many runs of pytest.
    """
    known_hosts = tmp_path / "home" / ".ssh" / "known_hosts"
    known_hosts.parent.mkdir(parents=True, mode=0o700)
    shutil.copy(board.known_hosts, known_hosts)
    shutil.copy(board.devices_file, tmp_path / "devices.yml")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.chdir(tmp_path)
    (found,) = inventory.load_inventory().units
    with FileLock(board.folder / "tests.lock"):
        yield found


@pytest.fixture
def transport(listed: Unit) -> Iterator[Transport]:
    """An open way to the board, with nothing of farm on it."""
    with contextlib.closing(connect(listed)) as opened:
        assert opened.run(["find", ".", "-mindepth", "1", "-delete"], DEADLINE_S).exit_status == 0
        yield opened


@pytest.fixture
def unit(listed: Unit, transport: Transport) -> Unit:
    """The board, with nothing of farm on it."""
    transport.close()
    return listed
