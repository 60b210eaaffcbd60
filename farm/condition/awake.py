"""Keeps a phone awake for a job: a phone that sleeps clocks its cores down, and may drop its connection.

The file `.kept_awake` of the unit's folder says that a job changed the setting, which was off.
"""

WAKE = r"""
dumpsys power 2>/dev/null | grep -q 'mWakefulness=Awake' || input keyevent KEYCODE_WAKEUP >/dev/null 2>&1
"""
# `svc power stayon` holds while the phone has power. Each of Android's programs takes half a second to start, so that
# a phone whose owner keeps it on is only looked at. $asked: 1 where the phone shall stay awake.
KEEP = rf"""
if [ "$asked" = 1 ] && command -v dumpsys >/dev/null && command -v svc >/dev/null; then
  case $(settings get global stay_on_while_plugged_in 2>/dev/null) in
  0 | null) : >.kept_awake && svc power stayon true 2>/dev/null && echo kept_awake ;;
  esac
{WAKE}fi
"""
RESTORE = "[ -f .kept_awake ] && rm .kept_awake && svc power stayon false >/dev/null 2>&1\n"  # short: see Marker.take
