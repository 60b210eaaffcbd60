"""What surrounds a launch while it is timed: other launches that leave the caches as a model does.

Between two runs of a launch, a model runs all its others, and what the launch reads has left the fast caches: alone and
repeated, the same launch takes half the time where it reads many weights, or writes much.
"""

from collections.abc import Sequence

from runtime.lowering.trials import TrialLaunch

SWEEP_BYTES = 4_000_000  # at least so much is touched before each timed launch: the fast caches of two large cores
MOST_LAUNCHES = 4  # farmrt takes up to eight


def launches_before(launch: TrialLaunch, launches: Sequence[TrialLaunch]) -> list[TrialLaunch]:
    """The launches to run before each timed one: those that touch much memory for little arithmetic.

    Only launches that may run at any time, since they read nothing that they write (`poison`).
    """
    others = [other for other in launches if other.key != launch.key and other.poison is not None and other.bytes]
    chosen: list[TrialLaunch] = []
    for other in sorted(others, key=lambda other: other.macs / other.bytes):
        if len(chosen) == MOST_LAUNCHES or sum(one.bytes for one in chosen) >= SWEEP_BYTES:
            break
        chosen.append(other)
    return chosen


class Surroundings:
    """What runs before each launch of some models, looked up by tuning key."""

    def __init__(self, launches: Sequence[TrialLaunch] = ()) -> None:
        self._before = {launch.key: launches_before(launch, launches) for launch in launches}

    def before(self, key: str) -> Sequence[TrialLaunch]:
        """The launches before each timed one; none for a key that is not known."""
        return self._before.get(key, ())
