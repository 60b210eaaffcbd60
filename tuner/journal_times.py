"""How long launches take, as journals know it: for choices that are made from costs instead of new trials."""

import dataclasses
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.journal import read_records, trial_of

NS_PER_MS = 1e6


@dataclasses.dataclass(frozen=True)
class DeviceTimes:
    """What one device measured: tuning key -> ms of its fastest right candidate, infinite where none that ran is right.

    `device` is the fingerprint of its trials; `gpu_family` is empty where an older farm did not write it. `best_ms` are
    the fastest single repetitions: of launches that show what the device can do at most.
    """

    device: str
    gpu_family: str
    ms: Mapping[str, float]
    best_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)


def read_times(path: Path) -> list[DeviceTimes]:
    """The times of every device in a journal, empty where there is none; FormatError where the file is no journal."""
    devices: dict[str, list[dict[str, Any]]] = {}
    for record in read_records(path):
        devices.setdefault(record["fingerprint"], []).append(record)
    return [_device_times(device, records) for device, records in devices.items()]


def _device_times(device: str, records: list[dict[str, Any]]) -> DeviceTimes:
    """A candidate's time is the median of its trials, re-tests among them: the fastest of many trials flatters."""
    trials: dict[str, dict[object, list[float]]] = {}
    best_ms: dict[str, float] = {}
    for record in records:
        trial, key = trial_of(record), record["key"]
        trials.setdefault(key, {}).setdefault((record["variant"], *record["local"]), []).append(trial.typical_ns)
        best_ms[key] = min(best_ms.get(key, math.inf), trial.fastest_ns / NS_PER_MS)
    families = [str(record["gpu_family"]) for record in records if record.get("gpu_family")]
    fastest = {key: min(map(statistics.median, by_candidate.values())) for key, by_candidate in trials.items()}
    ms = {key: ns / NS_PER_MS for key, ns in fastest.items()}
    return DeviceTimes(device, families[-1] if families else "", ms, best_ms)


def scale_between(own: Mapping[str, float], other: Mapping[str, float]) -> float:
    """What another device's times are multiplied by to be like one's own: by the launches that both have timed.

    1 without any: times of one device are comparable with each other all the same.
    """
    both = ((own[key], other[key]) for key in own.keys() & other.keys())
    ratios = [one / two for one, two in both if math.isfinite(one) and 0 < two < math.inf]
    return statistics.median(ratios) if ratios else 1.0
