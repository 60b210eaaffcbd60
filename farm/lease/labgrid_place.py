"""A unit's place in labgrid: acquired while the unit's lease is held, so that users of both keep off each other.

labgrid's own client is asked, a process for each question. It knows us as the user `farm-NAME`: a place that this user
still holds when the unit is free was left behind by a job that died, and is taken from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from farm import safe_text
from farm.config.inventory import LabgridPlace, Unit
from runtime import extras
from runtime.errors import ConfigError, JobError, UnitBusyError

PROGRAM = "labgrid-client"
ANSWER_S = 60.0
POLL_S = 2.0
MAX_SHOWN = 200


@contextlib.contextmanager
def held(unit: Unit, user: str, wait_s: float, say: Callable[[str], None]) -> Iterator[None]:
    """Holds the unit's place, if it has one, until the block ends; the unit's lease must be held.

    Args:
        unit: the unit.
        user: this process's user.
        wait_s: how long to wait for a place that somebody else has.
        say: called with what we wait for.

    Raises:
        UnitBusyError: labgrid does not give it within `wait_s`; the text says why.
        ConfigError: labgrid's client is not installed.
    """
    place = unit.labgrid
    if place is None:
        yield
        return
    client = _Client(place, f"farm-{user}")
    client.ask("release-from", f"{socket.gethostname()}/{client.user}")
    _acquire(unit, client, wait_s, say)
    try:
        yield
    finally:
        with contextlib.suppress(JobError):  # the coordinator is away: the next job takes the place back
            client.ask("release")


@dataclasses.dataclass(frozen=True)
class _Client:
    place: LabgridPlace
    user: str

    def ask(self, *question: str) -> str:
        """Why labgrid refuses; empty where it does what is asked. Raises JobError where it does not answer."""
        command = [_program(), "-x", self.place.coordinator, "-p", self.place.name, *question]
        environment = {**os.environ, "LG_USERNAME": self.user, "LG_HOSTNAME": socket.gethostname()}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=ANSWER_S, check=False)
        except subprocess.TimeoutExpired:
            raise JobError(f"labgrid at {self.place.coordinator}: did not answer within {ANSWER_S:g} s") from None
        said = (done.stderr or done.stdout).decode(errors="replace")
        return (safe_text.word(said, MAX_SHOWN) or f"status {done.returncode}") if done.returncode else ""


def _acquire(unit: Unit, client: _Client, wait_s: float, say: Callable[[str], None]) -> None:
    place, deadline_s = client.place.name, time.monotonic() + wait_s
    while refusal := client.ask("acquire"):
        if time.monotonic() >= deadline_s:
            raise UnitBusyError(f"{unit.name}: labgrid place {place} is not to be had: {refusal}")
        say(f"{unit.name}: waiting for labgrid place {place}: {refusal}")
        time.sleep(POLL_S)


def _program() -> str:
    beside = str(Path(sys.executable).parent)
    found = shutil.which(PROGRAM, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise ConfigError(extras.needed("a unit with a labgrid place", "labgrid"))
    return found
