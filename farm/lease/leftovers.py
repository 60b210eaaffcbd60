"""Clears what a dead holder left on a unit, at the begin of a new lease: running programs, and what it had set."""

import dataclasses

from farm.condition import governor, steadiness
from farm.transport.base import Transport

DEADLINE_S = 30.0
ENGINE_MARK = "FARM_ENGINE=1"  # in the environment of what runs an engine

# Ends every program that was started from a file in the unit's folder, with its process group: what farm starts there
# leads its own group. Under an emulator the file is the emulator's, so farmrt is known by its working folder and name
# too (written so that this script does not find itself). Another engine may be a script, or what that became: it is
# known by a variable (w: files of their words, v: of their variables). A `grep` for all is quicker than a loop where
# there are hundreds of processes. Short: see Marker.take.
END_PROGRAMS = r"""
cd -P . && at=$PWD
all=$(ls -l /proc/[0-9]*/exe /proc/[0-9]*/cwd 2>/dev/null | grep -F -e "-> $at")
own= w= v=
set -f
IFS='
'
for line in $all; do
  pid=${line%%/[ec][xw][ed] -> *}
  pid=${pid##*/proc/}
  case $line in
  *"/exe -> $at/"*) own="$own $pid" ;;
  *"/cwd -> $at") w="$w $pid/cmdline" v="$v $pid/environ" ;;
  esac
done
set +f
unset IFS
for f in $(cd /proc; (grep -l '/f[a]rmrt' $w /dev/null; grep -l FARM_ENGIN[E]= $v /dev/null) 2>/dev/null); do
  own="$own ${f%/*}"
done
for pid in $own; do
  kill -9 "-$pid"
  kill -9 "$pid" && echo "killed=$pid"
done 2>/dev/null
"""
CLEAR = END_PROGRAMS + steadiness.RESTORE  # argument: where the governors' files are


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
    """Ends programs and restores what was set; only the holder of the lease may call this."""
    return parse(transport.run(["sh", "-c", CLEAR, "sweep", sysfs], DEADLINE_S).stdout.decode(errors="replace"))


def parse(output: str) -> ClearedLeftovers:
    """Counts what CLEAR printed, among other lines."""
    lines = set(output.splitlines())
    return ClearedLeftovers(*(sum(line.startswith(word) for line in lines) for word in ("killed=", "restored=")))
