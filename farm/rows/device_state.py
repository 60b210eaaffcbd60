"""What could spoil a measurement, as it is read on a unit."""

from pydantic import Field

from farm.rows.record import Figure, Record


class DeviceState(Record):
    """What could spoil a measurement, read on the unit; None or empty where it does not tell.

    Clocks are each core's: now, and the most that the unit allows itself now; 0 of a core that is offline. `plugged`
    says whether it has power from outside, whether or not the battery takes it. `temperature_c` is the chip's hottest
    part, `thermal_status` Android's (0 none, 1 light, 2 moderate, 3 severe, 4 critical, 5 emergency, 6 shutdown),
    `cooling` the highest step by which the kernel slows the CPU or GPU down, `cooling_steps` that of each cooling
    device that is at one, by number; `governors` are by core range, and `gpu`.
    """

    load_average: Figure = None
    clock_mhz: tuple[float, ...] = ()
    clock_limit_mhz: tuple[float, ...] = ()
    gpu_clock_mhz: Figure = None
    temperature_c: Figure = None
    skin_temperature_c: Figure = None
    thermal_status: int | None = None
    cooling: int | None = None
    cooling_steps: dict[str, int] = Field(default_factory=dict)
    battery_percent: int | None = None
    battery_temperature_c: Figure = None
    charging: bool | None = None
    plugged: bool | None = None
    screen_on: bool | None = None
    low_power: bool | None = None
    governors: dict[str, str] = Field(default_factory=dict)
    free_bytes: int | None = None
    free_memory_bytes: int | None = None
