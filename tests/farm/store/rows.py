"""Rows for tests of the store."""

from typing import Any

from farm.rows.device_state import DeviceState
from farm.rows.latency import Latency
from farm.rows.nightly import Block, NightlyRow
from farm.rows.run import RunRow

COOL = DeviceState(temperature_c=31.5, clock_mhz=(1800.0, 1800.0), battery_percent=80, charging=False)
WARM = DeviceState(temperature_c=44.0, clock_mhz=(1800.0, 1400.0), battery_percent=79, charging=False)
VERSIONS = {"farm": "0.1.0"}


def a_row(**changes: Any) -> RunRow:
    """A good row of `farm run`."""
    return RunRow.model_validate(
        {
            "unit": "pixel",
            "soc": "sm8350",
            "device_model": "Pixel",
            "library": "lib",
            "model": "net",
            "runtime": "gpu",
            "status": "ok",
            "time": "2026-03-01T22:00:00+00:00",
            "versions": VERSIONS,
            "fingerprint": {"driver": "1"},
            "latency_ms": Latency.of([2.0, 1.0, 4.0]),
            "state_before": COOL,
            "state_after": WARM,
        }
        | changes
    )


def a_block(*samples: float, **changes: Any) -> Block:
    """A block of a nightly row."""
    fields = {"time": "2026-03-01T22:00:00+00:00", "arm": "a", "init_ms": 30.0, "first_ms": 9.0}
    states = {"state_before": COOL, "state_after": WARM}
    return Block.model_validate({**fields, **states, "samples": samples or (5.0, 5.5, 6.0), **changes})


def a_nightly_row(*blocks: Block, **changes: Any) -> NightlyRow:
    """A good row of `farm nightly`."""
    common = a_row().model_dump(exclude={"job", "latency_ms"})
    measured = {"blocks": blocks or (a_block(), a_block(arm="b")), "cosine": 0.999, "identity": "serial-1"}
    return NightlyRow.model_validate(common | measured | changes)
