"""A command line as a host carries it out: what is kept of it, and how a full disk is told from a job that failed."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.cluster.host_files import FOLDER, HostFiles
from farm.cluster.host_job import OUTPUTS, HostJob, check_room
from farm.rows.status import Status
from runtime.errors import JobError, NoRoomError

DONE = {"error": None, "rows": []}
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
pytestmark = pytest.mark.usefixtures("own_folder")


def raising(error: Exception) -> Callable[..., Any]:
    def run(*_: Any) -> Any:
        raise error

    return run


def test_what_a_job_made_is_kept_and_its_own_folder_goes() -> None:
    def run(arguments: Sequence[str], folder: Path) -> dict[str, Any]:
        (folder / arguments[1]).mkdir(parents=True)
        (folder / arguments[1] / "y.npy").write_bytes(b"result")
        return DONE

    answer = HostJob(("run", OUTPUTS), {}, "abc123").answer(run)
    digest = hashlib.sha256(b"result").hexdigest()
    assert answer == {"document": DONE, "files": {"y.npy": digest}, "left": {}}
    assert HostFiles().read_part(digest, 0, 100) == b"result"
    assert not list((FOLDER / "jobs").iterdir())


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (NoRoomError("x.plan: full"), {"no_room": "x.plan: full"}),
        (FULL, {"no_room": "[Errno 28] No space left on device"}),
        (OSError(errno.EIO, "broken"), {"error": "[Errno 5] broken"}),
        (JobError("ended"), {"error": "ended"}),
    ],
)
def test_what_goes_wrong_is_an_answer_and_leaves_no_files(error: Exception, answer: dict[str, str]) -> None:
    assert HostJob(("run",), {}, "abc123").answer(raising(error)) == answer
    assert not list((FOLDER / "jobs").iterdir())


@pytest.mark.parametrize(
    "document",
    [
        {"error": {"kind": "no_room", "message": "x.plan: full"}, "rows": []},
        {"error": None, "rows": [{"status": Status.OK}, {"status": Status.NO_ROOM, "reason": "x.plan: full"}]},
    ],
)
def test_a_job_that_says_that_there_is_no_room(document: dict[str, Any]) -> None:
    with pytest.raises(NoRoomError, match=r"^x\.plan: full \(in /jobs/1\)$"):
        check_room(document, Path("/jobs/1"))


def test_a_failed_job_on_a_full_disk_failed_for_want_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"error": None, "rows": [{"status": Status.BUILD_FAILED, "reason": "the compiler"}]}
    check_room(failed, Path("/jobs/1"))
    monkeypatch.setattr(HostFiles, "probe_room", raising(FULL))
    check_room(DONE, Path("/jobs/1"))
    with pytest.raises(OSError, match="No space left"):
        check_room(failed, Path("/jobs/1"))


def test_a_file_that_finds_no_room_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:3])
        raise FULL

    files, content = HostFiles(), b"weights"
    digest = hashlib.sha256(content).hexdigest()
    files.add_part(digest, "1", content, True)
    Path("made").write_bytes(b"result")
    monkeypatch.setattr(shutil, "copyfile", copy)
    for work in (lambda: files.keep(Path("made")), lambda: files.job_folder({"model.yml": digest})):
        with pytest.raises(OSError, match="No space left"):
            work()
    found = {path.name for path in FOLDER.rglob("*") if path.is_file() and not path.is_symlink()}
    assert found == {digest}
