"""Costs for tests of the selection: any figure for any launch, the same each time."""

from __future__ import annotations

import dataclasses
import hashlib

from runtime.lowering.launch import Launch
from runtime.selection.costs import CostOrigin, cost_key
from runtime.target import Target

GPU = Target("soc", "abi", gpu_family="adreno-6xx", compute_units=2, image2d_max_width=16384, image2d_max_height=16384)
GPU_AND_CPU = dataclasses.replace(GPU, allow_cpu=True)


@dataclasses.dataclass(frozen=True)
class DrawnCosts:
    """1 to 100 ms for each key, drawn from its hash; conversions cost `conversion` times as much."""

    seed: int
    conversion: float = 1.0

    def milliseconds(self, launch: Launch) -> float:
        digest = hashlib.sha256(f"{self.seed} {cost_key(launch)}".encode()).digest()
        drawn = 1.0 + int.from_bytes(digest[:4], "little") % 100
        return drawn * (self.conversion if "Image" in launch.op or launch.op == "Transpose" else 1.0)

    def origin(self, launch: Launch) -> CostOrigin:
        return CostOrigin.MODELLED
