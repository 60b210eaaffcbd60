"""Describes a device as far as the lowering must know it: ABI, GPU family, limits, precision, memory type."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

from runtime.types import ELEMENT_BYTES, Dot, ElementType, Precision

_GPU_FAMILIES = (
    (r"adreno.*?(\d)\d\d", "adreno-{0}xx"),
    (r"adreno", "adreno"),
    (r"mali-g(31|5[12]|7[126])\b", "mali-bifrost"),
    (r"mali-g(57|68|7[78]|[3567]10|[67]15)\b", "mali-valhall"),
    (r"mali-g\d", "mali-5th"),  # Arm's fifth generation, by that name
    (r"mali-t\d+", "mali-midgard"),
    (r"mali", "mali"),
    (r"powervr|rogue", "powervr"),
    (r"xclipse", "xclipse"),
    (r"maleoon", "maleoon"),
    (r"nvidia|geforce|tesla|quadro|h100|h200|a100", "nvidia"),
    (r"intel.*(graphics|iris|arc)", "intel"),
    (r"amd|radeon|gfx\d+", "amd"),
)
_FAMILIES_BY_EXTENSION = {"cl_qcom": "adreno", "cl_arm": "mali", "cl_img": "powervr"}
NOTHING_COMPUTED = "played, nothing is computed"  # begins what a played GPU that only tells times says of its driver
AVX512 = "-avx512"  # behind the family of a driver for such CPUs


@dataclasses.dataclass(frozen=True)
class Target:
    """A device as the lowering sees it. `memory` is `buffer`, `image` or `cpu` (no OpenCL at all).

    `cpu_block`: channels of a block of activations on the CPU, as many as fill its vectors; any CPU can run either.
    `cpu_quantized`: whether the CPU is faster in eight bits; any CPU can run them. `cpu_vnni`: whether it has
    AVX-512 VNNI, so that direct convolutions of bytes take less time than Winograd's in floats. `cpu_pairs`: whether it
    sums products of two pairs of 16 bits at once (AVX2), so that Winograd's are faster in integers. `refused`: variants
    of kernels that the driver does not build or that compute wrongly, as `Kernel.refused_name` names them.
    """

    soc: str
    abi: str
    gpu: str = ""
    driver: str = ""
    opencl_version: str = ""
    gpu_family: str = ""
    memory: str = "buffer"
    precision: Precision = Precision.FP32
    allow_cpu: bool = False
    compute_units: int = 1
    max_work_group_size: int = 256
    max_work_item_sizes: tuple[int, int, int] = (256, 256, 64)
    local_memory_bytes: int = 32768
    max_allocation_bytes: int = 1 << 28
    image2d_max_width: int = 8192
    image2d_max_height: int = 8192
    fp16: bool = False
    subgroups: bool = False
    dot: Dot = Dot.NONE
    cpu_block: int = 8
    cpu_quantized: bool = True
    cpu_vnni: bool = False
    cpu_pairs: bool = False
    refused: frozenset[str] = frozenset()

    @property
    def in_float(self) -> Target:
        """The same device with floats stored and computed with as they are."""
        return dataclasses.replace(self, precision=Precision.FP32)

    @property
    def moves_bytes(self) -> bool:
        """Whether tensors of eight bits lie as bytes between its kernels: most drivers for CPUs lose more by making
        floats of them than they gain, and half arithmetic takes the zero point from sums that have lost its last bits.
        """
        gains = self.dot == Dot.AVX2 or not runs_on_cpu(self.gpu_family)
        return self.memory == "buffer" and not self.precision.computes_in_half and gains

    @property
    def computes(self) -> bool:
        """Whether outputs mean anything: not those of a played GPU that only tells times."""
        return not self.driver.startswith(NOTHING_COMPUTED)

    @property
    def element(self) -> ElementType:
        """Type of activations in memory: floats on a CPU, whatever the precision."""
        return ElementType.F32 if self.memory == "cpu" else self.precision.element

    @property
    def has_half_weights(self) -> bool:
        """Whether weights alone lie in memory as halves."""
        return self.memory == "cpu" and self.precision.stores_half

    @property
    def element_bytes(self) -> int:
        """Bytes of an activation in memory."""
        return ELEMENT_BYTES[self.element]


def gpu_family(
    device_name: str,
    platform_version: str,
    is_cpu: bool = False,
    cpu_features: Collection[str] = (),
    device_version: str = "",
    extensions: Collection[str] = (),
) -> str:
    """Returns the family key of a GPU (`pocl-3.1`, `adreno-6xx`), which selects default variants and fallback tuning.

    What stands before a `-` names the wider family. `cpu` is any driver for CPUs other than PoCL, such as Intel's: its
    device bears the CPU's name, which does not tell the driver. Where work groups run on a CPU whose vectors have 16
    floats the key ends in `-avx512`: such a CPU has twice the registers for them, too. An Adreno may have its number in
    the device's version alone; where neither that nor the name says anything, the maker's extensions do.
    """
    vectors = AVX512 if is_cpu and "avx512f" in cpu_features else ""
    pocl = re.search(r"pocl (\d+\.\d+)", platform_version, re.IGNORECASE)
    if pocl:
        return f"pocl-{pocl[1]}{vectors}"
    if is_cpu:
        return f"cpu{vectors}"
    for pattern, family in _GPU_FAMILIES:
        match = re.search(pattern, f"{device_name} {device_version}", re.IGNORECASE)
        if match:
            return family.format(*match.groups())
    makers = (_FAMILIES_BY_EXTENSION.get("_".join(each.split("_")[:2]), "") for each in extensions)
    return next(filter(None, makers), "unknown")


def has_subgroups(extensions: Collection[str]) -> bool:
    """Whether work items can join values in subgroups; Intel's driver for CPUs lists only what builds on these."""
    return not {"cl_khr_subgroups", "cl_khr_subgroup_extended_types"}.isdisjoint(extensions)


def dot_of(extensions: Collection[str], version: str, family: str = "", cpu_features: Collection[str] = ()) -> Dot:
    """The instructions that a device of this version has for products of bytes. Khronos' are of OpenCL C 3.0."""
    if wider_family(family) == "pocl" and "avx2" in cpu_features and "avx512f" not in cpu_features:
        return Dot.AVX2
    if "cl_khr_integer_dot_product" in extensions and version.startswith("OpenCL 3"):
        return Dot.KHRONOS
    if "cl_arm_integer_dot_product_accumulate_int8" in extensions:
        return Dot.ARM
    return Dot.QUALCOMM if "cl_qcom_dot_product8" in extensions else Dot.NONE


def wider_family(family: str) -> str:
    """The family without what tells its members apart: `cpu` of `cpu-avx512`, `pocl` of `pocl-3.1`."""
    return family.split("-")[0]


def runs_on_cpu(family: str) -> bool:
    """Whether work groups of a GPU family run on a CPU's cores, each in a loop."""
    return wider_family(family) in ("cpu", "pocl")


def shares_an_axis(family: str) -> bool:
    """Whether cores get shares of the axis that has most work groups, as Intel's driver for CPUs gives them.

    PoCL's threads take groups from a pile.
    """
    return wider_family(family) == "cpu"


def remembers_programs(family: str) -> bool:
    """Whether the driver keeps what it builds on disk, and compiles it once more to give it away."""
    return wider_family(family) == "pocl"


def preferred_memory(family: str) -> str:
    """Memory type that runs faster on a GPU family: Adreno and PowerVR sample images well, the others like buffers."""
    return "image" if wider_family(family) in ("adreno", "powervr") else "buffer"


def preferred_cpu_block(features: Collection[str]) -> int:
    """Channels of a block for a CPU with these features: one vector of AVX-512, or two of NEON and one of AVX2."""
    return 16 if "avx512f" in features else 8


def gains_by_bytes(features: Collection[str]) -> bool:
    """Whether a CPU with these features multiplies bytes faster than floats.

    AVX2 and VNNI do, AVX-512 alone does not; of ARM's those with dot products.
    """
    return "asimddp" in features or "avx512_vnni" in features or ("avx2" in features and "avx512f" not in features)


def multiplies_halves(features: Collection[str]) -> bool:
    """Whether a CPU with these features multiplies registers of halves."""
    return "asimdhp" in features


def cpu_fields(features: Collection[str]) -> dict[str, Any]:
    """What a target says of a CPU with these features."""
    fields = {"cpu_block": preferred_cpu_block(features), "cpu_quantized": gains_by_bytes(features)}
    return {
        **fields,
        "cpu_vnni": "avx512_vnni" in features,
        "cpu_pairs": "avx2" in features and "avx512f" not in features,
    }


def target_from_probe(probe: Mapping[str, Any], soc: str, **settings: Any) -> Target:
    """The target that a farmrt probe describes (docs/farmrt.md); `settings` override single fields."""
    opencl = probe["opencl"]
    device = opencl.get("device")
    features = probe["cpu"].get("features", ())
    fields: dict[str, Any] = {"soc": soc, "abi": probe["abi"], **cpu_fields(features)}
    if device is None:
        fields["memory"] = "cpu"
    else:
        is_cpu = device.get("type") == "cpu"
        told = (device["version"], device.get("extensions", ()))
        family = gpu_family(device["name"], opencl["platform_version"], is_cpu, features, *told)
        fields |= {
            "gpu": device["name"],
            "driver": device["driver"],
            "opencl_version": device["version"],
            "gpu_family": family,
            "memory": preferred_memory(family) if device["images"] else "buffer",
            "compute_units": device["compute_units"],
            "max_work_group_size": device["max_work_group_size"],
            "max_work_item_sizes": tuple(device["max_work_item_sizes"]),
            "local_memory_bytes": device["local_memory_bytes"],
            "max_allocation_bytes": device["max_allocation_bytes"],
            "image2d_max_width": device["image2d_max_width"],
            "image2d_max_height": device["image2d_max_height"],
            "fp16": device["fp16"],
            "subgroups": has_subgroups(device.get("extensions", ())),
            "dot": dot_of(device.get("extensions", ()), device["version"], family, features),
        }
    return Target(**(fields | settings))
