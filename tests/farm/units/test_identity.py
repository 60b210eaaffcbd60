"""A unit is the same one each night, also where an image makes a new machine-id at each boot."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from farm.transport.base import CompletedProgram
from farm.units.identity import read_identity


class Board:
    """Runs the script on files below a folder; their file system is of a given kind."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.kind = root, kind
        self.write("proc/self/mountinfo", "22 1 0:20 / / rw - ext4 /dev/root rw")
        for card, kind_of_address in (("eth0", 0), ("eth1", 0), ("usb0", 1)):
            self.write(f"sys/class/net/{card}/addr_assign_type", str(kind_of_address))
            self.write(f"sys/class/net/{card}/address", f"00:00:00:00:00:{card}")
            (root / f"sys/class/net/{card}/device").mkdir()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def boot(self, number: int) -> str:
        self.write("etc/machine-id", f"{number:032x}")
        return read_identity(self)  # type: ignore[arg-type]

    def run(self, argv: list[str], deadline_s: float) -> CompletedProgram:
        script = argv[-1]
        for folder in ("proc", "sys", "etc"):
            script = script.replace(f" /{folder}/", f" {self.root}/{folder}/")
        script = script.replace(f"' {self.root}/etc/machine-id '", "' /etc/machine-id '")
        done = subprocess.run(
            ["sh", "-c", f"stat() {{ echo {self.kind}; }}\n{script}"], capture_output=True, timeout=deadline_s
        )
        return CompletedProgram(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(("kind", "is_kept"), [("ext2/ext3", False), ("tmpfs", True), ("overlayfs", True)])
def test_a_machine_id_counts_where_it_is_kept(tmp_path: Path, kind: str, is_kept: bool) -> None:
    board = Board(tmp_path, kind)
    assert (board.boot(1) == board.boot(2)) == is_kept


def test_a_machine_id_that_is_mounted_over_does_not_count(tmp_path: Path) -> None:
    board = Board(tmp_path, "ext2/ext3")
    board.write("proc/self/mountinfo", "41 29 0:23 /machine-id /etc/machine-id ro - tmpfs tmpfs rw")
    assert board.boot(1) == board.boot(2) != ""


def test_a_serial_number_comes_first_and_a_machine_id_is_better_than_nothing(tmp_path: Path) -> None:
    board = Board(tmp_path, "tmpfs")
    for card in ("eth0", "eth1"):
        board.write(f"sys/class/net/{card}/addr_assign_type", "1")
    assert len({board.boot(1), board.boot(2), ""}) == 3
    board.write("proc/device-tree/serial-number", "0123")
    assert board.boot(3) == board.boot(4) == hashlib.sha256(b"0123").hexdigest()[:12]
