"""Sets the frequency governors to `performance` for a job, where the unit allows it, and restores them afterwards.

Before a governor is changed, its value is saved in the file `.governors` of the unit's folder. It is restored when the
job ends; after a `kill -9`, when the next lease begins (farm.lease.leftovers).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from farm import safe_text
from farm.transport.base import Transport
from runtime.errors import JobError

SYSFS = "/sys"
DEADLINE_S = 20.0
MAX_GOVERNORS = 64
PERFORMANCE = "performance"

# $1: where sysfs is. Core by core where a kernel has no policies; the files of a policy are the same ones.
SET = r"""
for file in "$1"/devices/system/cpu/cpufreq/policy*/scaling_governor \
  "$1"/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor \
  "$1"/class/devfreq/*/governor "$1"/class/kgsl/kgsl-3d0/devfreq/governor; do
  case $file in *cpufreq* | *gpu*/governor | *mali*/governor | *kgsl*/governor) ;; *) continue ;; esac
  [ -w "$file" ] && read -r was 2>/dev/null <"$file" && [ "$was" != performance ] || continue
  echo "$file $was" >>.governors || exit 1
  { echo performance >"$file"; read -r now <"$file"; } 2>/dev/null
  [ "$now" = performance ] && echo "set=$file"
done
exit 0
"""
MAY_SET = r"""
for file in "$1"/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
  [ -w "$file" ] && exit 0
done
exit 1
"""
RESTORE = r"""
if [ -f .governors ]; then
  while read -r file was; do
    case $file in
    */../*) ;;
    "$1"/*governor) echo "$was" 2>/dev/null >"$file" && echo "restored=$file" ;;
    esac
  done <.governors
  rm -f .governors
fi
exit 0
"""


@contextlib.contextmanager
def performance_governors(
    transport: Transport, check: Callable[[], None] = lambda: None, sysfs: str = SYSFS
) -> Iterator[dict[str, str]]:
    """Sets the governors to `performance` for the block; yields those that were set, name -> `performance`.

    Yields nothing where the unit allows no change, as a phone without root. `check` raises a JobError when the lease is
    lost: the governors then belong to the next holder and are left alone.
    """
    answer = transport.run(["sh", "-c", SET, "governors", sysfs], DEADLINE_S).stdout.decode(errors="replace")
    files = [line.removeprefix("set=") for line in answer.splitlines() if line.startswith("set=")]
    try:
        yield {_governor_name(file): PERFORMANCE for file in files[:MAX_GOVERNORS]}
    finally:
        if files:
            with contextlib.suppress(JobError):
                check()
                transport.run(["sh", "-c", RESTORE, "governors", sysfs], DEADLINE_S)


def may_set(transport: Transport, sysfs: str = SYSFS) -> bool:
    """Whether the unit lets a job set the governors of its CPU."""
    return transport.run(["sh", "-c", MAY_SET, "governors", sysfs], DEADLINE_S).exit_status == 0


def _governor_name(file: str) -> str:
    """Names a governor by the folder of its file: `policy0`, `cpu3` or `ff9a0000.gpu`."""
    folders = [part for part in PurePosixPath(file).parts[:-1] if part not in ("cpufreq", "devfreq")]
    return safe_text.word(folders[-1])
