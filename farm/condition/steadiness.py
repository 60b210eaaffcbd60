"""Holds a unit steady for a job: governors at `performance` where it allows that, a phone awake; restored afterwards.

What was before is saved in the unit's folder, and restored when the job ends; after a `kill -9`, when the next lease
begins (farm.lease.leftovers).
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from farm import safe_text
from farm.condition import awake, governor
from farm.transport.base import Transport
from runtime.errors import JobError

DEADLINE_S = 30.0
MAX_GOVERNORS = 64

HOLD = f"asked=$2\n{governor.SET}{awake.KEEP}exit 0\n"
RESTORE = f"{governor.RESTORE}{awake.RESTORE}exit 0\n"  # argument: where the governors' files are


@dataclasses.dataclass(frozen=True)
class Steadiness:
    """What was changed on a unit: governors, name -> `performance`, and whether it is told to stay awake."""

    governors: Mapping[str, str]
    is_kept_awake: bool

    @property
    def settings(self) -> dict[str, Any]:
        """The members of a row's settings; none where nothing was changed."""
        awake_settings = {"kept_awake": True} if self.is_kept_awake else {}
        return ({"governors": dict(self.governors)} if self.governors else {}) | awake_settings


@contextlib.contextmanager
def held_steady(
    transport: Transport,
    keep_awake: bool = True,
    check: Callable[[], None] = lambda: None,
    sysfs: str = governor.SYSFS,
) -> Iterator[Steadiness]:
    """Holds the unit steady for the block; yields what was changed, which a phone without root mostly refuses.

    `check` raises a JobError when the lease is lost: what was changed then belongs to the next holder.
    """
    words = ["sh", "-c", HOLD, "hold", sysfs, "1" if keep_awake else "0"]
    lines = transport.run(words, DEADLINE_S).stdout.decode(errors="replace").splitlines()
    files = [line.removeprefix("set=") for line in lines if line.startswith("set=")]
    changed = Steadiness(
        {_governor_name(file): governor.PERFORMANCE for file in files[:MAX_GOVERNORS]}, "kept_awake" in lines
    )
    try:
        yield changed
    finally:
        if changed.settings:
            with contextlib.suppress(JobError):
                check()
                transport.run(["sh", "-c", RESTORE, "restore", sysfs], DEADLINE_S)


def _governor_name(file: str) -> str:
    """Names a governor by the folder of its file: `policy0`, `cpu3` or `ff9a0000.gpu`."""
    folders = [part for part in PurePosixPath(file).parts[:-1] if part not in ("cpufreq", "devfreq")]
    return safe_text.word(folders[-1])
