"""Names what Android did to a job: what ended its process, why nothing moves, why the link is gone."""

import re

from farm.rows.device_state import DeviceState
from farm.transport.base import Transport
from runtime.errors import JobError

DEADLINE_S = 10.0
# The activity manager tells of phantom processes (children that no app answers for, since Android 12), the daemon for
# want of memory of those that it ends. Doze, which stands processes still, is what `deviceidle` calls IDLE.
_KILLS = r"""
command -v logcat >/dev/null || exit 0
logcat -d -t 300 -s ActivityManager:I lowmemorykiller:I lmkd:I 2>/dev/null | grep farmrt | tail -n 1
exit 0
"""
_DOZE = r"""
command -v dumpsys >/dev/null || exit 0
for kind in deep light; do echo "$kind $(dumpsys deviceidle get $kind 2>/dev/null)"; done
exit 0
"""
PHANTOM = (
    "; it was Android's phantom-process killer, which `adb shell settings put global "
    "settings_enable_monitor_phantom_procs false` turns off"
)
LOW_MEMORY = "; it was Android's daemon for want of memory (lmkd)"
DOZES = (
    "; the phone dozes, which stands processes still: plug it in and wake it, or `adb shell dumpsys deviceidle disable`"
)
ASLEEP = "; its screen was off before, and many phones end adb then: plug it in, so that farm can keep it awake"
UNPLUGGED = "; it had no power from outside, so that farm could not keep its screen on, and many phones end adb without"


def of_kill(transport: Transport) -> str:
    """Who killed farmrt, to be added to a reason; empty where Android does not tell."""
    line = _told(transport, _KILLS)
    if re.search(r"PhantomProcessRecord|phantom process", line, re.IGNORECASE):
        return PHANTOM
    return LOW_MEMORY if "lowmemorykiller" in line or "lmkd" in line else ""


def of_silence(transport: Transport) -> str:
    """Why a unit that answers runs nothing, to be added to a reason; empty where it does not tell."""
    return DOZES if re.search(r"^(deep|light) IDLE$", _told(transport, _DOZE), re.MULTILINE) else ""


def of_loss(before: DeviceState) -> str:
    """Why a phone may have gone that is not there any more, by its state before; empty where that tells nothing."""
    if before.screen_on is False:
        return ASLEEP
    return UNPLUGGED if before.screen_on is not None and before.plugged is False else ""


def _told(transport: Transport, script: str) -> str:
    """What a script prints; empty where it cannot be run any more."""
    try:
        return transport.run(["sh", "-c", script], DEADLINE_S).stdout.decode(errors="replace").replace("\r", "")
    except JobError:
        return ""
