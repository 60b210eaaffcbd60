"""When each phase of a tuning must have ended on a unit, and how much fits into the time that is left."""

import dataclasses
import math

from runtime.statistics.ratios import MINIMUM_ROUNDS
from tuner.budget import Deadline

PROOF_SHARE = 0.4  # of the time that is left after the trial plan was made: compiling, and processes that run in turns
PROOF_ROUNDS = 5  # at the very least: one that compiles, and two of the default and of what was found, each
PROOF_TURNS = 2 * (2 + MINIMUM_ROUNDS)  # twice: to compile and rehearse, then as many as an interval needs
LEAST_SEARCH_SHARE = 0.3  # of the same time, however long processes take to begin

SELECTION_SHARE = 0.25  # of the time that is left: half for measuring what may be chosen, half for whole processes


def needed_budget_s(search_s: float, round_s: float, selects: bool, turn_s: float = 0.0) -> float:
    """The budget of which enough is left for a search of so many seconds, to two digits; a proof keeps its share.

    `selects`: whether the plan is chosen first. `turn_s`: what a process of each way takes, all together.
    """
    share = 1.0 - SELECTION_SHARE if selects else 1.0
    turns_s = PROOF_TURNS * turn_s
    proof_s = max(PROOF_ROUNDS * round_s, turns_s, turns_s / (1.0 - LEAST_SEARCH_SHARE) - search_s)
    seconds = max(search_s / (1.0 - PROOF_SHARE), search_s + proof_s) / share
    step = 10.0 ** max(math.floor(math.log10(max(seconds, 1.0))) - 1, 0)
    return math.ceil(seconds / step) * step


class TuningSchedule:
    """Shares the time until a deadline, for `models` models, between their choices, searches and proofs."""

    def __init__(self, deadline: Deadline, models: int) -> None:
        self.deadline, self._models, self._given_s = deadline, models, deadline.left_s
        self._selected = self._searched = self._proved = 0

    @property
    def spent_s(self) -> float:
        """What is spent so far for each model; 0 where there is no deadline."""
        return (self._given_s - self.deadline.left_s) / self._models if math.isfinite(self._given_s) else 0.0

    def selection(self) -> tuple[Deadline, Deadline]:
        """When measuring for the choice of the next model's plan must end, and when its proof."""
        part = SELECTION_SHARE / max(self._models - self._selected, 1)
        self._selected += 1
        return self.deadline.share(part / 2), self.deadline.share(part)

    def search(self, models: int, round_s: float = 0.0, turn_s: float = 0.0) -> Deadline:
        """When the search of the next models must end; those after them keep their share.

        A proof of models one round of which takes `round_s`, all together, keeps time for PROOF_ROUNDS of them, and for
        PROOF_TURNS of a process of each way, which take `turn_s`, unless that leaves hardly any time for the search.
        """
        share_s = self.deadline.left_s * models / max(self._models - self._searched, models)
        self._searched += models
        left_s = max(share_s - PROOF_TURNS * turn_s, LEAST_SEARCH_SHARE * share_s)
        most_s = min((1.0 - PROOF_SHARE) * share_s, left_s, share_s - PROOF_ROUNDS * round_s)
        return self.deadline.within(max(most_s, 0.0))

    def proof(self) -> Deadline:
        """When the proof of the next model must end."""
        part = 1.0 / max(self._models - self._proved, 1)
        self._proved += 1
        return self.deadline.share(part)


MOST = 8  # in one trial plan: all of its programs are built before the first is timed


@dataclasses.dataclass
class Pace:
    """Counts what fits into the time that is left, if each takes as long as in the slowest batch so far.

    The first batch has one member, so that what takes long is known before much of it is begun.
    """

    slowest_s: float = 0.0

    def fitting(self, left_s: float, most: int = MOST) -> int:
        """Members of the next batch; 0 where no further one would end in time."""
        if left_s <= 0.0:
            return 0
        return int(min(left_s / self.slowest_s, most)) if self.slowest_s else 1

    def note(self, members: int, seconds: float) -> None:
        """Adds a batch."""
        self.slowest_s = max(self.slowest_s, seconds / members)
