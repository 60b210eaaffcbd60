"""A unit's place in labgrid: acquired while the unit is leased or reserved, so that users of both keep off each other.

labgrid knows a job as `HOST/farm-USER`, and a reservation as `farm-reservation/OWNER-until-TIME`. Who holds the unit's
lease knows that no other job has it: what an own job still holds was left behind by one that died. A reservation's
process has ended long before its time is over; so whoever meets the name later than that gives the place back.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from farm import safe_text
from farm.config.inventory import LabgridPlace, Unit
from runtime.errors import ConfigError, FarmError, JobError, UnitBusyError
from runtime.host import extras

POLL_S = 2.0
LOOK_S = 10.0  # a look at a unit does not wait for a coordinator that is away
RESERVED = "farm-reservation"
UNTIL = "-until-"
TIME = "%Y-%m-%dT%H:%M:%SZ"

IsLeft = Callable[[str], bool]


@contextlib.contextmanager
def held(unit: Unit, user: str, wait_s: float, say: Callable[[str], None]) -> Iterator[None]:
    """Holds the unit's place, if it has one, for a job until the block ends; the unit's lease must be held.

    Args:
        unit: the unit.
        user: this process's user.
        wait_s: how long to wait for a place that somebody else has.
        say: called with what we wait for.

    Raises:
        UnitBusyError: labgrid does not give it within `wait_s`; the text says why.
        ConfigError: labgrid's client is not installed.
    """
    if unit.labgrid is None:
        yield
        return
    client, deadline_s = _job_client(unit.labgrid, user), time.monotonic() + wait_s
    while refusal := _refusal(client, lambda holder: holder == client.name or _has_ended(holder)):
        if time.monotonic() >= deadline_s:
            raise _not_to_be_had(unit, client, refusal)
        say(f"{unit.name}: waiting for labgrid place {client.place.name}: {refusal}")
        time.sleep(POLL_S)
    try:
        yield
    finally:
        with contextlib.suppress(FarmError):  # the coordinator is away: the next job takes the place back
            client.release_from(client.name)


def reserve(unit: Unit, user: str, owner: str, duration_s: float, force: bool) -> str:
    """Acquires the unit's place for a reservation, which the unit's lease must be; what to tell of it.

    Args:
        unit: the unit.
        user: this process's user, whose dead jobs may have left the place.
        owner: who reserves the unit; gets the place also from an earlier reservation of theirs.
        duration_s: for how long.
        force: also from any job or reservation of farm's, but never from another user of labgrid.

    Raises:
        UnitBusyError: labgrid does not give it; the text says why.
        JobError, ConfigError: labgrid or its client does not answer, or is not installed.
    """
    if unit.labgrid is None:
        return ""
    until = _now() + datetime.timedelta(seconds=math.ceil(duration_s))
    client = LabgridClient(unit.labgrid, RESERVED, f"{_word(owner)}{UNTIL}{until.strftime(TIME)}")
    if refusal := _refusal(client, _left_for(_job_client(unit.labgrid, user).name, owner, force)):
        raise _not_to_be_had(unit, client, refusal)
    return f"; labgrid place {client.place.name} too"


def release(unit: Unit, user: str, owner: str, force: bool) -> str:
    """Gives back the unit's place where `reserve` would get it; what to tell of it, also where that fails."""
    if unit.labgrid is None:
        return ""
    client = _job_client(unit.labgrid, user)
    try:
        holder = client.holder()
        if not _left_for(client.name, owner, force)(holder):
            return ""
        client.release_from(holder)
    except FarmError as error:
        return f"; labgrid place {client.place.name} may not be: {error}"
    return f"; labgrid place {client.place.name} too"


def end_expired(unit: Unit) -> bool:
    """Gives back the unit's place where a reservation has it whose time is over; whether none has it now.

    Where labgrid does not answer, or its client is not installed, nobody knows.
    """
    if unit.labgrid is None:
        return True
    client = LabgridClient(unit.labgrid, RESERVED, "expiry", LOOK_S)
    with contextlib.suppress(FarmError):
        holder = client.holder()
        if _has_ended(holder):
            client.release_from(holder)
        return _has_ended(holder) or not holder.startswith(f"{RESERVED}/")
    return False


def _refusal(client: LabgridClient, is_left: IsLeft) -> str:
    """Acquires the place, also from a holder who has left it; why labgrid refuses, empty where it does not."""
    refusal = client.acquire()
    if refusal:
        with contextlib.suppress(JobError):  # labgrid does not answer, which is what the refusal says
            if is_left(holder := client.holder()):
                client.release_from(holder)
                return client.acquire()
    return refusal


def _left_for(job: str, owner: str, force: bool) -> IsLeft:
    """Whether a place is for `owner` to take, by its holder; `job`: the name of this host's jobs, which are dead."""
    own = f"{RESERVED}/{_word(owner)}{UNTIL}"
    return lambda holder: (
        holder == job or holder.startswith(own) or _has_ended(holder) or (force and _is_of_farm(holder))
    )


def _is_of_farm(holder: str) -> bool:
    host, _, user = holder.partition("/")
    return host == RESERVED or user.startswith("farm-")


def _has_ended(holder: str) -> bool:
    """Whether this is a reservation whose time is over; one whose time cannot be read is not."""
    host, _, user = holder.partition("/")
    with contextlib.suppress(ValueError):
        until = datetime.datetime.strptime(user.rpartition(UNTIL)[2], TIME).replace(tzinfo=datetime.UTC)
        return host == RESERVED and until <= _now()
    return False


def _job_client(place: LabgridPlace, user: str) -> LabgridClient:
    return LabgridClient(place, socket.gethostname(), f"farm-{_word(user)}")


def _not_to_be_had(unit: Unit, client: LabgridClient, refusal: str) -> UnitBusyError:
    return UnitBusyError(f"{unit.name}: labgrid place {client.place.name} is not to be had: {refusal}")


def _word(name: str) -> str:
    """A person's name as a part of labgrid's: that has one slash, and no blanks."""
    return re.sub(r"[^\w.@+-]", "-", name)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


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
        return _client_refusal(self._ask("acquire"))

    def holder(self) -> str:
        """`HOST/USER` who has the place, empty where nobody has it; raises JobError where labgrid does not say."""
        done = self._ask("show")
        if refusal := _client_refusal(done):
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


def _client_refusal(done: subprocess.CompletedProcess[bytes]) -> str:
    said = (done.stderr or done.stdout).decode(errors="replace")
    return (safe_text.word(said, MAX_SHOWN) or f"status {done.returncode}") if done.returncode else ""


def _program() -> str:
    beside = str(Path(sys.executable).parent)
    found = shutil.which(PROGRAM, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise ConfigError(extras.needed("a unit with a labgrid place", "labgrid"))
    return found
