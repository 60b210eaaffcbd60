"""Runs farmrt under the scheduler profile of a foreground application, on Android 13 and later.

Android schedules a program that adb starts as a background service; GPU times nearly twice those of an application were
seen. `settaskprofile THREAD PROFILE...` sets a thread's profile, which its child processes inherit; so the shell that
becomes farmrt sets it first. Several profiles are tried in turn, since vendors rename or leave out some.
"""

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
    """The profiles that a unit lets its shell set; none on units without task profiles."""

    profiles: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The profiles for a row's settings, joined with `+`; empty where the shell's own profile is used."""
        return "+".join(self.profiles)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Wraps a command so that it runs under the profiles, in the same process."""
        if not self.profiles:
            return list(argv)
        return ["sh", "-c", _ENTER.format(profiles=" ".join(self.profiles)), "sh", *argv]


def find_profile(transport: Transport) -> TaskProfile:
    """Finds the first of CANDIDATES that the unit's shell may set."""
    candidates = [" ".join(profiles) for profiles in CANDIDATES]
    answer = transport.run(["sh", "-c", _TRY, "sh", *candidates], DEADLINE_S).stdout.decode(errors="replace").strip()
    return TaskProfile(tuple(answer.split())) if answer in candidates else TaskProfile()
