"""Durations as people write them: `90s`, `45m`, `2h`, `1h30m`, `3d`."""

import re

UNITS_S = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_FORM = re.compile("".join(rf"(?:(?P<{unit}>\d{{1,6}}(?:\.\d{{1,3}})?){unit})?" for unit in UNITS_S))


def parse_duration(text: str) -> float:
    """Seconds; raises ValueError, which says what is accepted, for anything else."""
    found = _FORM.fullmatch("".join(text.split()).lower())
    seconds = sum(float(found[unit] or 0) * length_s for unit, length_s in UNITS_S.items()) if found else 0.0
    if not seconds:
        raise ValueError(f"{text!r} is no duration; write 45m, 2h, 1h30m or 3d")
    return seconds
