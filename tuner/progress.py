"""How far a search is, and who is told."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a search is: work done of that planned (in programs), device time of the budget, and the stage."""

    done: float
    planned: float
    device_s: float
    budget_s: float
    trials: int
    stage: str

    @property
    def share(self) -> float:
        """Part of the search that is done, by work or by budget, whichever ends it first."""
        by_work = self.done / self.planned if self.planned else 1.0
        by_budget = self.device_s / self.budget_s if self.budget_s else 1.0
        return min(max(by_work, by_budget), 1.0)


Observer = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """An observer that does nothing."""
