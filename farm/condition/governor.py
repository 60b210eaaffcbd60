"""Scripts that set the frequency governors to `performance`, where the unit allows it, and restore them.

Before a governor is changed, its value is saved in the file `.governors` of the unit's folder.
"""

from farm.transport.base import Transport

SYSFS = "/sys"
DEADLINE_S = 20.0
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
"""


def may_set(transport: Transport, sysfs: str = SYSFS) -> bool:
    """Whether the unit lets a job set the governors of its CPU."""
    return transport.run(["sh", "-c", MAY_SET, "governors", sysfs], DEADLINE_S).exit_status == 0
