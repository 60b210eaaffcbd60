"""SoC keys from the names that devices and people give a chip."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farm import soc
from farm.config.fields import SAFE_NAME
from farm.emulation.socs import OTHER_NAMES, SOCS

KEYS = {
    "sdm845": [
        "SDM845",
        "sdm845",
        "Qualcomm Technologies, Inc SDM845",
        "qcom,sdm845-mtp",
        "Snapdragon 845",
        "SDM845-v2",
    ],
    "sm8150": ["SM8150", "msmnile", "sdm855", "sm8150-mtp", "SM8150_AC", "Snapdragon 855"],
    "sm8250": ["kona", "qcom,kona-mtp", "SM8250-AB", "sdm865"],
    "sm8550": ["kalama", "SM8550"],
    "sm8750": ["SM8750", "sun", "Snapdragon 8 Elite"],
    "sm8850": ["SM8850", "canoe", "Snapdragon 8 Elite Gen 5"],
    "mt6991": ["MT6991", "Dimensity 9400"],
    "exynos2500": ["s5e9955", "Exynos 2500"],
    "zumapro": ["Tensor G4", "zumapro"],
    "laguna": ["Tensor G5"],
    "msm8998": ["MSM8998", "msm8998", "Snapdragon 835"],
    "sdm670": ["Snapdragon 670", "sdm670"],
    "kirin970": ["kirin970", "Kirin970", "Kirin 970", "hi3670", "hisilicon,hi3670-hikey970"],
    "kirin990": ["kirin990_5g"],
    "kirin9000s": ["Kirin9000S"],
    "hi6250": ["hi6250"],
    "mt6771": ["MT6771V/CT", "mt6771", "mediatek,MT6771", "Helio P60"],
    "mt6797": ["MT6797X", "Helio-X20"],
    "exynos9810": ["Exynos9810", "samsungexynos9810", "universal9810", "samsung,EXYNOS9810", "EXYNOS 9810", "s5e9810"],
    "exynos2100": ["s5e9840", "exynos2100"],
    "gs101": ["Tensor", "gs101", "GS101 ORIOLE"],
    "gs201": ["Tensor G2"],
    "rk3399": ["RK3399", "rockchip,rk3399", "rk3399-pro"],
    "rk3588": ["rk3588s"],
    "bcm2711": ["brcm,bcm2711", "BCM2711"],
    "tegra210": ["nvidia,tegra210", "Tegra210"],
    "imx8mm": ["i.MX8MM", "fsl,imx8mm-evk"],
    "sun50i-h6": ["allwinner,sun50i-h6"],
    "s905x3": ["amlogic,s905x3"],
    "ums512": ["ums512"],
}


@pytest.mark.parametrize(("key", "word"), [(key, word) for key, words in KEYS.items() for word in words])
def test_the_table_maps_names_of_devices_and_people_to_keys(key: str, word: str) -> None:
    assert soc.key_from_table(word) == soc.normalise(word) == key


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_its_own_key(key: str) -> None:
    assert soc.normalise(key) == key


@pytest.mark.parametrize(
    ("word", "key"), [("Foo Chip 9000!", "foo-chip-9000"), ("../../etc", "etc"), ("", "unknown"), ("\x1b[31m", "31m")]
)
def test_an_unknown_word_is_its_own_key(word: str, key: str) -> None:
    assert soc.normalise(word) == key


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["", "sdm845", "qcom"], "sdm845"),
        (["Exynos9810", "exynos5", "samsungexynos9810"], "exynos9810"),
        (["", "exynos5", "samsungexynos9810"], "exynos9810"),
        (["", "qcom", "lito"], "lito"),
        (["lito", "qcom", "SM7250"], "sm7250"),
        (["qcom", "QTI", "33"], "unknown"),
        ([], "unknown"),
    ],
)
def test_the_most_precise_name_counts(words: list[str], key: str) -> None:
    assert soc.soc_key(words) == key


def test_the_chip_stands_last_in_a_device_tree() -> None:
    text = "pine64,rockpro64-v2.1\0pine64,rockpro64\0rockchip,rk3399\0"
    assert soc.compatible_chips(text) == ["rk3399", "rockpro64", "rockpro64-v2.1"]
    assert soc.soc_key(soc.compatible_chips("raspberrypi,4-model-b\0brcm,bcm2711\0")) == "bcm2711"
    assert soc.soc_key(soc.compatible_chips("acme,board\0acme,chip7\0")) == "chip7"


@pytest.mark.parametrize(("number", "key"), [("321", "sdm845"), ("339", "sm8150"), ("33", ""), ("x", ""), ("²", "")])
def test_qualcomms_chip_numbers_have_keys(number: str, key: str) -> None:
    assert soc.qualcomm_key(number) == key


def test_the_emulated_chips_have_the_keys_that_phones_with_them_get() -> None:
    for chip in SOCS.values():
        assert soc.soc_key(["", chip.platform, chip.hardware]) == chip.key
        assert soc.soc_key([chip.soc_model, chip.platform, chip.hardware]) == chip.key
        assert soc.soc_key(soc.compatible_chips("\0".join(chip.compatible))) == chip.key
        assert soc.qualcomm_key(str(chip.soc_id)) == (chip.key if chip.soc_id else "")
    assert {word: soc.normalise(word) for word in OTHER_NAMES} == OTHER_NAMES


@pytest.mark.slow
@example(["IMX:0"])
@given(st.lists(st.text(max_size=300), max_size=4))
def test_every_key_can_name_a_file(words: list[str]) -> None:
    key = soc.soc_key(words)
    assert SAFE_NAME.fullmatch(key)
    assert len(key) <= soc.MAX_KEY
    assert soc.soc_key([key]) in (key, soc.UNKNOWN)
