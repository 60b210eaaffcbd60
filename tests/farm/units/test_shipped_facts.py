"""Facts of SoCs that were never here: each has a GPU that the lowering knows."""

from __future__ import annotations

import pytest

from farm import soc
from farm.units.shipped_facts import GPUS, shipped_probe


@pytest.mark.parametrize("key", GPUS)
def test_a_shipped_soc_makes_a_target_of_a_known_family(key: str) -> None:
    probe = shipped_probe(key, "arm64-v8a")
    assert probe and soc.normalise(key) == key
    target = probe.target(key)
    assert target.gpu_family not in ("unknown", "adreno", "mali")
    assert target.memory == ("image" if target.gpu_family.startswith(("adreno", "powervr")) else "buffer")
