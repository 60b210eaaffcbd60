"""Plans without what a driver refuses, and tuned parameters without it: no unit is asked."""

import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest

from farm.jobs.fleet import refused_kernels, tuned_entries
from farm.jobs.fleet.unit import OpenUnit
from runtime.errors import DeviceError
from runtime.kernels import table
from runtime.kernels.source import build_options
from runtime.kernels.spec import MemoryType, Variant
from runtime.plan.artifacts import TunedEntry, TunedSet, decode_tuned, encode_tuned, fingerprint_of
from runtime.target import Target
from runtime.types import Precision

CONV = table.find_kernel("conv1x1", MemoryType.BUFFER)
DEFINES = {"ACTIVATION": 1, "RESIDUAL": 0}
REFUSED = DeviceError("clBuildProgram: refused", "build_failed")


def entry(variant: Variant, precision: Precision = Precision.FP16) -> TunedEntry:
    """A tuned launch of a kernel by a variant."""
    defines = ",".join(f"{key}={value}" for key, value in DEFINES.items())
    key = f"conv1x1|buffer|{precision.label}|hash|{defines}|pixels=64"
    options = build_options(variant, precision, DEFINES)
    return TunedEntry(key, "conv1x1", options, 8, 2, (64, 16, 1), (8, 4, 1), 100, 50)


@pytest.mark.parametrize("variant", CONV.variants, ids=str)
def test_an_entry_is_named_by_the_variant_that_it_launches(variant: Variant) -> None:
    assert tuned_entries.refused_name(entry(variant)) == CONV.refused_name(variant, Precision.FP16)


@pytest.mark.parametrize(
    "changed", [{"key": "conv|1"}, {"key": "another|buffer|fp16|hash|A=1|"}, {"options": "-DPRECISION=2"}]
)
def test_an_entry_of_another_farm_has_no_name(changed: dict[str, str]) -> None:
    assert tuned_entries.refused_name(dataclasses.replace(entry(CONV.variants[0]), **changed)) == ""  # type: ignore[arg-type]


def test_tuned_launches_that_are_refused_are_left_out(tmp_path: Path) -> None:
    good, bad = entry(CONV.variants[0]), entry(CONV.variants[1])
    sets = [TunedSet(fingerprint_of(Target("sdm845", "gpu")), "Mi 8", (good, bad))]
    (tuned := tmp_path / "tuned.bin").write_bytes(encode_tuned(sets))
    assert tuned_entries.without_refused(tuned, (), tmp_path) == tuned
    assert tuned_entries.without_refused(tuned, {"pool buffer fp16 default"}, tmp_path) == tuned
    (folder := tmp_path / "left").mkdir()
    left = tuned_entries.without_refused(tuned, {tuned_entries.refused_name(bad)}, folder)
    assert [each.entries for each in decode_tuned(left.read_bytes(), "left")] == [(good,)]
    tuned.write_bytes(b"damaged")
    assert tuned_entries.without_refused(tuned, {tuned_entries.refused_name(bad)}, folder) == tuned


@dataclasses.dataclass
class Driver:
    """One that refuses the first plans."""

    refuses: int
    made: int = 0

    def make(self) -> Any:
        self.made += 1
        return self.made

    def use(self, plan: int) -> int:
        if plan <= self.refuses:
            raise REFUSED
        return plan


@pytest.mark.parametrize(("refuses", "learned"), [(0, 0), (3, 3), (refused_kernels.PASSES, refused_kernels.PASSES)])
def test_the_plan_that_is_used_is_always_the_last_that_was_made(
    monkeypatch: pytest.MonkeyPatch, refuses: int, learned: int
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(refused_kernels, "learn", lambda _, ready: seen.append(ready) or True)
    driver = Driver(refuses)
    assert refused_kernels.used_without(cast(OpenUnit, None), driver.make, driver.use) == refuses + 1 == driver.made
    assert len(seen) == learned


def test_a_driver_that_refuses_for_no_known_reason_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_kernels, "learn", lambda *_: False)
    with pytest.raises(DeviceError, match="refused"):
        refused_kernels.used_without(cast(OpenUnit, None), Driver(1).make, Driver(1).use)
