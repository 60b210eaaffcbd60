"""Whole jobs while the way to a phone fails: unplugged in each stage, restarted, without its adb server.

With Debian's adb only the stages in which it differs: it tries a lost phone again every ten seconds, not at once.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.emulation import EmulatedPhone
from farm.emulation.phone_unit import private_adb_server
from tests.adb_programs import ADBUTILS, DEBIAN
from tests.farm.emulated_units import (
    CommandResult,
    EmulatedUnits,
    do_before_command,
    is_clean,
    kill_server,
    shorten_waits,
)

pytestmark = [pytest.mark.slow, pytest.mark.opencl]


@pytest.fixture
def emulated(
    adb_program: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> Iterator[EmulatedUnits]:
    shorten_waits(monkeypatch)
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(private_adb_server(tmp_path_factory.mktemp("adb")))
        yield stack.enter_context(EmulatedUnits(tmp_path, port, monkeypatch, capsys))


STAGES = ["connect", "lease", "push", "probe", "load", "run", "output", "pull"]
DEBIAN_STAGES = ["connect", "lease", "run"]
REQUESTS = {
    "connect": "at=connect",
    "lease": "at=shell,on=[.]lease",
    "push": "at=push,bytes=1",
    "pull": "at=pull,bytes=1",
}


def with_both(stages: Sequence[str], debian_stages: Sequence[str]) -> pytest.MarkDecorator:
    """Runs a test in each of the stages, in some also with Debian's adb."""
    cases = {ADBUTILS: stages, DEBIAN: debian_stages}
    parameters = [(program, stage) for program, chosen in cases.items() for stage in chosen]
    return pytest.mark.parametrize(("adb_program", "stage"), parameters, indirect=["adb_program"])


def unplug_in(stage: str, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cable is out for a second, once."""
    if stage in REQUESTS:
        phone.inject(f"disconnect:{REQUESTS[stage]},away=1")
    else:
        do_before_command(monkeypatch, stage, lambda: phone.inject("disconnect:away=1"))


@with_both(STAGES, DEBIAN_STAGES)
def test_a_job_whose_phone_is_unplugged_is_done_when_it_is_back(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    phone = emulated.phone()
    unplug_in(stage, phone, monkeypatch)
    done = emulated.run()
    assert (done.status, done.row["status"]) == (0, "ok"), done
    assert is_clean(phone)


@with_both(STAGES[1:], ["lease"])
def test_without_retries_it_is_a_row_and_the_next_command_works(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    phone = emulated.phone()
    unplug_in(stage, phone, monkeypatch)
    done = emulated.run("--retries", "0")
    assert (done.status, done.row["status"]) == (1, "device_lost"), done
    assert "mi8" in done.row["reason"] and "tiny on mi8 (gpu): device_lost: " in done.err
    again = emulated.run("--wait", "10")
    assert (again.status, again.row["status"]) == (0, "ok"), again
    assert is_clean(phone)


@pytest.mark.parametrize(
    ("adb_program", "command"), [(ADBUTILS, "run"), (ADBUTILS, "tune"), (DEBIAN, "run")], indirect=["adb_program"]
)
def test_a_killed_adb_server_is_started_again_and_the_job_done(
    adb_program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, command: str
) -> None:
    shorten_waits(monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with private_adb_server(tmp_path) as port, EmulatedUnits(tmp_path, port, monkeypatch, capsys) as emulated:
        phone = emulated.phone()
        do_before_command(monkeypatch, "trial" if command == "tune" else "run", lambda: kill_server(port))
        done: CommandResult = emulated.tune() if command == "tune" else emulated.run()
        assert (done.status, done.row["status"]) == (0, "ok"), done
        assert is_clean(phone)


def test_a_restart_while_tuning_costs_no_trial(emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = emulated.phone()
    journal = Path("build/tuning/sdm845.jsonl")
    kept: list[str] = []

    def restart() -> None:
        kept.extend(journal.read_text().splitlines())
        phone.inject("reboot:away=1")

    do_before_command(monkeypatch, "trial", restart, skip=12)
    done = emulated.tune("--budget", "30")
    assert (done.status, done.row["status"], done.row["tuned"]["match"]) == (0, "ok", "exact"), done
    lines = journal.read_text().splitlines()
    assert len(kept) > 4 and lines[: len(kept)] == kept and len(lines) > len(kept)
    assert is_clean(phone)


def test_another_phone_of_the_soc_ends_the_search_of_one_that_stays_away(
    emulated: EmulatedUnits, monkeypatch: pytest.MonkeyPatch
) -> None:
    phones = [emulated.phone("first"), emulated.phone("second")]
    gone = threading.Event()

    def unplug() -> None:
        gone.set()
        phones[0].inject("disconnect:away=300")

    do_before_command(monkeypatch, "trial", unplug, skip=8)
    done = emulated.tune("--retries", "0")
    assert gone.is_set() and done.status == 1
    statuses = {row["unit"]: row["status"] for row in done.rows}
    assert statuses == {"first": "device_lost", "second": "ok"}, done
    assert is_clean(phones[1])
