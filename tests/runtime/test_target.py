"""The family of an OpenCL device, which decides its default variants, follows from its name and platform."""

from __future__ import annotations

import pytest

from runtime.kernels.buffer import KERNELS
from runtime.target import gpu_family, runs_on_cpu


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
        assert kernel._family_defaults("cpu") == kernel._family_defaults("pocl-3.1") != ()
