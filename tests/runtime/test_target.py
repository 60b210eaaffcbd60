"""The family of an OpenCL device, which decides its default variants, follows from its name and platform."""

from __future__ import annotations

import pytest

from runtime.kernels.buffer import KERNELS
from runtime.target import Target, gpu_family, runs_on_cpu
from runtime.types import Precision


@pytest.mark.parametrize(
    ("name", "version", "is_cpu", "family"),
    [
        ("QUALCOMM Adreno(TM) 630", "OpenCL 2.0 QUALCOMM build", False, "adreno-6xx"),
        ("Mali-G72", "OpenCL 2.0 v1.r9p0", False, "mali-bifrost"),
        ("pthread-AMD EPYC", "OpenCL 3.0 PoCL 3.1+debian  Linux", True, "pocl-3.1"),
        ("AMD EPYC", "OpenCL 3.1 LINUX", True, "cpu"),
        ("AMD Radeon Pro", "OpenCL 2.1 AMD-APP", False, "amd"),
        ("Intel(R) UHD Graphics 620", "OpenCL 3.0", False, "intel"),
        ("thing", "OpenCL 1.2", False, "unknown"),
    ],
)
def test_the_family_follows_from_device_and_platform(name: str, version: str, is_cpu: bool, family: str) -> None:
    assert gpu_family(name, version, is_cpu) == family
    assert runs_on_cpu(family) == is_cpu


def test_a_driver_for_cpus_takes_the_defaults_of_the_newest_pocl() -> None:
    for kernel in KERNELS:
        (newest,) = kernel._family_defaults("pocl-3.1")
        assert [*kernel._family_defaults("cpu")][1:] == [newest] != [()]


@pytest.mark.parametrize(
    ("out_c", "tile"), [(512, "BLOCK32_VECTOR16_PIXELS6_FMA1"), (48, "BLOCK16_VECTOR16_PIXELS7_FMA1")]
)
def test_it_has_defaults_of_its_own_where_they_fit(out_c: int, tile: str) -> None:
    (kernel,) = (each for each in KERNELS if each.name == "conv1x1")
    dims = {"pixels": 49, "in_c": 256, "out_c": out_c}
    target = Target(soc="host", abi="host", gpu_family="cpu")
    assert kernel.default_variant(dims, target).name == tile


def test_in_half_arithmetic_it_has_none_that_calls_fma() -> None:
    for kernel in KERNELS:
        assert all(not chosen.get("FMA") for chosen in next(kernel._family_defaults("cpu", Precision.FP16)))
