"""The family of an OpenCL device, which decides its default variants, follows from its name and platform."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from runtime.kernels.spec import _family_defaults
from runtime.kernels.table import BUFFER_KERNELS as KERNELS
from runtime.peaks import peaks_of
from runtime.target import Target, gpu_family, runs_on_cpu, target_from_probe


@pytest.mark.parametrize(
    ("name", "version", "is_cpu", "family"),
    [
        ("QUALCOMM Adreno(TM) 630", "OpenCL 2.0 QUALCOMM build", False, "adreno-6xx"),
        ("Mali-G72", "OpenCL 2.0 v1.r9p0", False, "mali-bifrost"),
        ("Mali-G52 r1p0", "OpenCL 3.0", False, "mali-bifrost"),
        ("Mali-G57 MC2", "OpenCL 3.0", False, "mali-valhall"),
        ("Mali-G715-Immortalis", "OpenCL 3.0", False, "mali-valhall"),
        ("Mali-G720-Immortalis", "OpenCL 3.0", False, "mali-5th"),
        ("Mali-T860", "OpenCL 1.2", False, "mali-midgard"),
        ("PowerVR Rogue GE8320", "OpenCL 1.2", False, "powervr"),
        ("Samsung Xclipse 940", "OpenCL 3.0", False, "xclipse"),
        ("Maleoon 910", "OpenCL 3.0", False, "maleoon"),
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
    is_known = peaks_of(Target("s", "abi", gpu_family=family)) != peaks_of(Target("s", "abi"))
    assert is_known == (family != "unknown"), "each family that has a name has typical costs"


def test_an_adreno_may_have_its_number_in_its_version_alone() -> None:
    told = gpu_family("QUALCOMM Adreno(TM)", "OpenCL 2.0 QUALCOMM build", device_version="OpenCL 2.0 Adreno(TM) 640")
    assert told == "adreno-6xx"
    assert gpu_family("QUALCOMM Adreno(TM)", "OpenCL 2.0 QUALCOMM build", device_version="OpenCL 2.0") == "adreno"


@pytest.mark.parametrize(
    ("extension", "family"), [("cl_qcom_perf_hint", "adreno"), ("cl_arm_printf", "mali"), ("cl_img_mem", "powervr")]
)
def test_a_name_that_says_nothing_leaves_it_to_the_makers_extensions(extension: str, family: str) -> None:
    extensions = ("cl_khr_fp16", extension)
    assert gpu_family("GPU", "OpenCL 2.0", device_version="OpenCL 2.0", extensions=extensions) == family
    assert gpu_family("Samsung Xclipse 940", "OpenCL 3.0", extensions=extensions) == "xclipse"


@pytest.mark.parametrize(("version", "family"), [("OpenCL 3.0 PoCL 3.1", "pocl-3.1"), ("OpenCL 3.1 LINUX", "cpu")])
def test_a_driver_on_a_cpu_with_wide_vectors_is_a_family_of_its_own(version: str, family: str) -> None:
    assert gpu_family("Xeon", version, True, ("avx2",)) == family
    wide = gpu_family("Xeon", version, True, ("avx2", "avx512f"))
    assert wide == f"{family}-avx512"
    assert runs_on_cpu(wide)
    assert gpu_family("Mali-G72", "OpenCL 2.0", False, ("avx512f",)) == "mali-bifrost"


def test_a_probe_tells_how_wide_the_vectors_are_that_opencl_uses(probe: dict[str, Any]) -> None:
    for features, family in ((["avx2"], "pocl-3.1"), (["avx2", "avx512f"], "pocl-3.1-avx512")):
        target = target_from_probe(probe | {"cpu": {"features": features}}, "host")
        assert target.gpu_family == family


@pytest.fixture
def probe() -> dict[str, Any]:
    """What farmrt says of a machine with PoCL."""
    target = dataclasses.asdict(Target("host", "host", max_work_group_size=4096))
    device = {name: target[name] for name in ("compute_units", "max_work_group_size", "max_work_item_sizes", "fp16")}
    device |= {name: target[name] for name in ("local_memory_bytes", "max_allocation_bytes")}
    device |= {name: target[name] for name in ("image2d_max_width", "image2d_max_height")}
    device |= {"name": "pthread-cpu", "driver": "3.1", "version": "OpenCL 3.0", "images": True, "type": "cpu"}
    return {"abi": "host", "opencl": {"device": device, "platform_version": "OpenCL 3.0 PoCL 3.1"}}


def test_a_driver_for_cpus_takes_the_defaults_of_the_newest_pocl() -> None:
    for kernel in KERNELS:
        newest = list(_family_defaults(kernel.defaults, "pocl-3.1", False))
        assert newest
        assert list(_family_defaults(kernel.defaults, "cpu", False)) == newest


def test_a_family_takes_what_fits_of_its_own_and_else_of_the_wider_ones() -> None:
    (kernel,) = (each for each in KERNELS if each.name == "conv1x1")
    chosen = {
        (family, out_c): default.name
        for family in ("pocl-3.1", "pocl-3.1-avx512", "pocl-4.0-avx512", "pocl-3.0-avx512")
        for out_c in (512, 48)
        if (default := kernel.default_variant({"pixels": 196, "in_c": 512, "out_c": out_c}, _target(family)))
    }
    assert chosen["pocl-3.1-avx512", 512] == "BLOCK64_VECTOR16_PIXELS7_FMA1"
    assert chosen["pocl-3.1-avx512", 48] == "BLOCK16_VECTOR16_PIXELS7_FMA1"
    for family in ("pocl-3.1", "pocl-4.0-avx512", "pocl-3.0-avx512"):
        assert chosen[family, 512] == "BLOCK24_VECTOR8_PIXELS4_FMA0"  # 16 of 528 channels in vain, and no pixels
        assert chosen[family, 48] == "BLOCK24_VECTOR8_PIXELS4_FMA0"


def _target(family: str) -> Target:
    return Target(soc="host", abi="host", gpu_family=family)


@pytest.mark.parametrize(
    ("family", "out_c", "tile"),
    [
        ("cpu", 512, "BLOCK16_VECTOR8_PIXELS5_FMA0"),
        ("cpu", 48, "BLOCK16_VECTOR8_PIXELS5_FMA0"),
        ("cpu", 24, "BLOCK24_VECTOR8_PIXELS4_FMA0"),
        ("cpu", 40, "BLOCK16_VECTOR8_PIXELS5_FMA0"),
        ("cpu-avx512", 512, "BLOCK64_VECTOR16_PIXELS7_FMA1"),
        ("cpu-avx512", 1000, "BLOCK64_VECTOR16_PIXELS7_FMA1"),
        ("cpu-avx512", 48, "BLOCK48_VECTOR16_PIXELS9_FMA1"),
        ("cpu-avx512", 160, "BLOCK32_VECTOR16_PIXELS8_FMA1"),
        ("cpu-avx512", 16, "BLOCK16_VECTOR16_PIXELS7_FMA1"),
    ],
)
def test_it_has_defaults_of_its_own_where_they_fit(family: str, out_c: int, tile: str) -> None:
    """48 of 64 channels would be a quarter in vain; of 1000 the last block's 24 are next to nothing."""
    (kernel,) = (each for each in KERNELS if each.name == "conv1x1")
    dims = {"pixels": 49, "in_c": 256, "out_c": out_c}
    chosen = kernel.default_variant(dims, _target(family))
    assert chosen and chosen.name == tile


@pytest.mark.parametrize("family", ["cpu", "cpu-avx512"])
def test_in_half_arithmetic_it_has_none_that_calls_fma(family: str) -> None:
    for kernel in KERNELS:
        assert all(not chosen.get("FMA") for chosen in next(_family_defaults(kernel.defaults, family, True)))
