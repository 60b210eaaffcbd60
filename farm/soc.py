"""Derives the SoC key, by which `--soc`, target_socs and artifacts name a chip, from the names that devices report.

A key is the maker's part number in lower case without variants: `sdm845`, `sm8150`, `kirin970`, `mt6771`,
`exynos9810`, `rk3399`, `bcm2711`. RULES is the one table; a word that no rule knows is its own key, cleaned.
"""

import re
from collections.abc import Iterable, Sequence

UNKNOWN = "unknown"
MAX_KEY = 40
MAX_WORD = 200

# What is looked for in a word (lower case, where a part of it starts; `~`: and ends) -> the key. The first that fits
# counts.
RULES: tuple[tuple[str, str], ...] = (
    # Qualcomm: platform code names where they mean one chip, names in shops, part numbers.
    (r"(?:msmnile|sdm855|snapdragon[ _-]?855)~", "sm8150"),
    (r"(?:kona|sdm865|snapdragon[ _-]?865)~", "sm8250"),
    (r"(?:lahaina|sdm888|snapdragon[ _-]?888)~", "sm8350"),
    (r"taro~", "sm8450"),
    (r"kalama~", "sm8550"),
    (r"pineapple~", "sm8650"),
    (r"(?:sun|snapdragon[ _-]?8[ _-]?elite)$", "sm8750"),
    (r"(?:canoe~|snapdragon[ _-]?8[ _-]?elite[ _-]?gen[ _-]?5~)", "sm8850"),
    (r"snapdragon[ _-]?(6[367]0|710|845)~", r"sdm\1"),
    (r"snapdragon[ _-]?835~", "msm8998"),
    (r"(sdm|sda|sm|msm|apq|qcs|qcm|qrb|sc|sa)(\d{3,4})", r"\1\2"),
    # HiSilicon: the numbers that kernels use are not those in shops.
    (r"hi3660", "kirin960"),
    (r"hi3670", "kirin970"),
    (r"hi3680", "kirin980"),
    (r"kirin[ _-]?(\d{3,4}[a-z]?)~", r"kirin\1"),
    (r"(hi\d{4})", r"\1"),
    # MediaTek.
    (r"helio[ _-]?x20~", "mt6797"),
    (r"helio[ _-]?p60~", "mt6771"),
    (r"helio[ _-]?(?:p35|g35)~", "mt6765"),
    (r"helio[ _-]?g9[05]t?~", "mt6785"),
    (r"dimensity[ _-]?9300~", "mt6989"),
    (r"dimensity[ _-]?9400~", "mt6991"),
    (r"mt[ _-]?(\d{4})", r"mt\1"),
    # Samsung: newer ones have another number in the kernel.
    (r"s5e9830", "exynos990"),
    (r"s5e9840", "exynos2100"),
    (r"s5e9925", "exynos2200"),
    (r"s5e9945", "exynos2400"),
    (r"s5e9955", "exynos2500"),
    (r"(?:samsung)?exynos[ _-]?(\d{3,4})", r"exynos\1"),
    (r"universal(\d{3,4})", r"exynos\1"),
    (r"s5e(\d{4})", r"exynos\1"),
    # Google.
    (r"(?:google )?tensor$", "gs101"),
    (r"(?:google )?tensor[ _-]g2~", "gs201"),
    (r"(?:google )?tensor[ _-]g3~", "zuma"),
    (r"(?:google )?tensor[ _-]g4~", "zumapro"),
    (r"(?:google )?tensor[ _-]g5~", "laguna"),
    (r"(gs\d01|(?:zuma(?:pro)?|laguna)~)", r"\1"),
    # Boards: Rockchip, Broadcom, NVIDIA, NXP, Allwinner, Amlogic, Texas Instruments; Unisoc.
    (r"rk[ _-]?(3\d{3})", r"rk\1"),
    (r"(bcm2\d{3})", r"\1"),
    (r"tegra[ _-]?(\d{2,3})", r"tegra\1"),
    (r"i\.?mx[ _-]?(\d[a-z0-9]{0,6})", r"imx\1"),
    (r"(sun\d{1,2}i-[a-z]{1,2}\d{1,4})", r"\1"),
    (r"(s9\d\d[a-z]\d?|a311d2?)~", r"\1"),
    (r"(am\d{3,4})", r"\1"),
    (r"(ums\d{3,4})", r"\1"),
)
_RULES = tuple((re.compile(rf"(?<![a-z0-9])(?:{pattern.replace('~', '(?![a-z0-9])')})"), key) for pattern, key in RULES)

# The numbers that Qualcomm's kernels write into /sys/devices/soc0/soc_id.
QUALCOMM_IDS = {
    246: "msm8996", 292: "msm8998", 293: "msm8953", 317: "sdm660", 321: "sdm845", 339: "sm8150", 356: "sm8250",
    439: "sm8350", 457: "sm8450", 519: "sm8550", 557: "sm8650", 618: "sm8750",
}  # fmt: skip

# Words that name a maker or a family, not a chip.
_GENERIC = re.compile(
    r"qcom|qti|qualcomm|mtk|mediatek|samsung|exynos\d?|hisilicon|kirin|google|snapdragon|rockchip|android|arm|generic|"
    r"default|none|null|n-a|\d*"
)


def normalise(word: str) -> str:
    """The key of a name that a user or a device gives a chip; `unknown` where nothing is left of it."""
    return key_from_table(word) or _cleaned(word) or UNKNOWN


def soc_key(words: Iterable[str]) -> str:
    """The key from all names that a device reports, the most precise first.

    It is that of the first name in the table, else the first name that is no maker's, else `unknown`.
    """
    all_words = list(words)
    table_keys = (key for word in all_words if (key := key_from_table(word)))
    cleaned_words = (key for word in all_words if (key := _cleaned(word)) and not _GENERIC.fullmatch(key))
    return next(table_keys, "") or next(cleaned_words, UNKNOWN)


def key_from_table(word: str) -> str:
    """The key that the table gives a name; empty where no rule matches."""
    lower = word[:MAX_WORD].lower().strip()
    for pattern, key in _RULES:
        if match := pattern.search(lower):
            return match.expand(key)
    return ""


def qualcomm_key(soc_id: str) -> str:
    """The key for a chip's number in Qualcomm's kernels; empty where the number is unknown, or none."""
    return QUALCOMM_IDS.get(int(soc_id), "") if soc_id.isascii() and soc_id.isdigit() and len(soc_id) < 6 else ""


def compatible_chips(text: str) -> Sequence[str]:
    """The entries of a device tree's `compatible`, without makers; in reverse order, since the chip's stands last."""
    entries = [entry for entry in text.split("\0") if entry]
    return [entry.rpartition(",")[2] for entry in reversed(entries[-16:])]


def _cleaned(word: str) -> str:
    """The word as part of a file name, by the table's spelling where only signs between its parts kept it from that."""
    key = re.sub(r"[^a-z0-9_-]+", "-", word[:MAX_WORD].lower()).strip("_-")[:MAX_KEY].rstrip("_-")
    return key_from_table(key) or key
