"""Clears what a dead holder left on a unit, at the begin of a new lease: running programs, and governors it had set."""

from __future__ import annotations

import dataclasses

from farm.condition import governor
from farm.transport.base import Transport

DEADLINE_S = 30.0

# Ends every program that was started from a file in the unit's folder, with its process group: what farm starts there
# leads its own group. Under an emulator the file is the emulator's, so farmrt is known by its working folder and name
# too (written so that this script does not find itself). One `ls` is quicker than `readlink` for hundreds of processes.
END_PROGRAMS = r"""
here=$(pwd -P)
ls -l /proc/[0-9]*/exe /proc/[0-9]*/cwd 2>/dev/null | while read -r line; do
  pid=${line%%/[ec][xw][ed] -> *}
  pid=${pid##*/proc/}
  case $line in
  *"/exe -> $here/"*) ;;
  *"/cwd -> $here") grep -q '/f[a]rmrt' "/proc/$pid/cmdline" 2>/dev/null || continue ;;
  *) continue ;;
  esac
  kill -9 "-$pid" 2>/dev/null
  kill -9 "$pid" 2>/dev/null && echo "killed=$pid"
done
"""


@dataclasses.dataclass(frozen=True)
class ClearedLeftovers:
    """How many programs were ended, and how many governors got their old value back."""

    programs: int = 0
    governors: int = 0

    @property
    def line(self) -> str:
        """For people: `; programs ended that were still running: 1`; empty where nothing was left."""
        ended = f"; programs ended that were still running: {self.programs}" if self.programs else ""
        return ended + (f"; governors put back: {self.governors}" if self.governors else "")


def clear(transport: Transport, sysfs: str = governor.SYSFS) -> ClearedLeftovers:
    """Ends programs and restores governors; only the holder of the lease may call this."""
    completed = transport.run(["sh", "-c", END_PROGRAMS + governor.RESTORE, "sweep", sysfs], DEADLINE_S)
    lines = set(completed.stdout.decode(errors="replace").splitlines())
    return ClearedLeftovers(*(sum(line.startswith(word) for line in lines) for word in ("killed=", "restored=")))
