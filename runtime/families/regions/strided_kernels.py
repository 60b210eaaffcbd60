"""The row of the strided CPU operator that pools regions."""

from __future__ import annotations

from runtime.kernels.strided import code, strided_row
from runtime.semantics.functions import RegionFunction
from runtime.semantics.generic import MAX_SAMPLES

_IMAGE = "images rows columns image_stride:any row_stride:any column_stride:any"
_HEAD = f"{code('function', RegionFunction)} samples:0-{MAX_SAMPLES} {_IMAGE}"

STRIDED_KERNELS = (strided_row("region_pooling", "x regions where y", _HEAD, "scale shift smallest"),)
