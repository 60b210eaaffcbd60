"""Asks labgrid's own client about a place, a process for each question, under a name that we choose."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from farm import safe_text
from farm.config.inventory import LabgridPlace
from runtime.errors import ConfigError, JobError
from runtime.host import extras

PROGRAM = "labgrid-client"
ANSWER_S = 60.0
MAX_SHOWN = 200
HOLDER = re.compile(rb"^\s*acquired: (\S+/\S+)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class LabgridClient:
    """A user of a place.

    Attributes:
        place: the place.
        host, user: as whom labgrid and its other users know us; without slashes and blanks.
        answer_s: how long a question may take.
    """

    place: LabgridPlace
    host: str
    user: str
    answer_s: float = ANSWER_S

    @property
    def name(self) -> str:
        """As labgrid names the holder of a place."""
        return f"{self.host}/{self.user}"

    def acquire(self) -> str:
        """Acquires the place; why labgrid refuses, empty where it does not."""
        return _refusal(self._ask("acquire"))

    def holder(self) -> str:
        """`HOST/USER` who has the place, empty where nobody has it; raises JobError where labgrid does not say."""
        done = self._ask("show")
        if refusal := _refusal(done):
            raise JobError(f"labgrid at {self.place.coordinator}: {refusal}")
        found = HOLDER.search(done.stdout)
        return found[1].decode(errors="replace") if found else ""

    def release_from(self, holder: str) -> None:
        """Releases the place if this holder has it, and nobody else's."""
        self._ask("release-from", holder)

    def _ask(self, *question: str) -> subprocess.CompletedProcess[bytes]:
        """Raises JobError where there is no answer in time, ConfigError where labgrid's client is not installed."""
        command = [_program(), "-x", self.place.coordinator, "-p", self.place.name, *question]
        environment = {**os.environ, "LG_USERNAME": self.user, "LG_HOSTNAME": self.host}
        try:
            return subprocess.run(command, env=environment, capture_output=True, timeout=self.answer_s, check=False)
        except subprocess.TimeoutExpired:
            late = f"did not answer within {self.answer_s:g} s"
            raise JobError(f"labgrid at {self.place.coordinator}: {late}") from None


def _refusal(done: subprocess.CompletedProcess[bytes]) -> str:
    said = (done.stderr or done.stdout).decode(errors="replace")
    return (safe_text.word(said, MAX_SHOWN) or f"status {done.returncode}") if done.returncode else ""


def _program() -> str:
    beside = str(Path(sys.executable).parent)
    found = shutil.which(PROGRAM, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise ConfigError(extras.needed("a unit with a labgrid place", "labgrid"))
    return found
