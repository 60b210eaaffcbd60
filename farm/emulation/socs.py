"""The SoCs of emulated phones, with what Android's properties and sysfs say on real phones that have them.

The names are those of real phones, even where they are unclear: Samsung's platform property names no chip, and
Qualcomm's newer chips have code names there. `ro.soc.model` exists since Android 12.
"""

import dataclasses
from typing import Literal

from farm.config.suggestion import suggestion
from runtime.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster of equal cores, and their range of clocks."""

    cores: int
    min_khz: int
    max_khz: int


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU; `folder` is the one in sysfs that holds its devfreq files, or those of MediaTek that tell its clock."""

    maker: Literal["adreno", "mali", "powervr"]
    name: str
    folder: str
    min_hz: int
    max_hz: int


@dataclasses.dataclass(frozen=True)
class Soc:
    """A chip, and the brand, model and device name of the phone that it is emulated in by default."""

    key: str
    maker: str
    soc_model: str
    platform: str
    hardware: str
    compatible: tuple[str, ...]
    soc_id: int | None  # Qualcomm's number in /sys/devices/soc0
    clusters: tuple[Cluster, ...]
    gpu: Gpu
    brand: str
    model: str
    device: str

    @property
    def cores(self) -> tuple[Cluster, ...]:
        """The cluster of each core, in order."""
        return tuple(cluster for cluster in self.clusters for _ in range(cluster.cores))


def _adreno(number: int, min_mhz: int, max_mhz: int) -> Gpu:
    return Gpu("adreno", f"Adreno{number}v1", "class/kgsl/kgsl-3d0", min_mhz * 10**6, max_mhz * 10**6)


def _mali(name: str, address: str, min_mhz: int, max_mhz: int) -> Gpu:
    return Gpu("mali", name, f"devices/platform/{address}.mali", min_mhz * 10**6, max_mhz * 10**6)


_ALL = (
    Soc(
        "sdm845", "QTI", "SDM845", "sdm845", "qcom", ("qcom,sdm845-mtp", "qcom,sdm845"), 321,
        (Cluster(4, 300_000, 1_766_400), Cluster(4, 825_600, 2_803_200)),
        _adreno(630, 257, 710), "Xiaomi", "MI 8", "dipper",
    ),
    Soc(
        "sm8150", "QTI", "SM8150", "msmnile", "qcom", ("qcom,sm8150-mtp", "qcom,sm8150"), 339,
        (Cluster(4, 300_000, 1_785_600), Cluster(3, 710_400, 2_419_200), Cluster(1, 825_600, 2_841_600)),
        _adreno(640, 257, 585), "Xiaomi", "MI 9", "cepheus",
    ),
    Soc(
        "sm8250", "QTI", "SM8250", "kona", "qcom", ("qcom,kona-mtp", "qcom,kona"), 356,
        (Cluster(4, 300_000, 1_804_800), Cluster(3, 710_400, 2_419_200), Cluster(1, 844_800, 2_841_600)),
        _adreno(650, 305, 587), "Xiaomi", "Mi 10", "umi",
    ),
    Soc(
        "sdm660", "QTI", "SDM660", "sdm660", "qcom", ("qcom,sdm660-mtp", "qcom,sdm660"), 317,
        (Cluster(4, 633_600, 1_843_200), Cluster(4, 1_113_600, 2_208_000)),
        _adreno(512, 160, 647), "Xiaomi", "MI 6X", "wayne",
    ),
    Soc(
        "kirin970", "HiSilicon", "Kirin970", "kirin970", "kirin970", ("hisilicon,kirin970",), None,
        (Cluster(4, 509_000, 1_844_000), Cluster(4, 682_000, 2_362_000)),
        _mali("Mali-G72 12 cores", "e82c0000", 103, 767), "HUAWEI", "ALP-AL00", "HWALP",
    ),
    Soc(
        "kirin980", "HiSilicon", "Kirin980", "kirin980", "kirin980", ("hisilicon,kirin980",), None,
        (Cluster(4, 830_000, 1_805_000), Cluster(2, 826_000, 1_920_000), Cluster(2, 1_460_000, 2_600_000)),
        _mali("Mali-G76 10 cores", "e82c0000", 104, 720), "HUAWEI", "EVR-AL00", "HWEVR",
    ),
    Soc(
        "mt6797", "Mediatek", "MT6797", "mt6797", "mt6797", ("mediatek,MT6797",), None,
        (Cluster(4, 221_000, 1_391_000), Cluster(4, 325_000, 1_846_000), Cluster(2, 338_000, 2_314_000)),
        _mali("Mali-T880 4 cores", "13040000", 100, 780), "Xiaomi", "Redmi Note 4", "nikel",
    ),
    Soc(
        "mt6771", "Mediatek", "MT6771", "mt6771", "mt6771", ("mediatek,MT6771",), None,
        (Cluster(4, 793_000, 1_989_000), Cluster(4, 793_000, 1_989_000)),
        _mali("Mali-G72 3 cores", "13040000", 270, 800), "Nokia", "Nokia X5", "ROO",
    ),
    Soc(
        "mt6765", "Mediatek", "MT6765", "mt6765", "mt6765", ("mediatek,MT6765",), None,
        (Cluster(4, 900_000, 1_800_000), Cluster(4, 400_000, 2_300_000)),
        Gpu("powervr", "PowerVR GE8320", "kernel/ged/hal", 400 * 10**6, 680 * 10**6), "Xiaomi", "M2006C3MG", "angelica",
    ),
    Soc(
        "exynos9810", "Samsung", "Exynos9810", "exynos5", "samsungexynos9810", ("samsung,EXYNOS9810",), None,
        (Cluster(4, 455_000, 1_794_000), Cluster(4, 650_000, 2_704_000)),
        _mali("Mali-G72 18 cores", "17500000", 260, 572), "samsung", "SM-G960F", "starlte",
    ),
    Soc(
        "gs101", "Google", "Tensor", "gs101", "oriole", ("google,GS101 ORIOLE",), None,
        (Cluster(4, 300_000, 1_803_000), Cluster(2, 400_000, 2_253_000), Cluster(2, 500_000, 2_802_000)),
        _mali("Mali-G78 20 cores", "1c500000", 151, 848), "google", "Pixel 6", "oriole",
    ),
)  # fmt: skip
SOCS = {soc.key: soc for soc in _ALL}
OTHER_NAMES = {
    "sdm855": "sm8150",
    "sdm865": "sm8250",
    "helio-x20": "mt6797",
    "helio-p60": "mt6771",
    "helio-p35": "mt6765",
}


def find_soc(name: str) -> Soc:
    """Finds a chip by its key or another common name; raises ConfigError."""
    key = OTHER_NAMES.get(name.lower(), name.lower())
    if key not in SOCS:
        raise ConfigError(f"--soc {name}: no such SoC to emulate{suggestion(name, [*SOCS, *OTHER_NAMES])}")
    return SOCS[key]
