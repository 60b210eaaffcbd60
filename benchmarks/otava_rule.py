"""apache-otava's change points on the last nights, each night: a rule beside others, in a Python of its own.

    python benchmarks/otava_rule.py < REQUEST   # that Python has the package

otava pins versions of NumPy and SciPy, so that it is asked in another process: `[values, first night]` a line as JSON,
the signs of each night's alarms a line back. It says 1 or -1 in the night that its newest change point first shows in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

WINDOW = 60  # nights; otava's own default is to split them by 50
MISSING = "not installed"


def ask(python: str, series: Sequence[tuple[list[float], int]]) -> list[list[int]] | None:
    """The alarms of each series from its first night on that counts; None where that Python has no otava."""
    if not series or not has_otava(python):
        return None
    request = "\n".join(json.dumps(each) for each in series)
    done = subprocess.run([python, __file__], input=request, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def has_otava(python: str) -> bool:
    """Whether a Python can import it."""
    return subprocess.run([python, "-c", "import otava"], capture_output=True, check=False).returncode == 0


def _alarms(values: list[float], begin: int) -> list[int]:
    from otava.analysis import compute_change_points

    alarms, last = [0] * len(values), 0
    for night in range(max(begin, 2), len(values)):
        first = max(night + 1 - WINDOW, 0)
        points, _ = compute_change_points(values[first : night + 1])
        newest = max((first + point.index for point in points), default=0)
        if newest > last:
            point = max(points, key=lambda point: point.index)
            alarms[night], last = (1 if point.stats.mean_2 > point.stats.mean_1 else -1), newest
    return alarms


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_alarms(*json.loads(line))))
