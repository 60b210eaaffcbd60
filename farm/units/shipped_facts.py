"""What the GPUs of common SoCs can do at least: enough to make plans for a SoC of which no unit was ever here.

The limits are those that every driver of the GPU's line offers, which may be less than a certain one does: a plan made
with them runs on all, and one that a unit was asked for may be faster. Names are the drivers' own.
"""

import dataclasses
from typing import Any

from farm import soc
from farm.farmrt.answers import ProbeAnswer

# The GPU of each SoC, by the key of farm.soc.
GPUS = {
    # Qualcomm's product pages; mainline Linux's device trees (qcom,adreno-*) have the same numbers.
    "msm8953": "Adreno 506", "msm8996": "Adreno 530", "msm8998": "Adreno 540", "sdm630": "Adreno 508",
    "sdm636": "Adreno 509", "sdm660": "Adreno 512", "sdm670": "Adreno 615", "sdm710": "Adreno 616",
    "sdm845": "Adreno 630", "sm6115": "Adreno 610", "sm6225": "Adreno 610", "sm6350": "Adreno 619",
    "sm7125": "Adreno 618", "sm7150": "Adreno 618", "sm7225": "Adreno 619", "sm7250": "Adreno 620",
    "sm7325": "Adreno 642", "sm7435": "Adreno 710", "sm7450": "Adreno 644", "sm7475": "Adreno 725",
    "sm7550": "Adreno 720", "sm7635": "Adreno 810", "sm7675": "Adreno 732", "sm8150": "Adreno 640",
    "sm8250": "Adreno 650", "sm8350": "Adreno 660", "sm8450": "Adreno 730", "sm8475": "Adreno 730",
    "sm8550": "Adreno 740", "sm8635": "Adreno 735", "sm8650": "Adreno 750", "sm8735": "Adreno 825",
    "sm8750": "Adreno 830", "sm8850": "Adreno 840",
    # HiSilicon's product pages; of the 9000S and 9010 what their drivers call themselves in public benchmark results.
    "kirin960": "Mali-G71", "kirin970": "Mali-G72", "kirin980": "Mali-G76", "kirin990": "Mali-G76",
    "kirin9000": "Mali-G78", "kirin9000s": "Maleoon 910", "kirin9010": "Maleoon 910",
    # MediaTek's product pages.
    "mt6765": "PowerVR GE8320", "mt6771": "Mali-G72", "mt6785": "Mali-G76", "mt6797": "Mali-T880",
    "mt6893": "Mali-G77", "mt6983": "Mali-G710", "mt6985": "Mali-G715-Immortalis", "mt6989": "Mali-G720-Immortalis",
    "mt6991": "Mali-G925-Immortalis",
    # Samsung's product pages.
    "exynos8895": "Mali-G71", "exynos9810": "Mali-G72", "exynos9820": "Mali-G76", "exynos990": "Mali-G77",
    "exynos2100": "Mali-G78", "exynos2200": "Xclipse 920", "exynos2400": "Xclipse 940", "exynos2500": "Xclipse 950",
    # Google's pages of its phones, and Imagination's of the DXT in the G5.
    "gs101": "Mali-G78", "gs201": "Mali-G710", "zuma": "Mali-G715", "zumapro": "Mali-G715",
    "laguna": "PowerVR D-Series DXT-48-1536",
    # Data sheets of the boards' makers.
    "rk3399": "Mali-T860", "rk3566": "Mali-G52", "rk3568": "Mali-G52", "rk3588": "Mali-G610",
    "s922x": "Mali-G52", "a311d": "Mali-G52",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _GpuLine:
    """What the drivers of a maker's GPUs have in common; `name` or `version` has the GPU's, where drivers say it."""

    name: str
    vendor: str
    image_side: int
    version: str = "OpenCL 1.2"


_LINES = {
    "Adreno": _GpuLine("QUALCOMM Adreno(TM)", "QUALCOMM", 16_384, "OpenCL 1.2 {gpu}"),
    "Mali": _GpuLine("{gpu}", "ARM", 8_192),
    "Xclipse": _GpuLine("Samsung {gpu}", "Samsung Electronics Co., Ltd.", 8_192),
    "Maleoon": _GpuLine("{gpu}", "HUAWEI", 8_192),
    "PowerVR": _GpuLine("{gpu}", "Imagination Technologies", 8_192),
}
_WORK_GROUP_SIZE = 256
_LOCAL_MEMORY_BYTES = 32_768
_ALLOCATION_BYTES = 2**28


def shipped_probe(key: str, abi: str) -> ProbeAnswer | None:
    """What farmrt would say at least of a SoC; None where its GPU is not in the table."""
    gpu = GPUS.get(soc.normalise(key))
    if gpu is None:
        return None
    opencl = {"platform_version": "OpenCL 1.2", "device": _device(gpu)}
    return ProbeAnswer.model_validate({"abi": abi, "cpu": {}, "opencl": opencl})


def _device(gpu: str) -> dict[str, Any]:
    line = next(line for name, line in _LINES.items() if gpu.startswith(name))
    return {
        "name": line.name.format(gpu=gpu),
        "vendor": line.vendor,
        "type": "gpu",
        "driver": "",
        "version": line.version.format(gpu=gpu),
        "compute_units": 1,
        "max_work_group_size": _WORK_GROUP_SIZE,
        "max_work_item_sizes": [_WORK_GROUP_SIZE] * 3,
        "local_memory_bytes": _LOCAL_MEMORY_BYTES,
        "max_allocation_bytes": _ALLOCATION_BYTES,
        "images": True,
        "image2d_max_width": line.image_side,
        "image2d_max_height": line.image_side,
        "fp16": True,
    }
