"""Models that this machine's memory or disk does not hold: each fails alone, and what ends a command is one line."""

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm import cli
from farm.config import deployment
from farm.jobs.fleet.job_rows import again_in_fresh_farmrt
from farm.jobs.models import prepare
from runtime.errors import FarmError, NoRoomError
from tests.farm.model.tiny_model import deployment_text, write_deployment

TOO_MANY = (1 << 44,)
LACKED = r"this machine has too little memory: Unable to allocate .* for an array with shape \(17592186044416,\)"


def refused(*_: Any) -> Any:
    return np.ones(TOO_MANY)


def test_a_job_without_memory_is_an_error_of_its_own() -> None:
    opened: Any = None
    with pytest.raises(FarmError, match=LACKED):
        again_in_fresh_farmrt(opened, refused)


def test_a_job_without_room_is_an_error_of_its_own() -> None:
    opened: Any = None

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/plan")

    with pytest.raises(NoRoomError, match="/tmp/plan: No space left on device"):
        again_in_fresh_farmrt(opened, full)


def test_a_bug_is_no_lack() -> None:
    opened: Any = None

    def wrong() -> None:
        raise RuntimeError("dictionary changed size during iteration")

    with pytest.raises(RuntimeError, match="dictionary changed"):
        again_in_fresh_farmrt(opened, wrong)


def test_a_model_without_memory_keeps_no_other_from_running(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deployment(own_folder)
    text = deployment_text()
    start = text.index("  tiny:")
    Path("two.yml").write_text(text[:start] + text[start:].replace("  tiny:", "  big:", 1) + text[start:])
    whole = prepare.prepare
    monkeypatch.setattr(
        prepare, "prepare", lambda source, name, *more: refused() if name == "big" else whole(source, name, *more)
    )
    big, tiny = prepare.prepare_all(deployment.load(Path("two.yml")))
    assert isinstance(big, prepare.Failed) and str(big.error).startswith("this machine has too little memory: ")
    assert isinstance(tiny, prepare.Prepared)


def test_a_command_without_memory_says_so_in_a_line(
    own_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deployment(own_folder)
    monkeypatch.setattr("farm.model.deployments.load", refused)
    assert cli.call(["run", "tiny.yml", "--json"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: this machine has too little memory: ") and said.err.count("\n") == 1
    assert json.loads(said.out)["error"]["kind"] == "failure"
