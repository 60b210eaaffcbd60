"""A simple thermal model: load heats the chip fast and the skin and battery slowly; hot chips lower their clocks.

Each part's temperature approaches its target with a first-order lag. The numbers are those of a phone in a hand:
25 degrees around it, a chip 45 degrees over its skin under full load, a skin that reaches 47 after some minutes.
"""

from __future__ import annotations

import dataclasses
import math

AMBIENT_C = 25.0
IDLE_SKIN_C = 4.0  # over ambient
LOADED_SKIN_C = 18.0  # more, under full load
LOADED_CHIP_C = 45.0  # over skin, under full load
IDLE_CHIP_C = 2.0
BATTERY_SHARE = 0.7  # of what the skin is over ambient
CHIP_LAG_S, SKIN_LAG_S, BATTERY_LAG_S = 5.0, 90.0, 240.0

# Skin temperature from which Android's thermal status is 1 (light), 2 (moderate), ... 6 (shutdown).
STATUS_FROM_C = (39.0, 42.0, 45.0, 48.0, 52.0, 56.0)
# The share of its highest clock that a chip may use at each status.
CLOCK_CAPS = (1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.4)
CHIP_LIMIT_C, CHIP_LIMIT_CAP = 85.0, 0.7
LOAD_LAG_S = 60.0


@dataclasses.dataclass(frozen=True)
class ThermalState:
    """Temperatures now, and the load average."""

    chip_c: float = AMBIENT_C + IDLE_SKIN_C + IDLE_CHIP_C
    skin_c: float = AMBIENT_C + IDLE_SKIN_C
    battery_c: float = AMBIENT_C + IDLE_SKIN_C * BATTERY_SHARE
    load_average: float = 0.0

    @classmethod
    def at(cls, celsius: float) -> ThermalState:
        """The state in which every part has that temperature."""
        return cls(celsius, celsius, celsius)

    def after(self, elapsed_s: float, load: float, cores: int) -> ThermalState:
        """The state after `elapsed_s` at that load (share of all cores in use, 0 to 1)."""
        skin = AMBIENT_C + IDLE_SKIN_C + LOADED_SKIN_C * load
        return ThermalState(
            _lag(self.chip_c, self.skin_c + IDLE_CHIP_C + LOADED_CHIP_C * load, elapsed_s, CHIP_LAG_S),
            _lag(self.skin_c, skin, elapsed_s, SKIN_LAG_S),
            _lag(self.battery_c, AMBIENT_C + (skin - AMBIENT_C) * BATTERY_SHARE, elapsed_s, BATTERY_LAG_S),
            _lag(self.load_average, load * cores, elapsed_s, LOAD_LAG_S),
        )

    @property
    def status(self) -> int:
        """Android's thermal status, 0 to 6."""
        return sum(self.skin_c >= start for start in STATUS_FROM_C)

    def clock_cap(self, status: int) -> float:
        """The share of its highest clock that the chip may use."""
        return min(CLOCK_CAPS[status], CHIP_LIMIT_CAP if self.chip_c >= CHIP_LIMIT_C else 1.0)


def clock(governor: str, lowest: int, highest: int, load: float, cap: float) -> int:
    """The clock that a governor chooses, in the unit of `lowest` and `highest`."""
    share = {"performance": 1.0, "powersave": 0.0}.get(governor, min(load * 1.25, 1.0))
    return max(lowest, min(round(lowest + (highest - lowest) * share), round(highest * cap)))


def _lag(now: float, target: float, elapsed_s: float, lag_s: float) -> float:
    return target + (now - target) * math.exp(-elapsed_s / lag_s)
