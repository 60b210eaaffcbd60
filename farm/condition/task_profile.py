"""The scheduler's profile that farmrt runs under: on Android 13 and later that of the application in the foreground.

A program that adb starts is scheduled as a background service, and its GPU times were seen to be nearly twice those of
an application. `settaskprofile THREAD PROFILE...` moves a thread to another profile, and what it starts inherits that;
so the shell that becomes farmrt does it first. Profiles are tried in turn, since vendors rename or leave out some.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from farm.transport.base import Transport

DEADLINE_S = 20.0
CANDIDATES = (
    ("SCHED_SP_TOP_APP", "CPUSET_SP_TOP_APP"),
    ("MaxPerformance", "ProcessCapacityMax"),
    ("SCHED_SP_TOP_APP",),
    ("MaxPerformance",),
)
_TRY = r"""
command -v settaskprofile >/dev/null || exit 0
for profiles in "$@"; do
  if (settaskprofile $$ $profiles) >/dev/null 2>&1; then echo "$profiles"; exit 0; fi
done
"""
_ENTER = r'settaskprofile $$ {profiles} >/dev/null 2>&1; exec "$@"'


@dataclasses.dataclass(frozen=True)
class TaskProfile:
    """Profiles that a unit lets its shell set; none on units that have no such thing."""

    profiles: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For a row's settings; empty for the shell's own."""
        return "+".join(self.profiles)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """The command that runs a program under the profiles, in the same process."""
        if not self.profiles:
            return list(argv)
        return ["sh", "-c", _ENTER.format(profiles=" ".join(self.profiles)), "sh", *argv]


def find_profile(transport: Transport) -> TaskProfile:
    """The best profiles that the unit's shell may set."""
    candidates = [" ".join(profiles) for profiles in CANDIDATES]
    answer = transport.run(["sh", "-c", _TRY, "sh", *candidates], DEADLINE_S).stdout.decode(errors="replace").strip()
    return TaskProfile(tuple(answer.split())) if answer in candidates else TaskProfile()
