"""The contract of every transport, on the emulated board: another machine's sshd, shell and programs, and slow ones."""

from pathlib import Path

import psutil
import pytest

from farm.emulation import board as boards
from farm.emulation.board import Board
from tests.farm.transport import contract
from tests.farm.transport.contract import PosixContract

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def processes_of_the_board(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process numbers that the board tells are those of its own namespace."""
    first = boards.running(board)
    assert first

    def is_running(process_id: int) -> bool:
        return process_id in {_inner_number(each) for each in first.children(recursive=True)}

    monkeypatch.setattr(contract, "is_running", is_running)


def _inner_number(process: psutil.Process) -> int | None:
    """Its number in its own namespace; None when it has ended."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return None
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    return int(numbers.split()[-1]) if "zombie" not in status else None


class TestBoard(PosixContract):
    """With the fixture `transport` of these integration tests."""
