"""Gives units' places in labgrid back when a person's time is over, whether anybody looks at the units or not."""

from __future__ import annotations

from collections.abc import Callable

from farm.lease import labgrid_place
from farm.units import lookup
from runtime.errors import FarmError


class PlaceSweep:
    """The places of all units of this host, those too that cannot be used now.

    Args:
        say: is told what went wrong, once as long as it stays the same.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, ""

    def run(self) -> None:
        """Looks at every place once; what goes wrong with one does not keep the others."""
        problems = []
        try:
            for unit in [entry.unit for entry in lookup.present()]:
                try:
                    labgrid_place.end_expired(unit)
                except OSError as error:  # labgrid's client could not be started
                    problems.append(f"{unit.name}: labgrid's client: {error.strerror or error}")
        except (FarmError, OSError) as error:
            problems.append(f"places in labgrid: {error}")
        text = "; ".join(problems)
        if text and text != self._said:
            self._say(text)
        self._said = text
