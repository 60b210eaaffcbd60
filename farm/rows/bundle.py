"""What a night leaves of a case for later nights: hashes of the files that the unit worked with, and its duet."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from farm.rows.duet import SoftwareVerdict
from farm.rows.record import Figure, Record
from farm.rows.row import OWN_ENGINE, runner


class BundleManifest(Record):
    """A case's night in the bundle archive; without `files` where the night was not accepted or they had to go.

    `name` is that of the nightly run, `files` role -> SHA-256 (`farmrt`, `plan`, `weights`, `tuned`, `kernels`, and
    `selection`, by which the plan was made).
    `settings` is how they are loaded and executed, `facts` what the unit said of its system and drivers.
    `build` is the SHA-256 of farmrt, or of a library or program of the user's, whether or not its file is kept.
    `against` to `claim` are the night's duet: the times of its pairs only where it left a suspicion undecided (the next
    night judges them with its own), `change` the logarithm that they show, `change_variance` its variance by them,
    `claim` the run that began the claim which it is part of.
    `busy_s` is what its `blocks` took, `temperature_c` the highest meanwhile, `waited_share` the share of their time
    that rounds waited for a core.
    """

    name: str
    unit: str
    soc: str
    library: str
    model: str
    runtime: str
    setting: str
    engine: str = OWN_ENGINE
    run: int
    started: str
    commit: str = ""
    files: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    facts: dict[str, str] = Field(default_factory=dict)
    build: str = ""
    against: int | None = None
    verdict: SoftwareVerdict = SoftwareVerdict.NONE
    suspected: bool = False
    pairs: int = 0
    duet_s: float = 0.0
    pair_times: tuple[tuple[float, float], ...] = ()
    change: Figure = None
    change_variance: float = 0.0
    claim: int | None = None
    busy_s: float = 0.0
    blocks: int = 0
    temperature_c: Figure = None
    waited_share: Figure = None

    @property
    def series(self) -> tuple[str, ...]:
        """What all nights of the case have in common."""
        other = () if self.engine == OWN_ENGINE else (self.engine,)  # so that farmrt's keep their places
        return (self.name, self.unit, self.library, self.model, self.runtime, self.setting, *other)

    def __str__(self) -> str:
        way = f"{runner(self.runtime, self.engine)}, {self.setting}"
        return f"bundle of run {self.run}, {self.model} ({way}) on {self.unit}"

    @property
    def program(self) -> str:
        """Names the program that ran, which varies as builds do; empty of a release of an engine."""
        return self.build or self.files.get("farmrt", "")

    def is_same_software(self, other: BundleManifest) -> bool:
        """Whether the unit would work with the very same bytes in the same way."""
        return bool(self.files) and (self._executed, self.settings) == (other._executed, other.settings)

    @property
    def _executed(self) -> dict[str, str]:
        """The files that the unit executes: what a choice says is in the plan."""
        return {role: digest for role, digest in self.files.items() if role != "selection"}
