"""The selection of units by SoC, device and tag, and the error where none matches."""

import itertools

import pytest

from farm.config.inventory import HOST, Unit
from farm.units.selection import ANY, SelectableUnit, Selection, one_per_soc, select
from runtime.errors import NoUnitError


def phone(name: str, soc: str, *tags: str, serial: str = "") -> Unit:
    return Unit(
        name,
        "adb",
        soc,
        "Phone",
        ("arm64-v8a",) if soc != "unknown" else (),
        tags=tags,
        serial=serial or f"serial-{name}",
    )


PIXEL = phone("pixel", "sdm845", "lab", "quiet")
MI8 = phone("mi8", "sdm845", "lab")
MI9 = phone("mi9", "sm8150", "desk")
ODD = phone("odd", "unknown")
THERE = [
    SelectableUnit(HOST),
    SelectableUnit(PIXEL, "offline"),
    SelectableUnit(MI8),
    SelectableUnit(MI9),
    SelectableUnit(ODD, "unauthorized"),
]

CHOICES: dict[str, tuple[Selection, list[Unit]]] = {
    "nothing said": (ANY, [HOST, PIXEL, MI8, MI9, ODD]),
    "all": (Selection(every=True), [HOST, PIXEL, MI8, MI9, ODD]),
    "soc": (Selection(socs=("SDM845",)), [PIXEL, MI8]),
    "soc by its other name": (Selection(socs=("msmnile",)), [MI9]),
    "two socs": (Selection(socs=("sm8150", "host")), [HOST, MI9]),
    "device": (Selection(devices=("mi9",)), [MI9]),
    "two devices, in the inventory's order": (Selection(devices=("mi9", "host")), [HOST, MI9]),
    "serial": (Selection(devices=("serial-mi8",)), [MI8]),
    "tag": (Selection(tags=("lab",)), [PIXEL, MI8]),
    "two tags": (Selection(tags=("quiet", "desk")), [PIXEL, MI9]),
    "soc and tag": (Selection(socs=("sdm845",), tags=("quiet",)), [PIXEL]),
    "soc and devices": (Selection(socs=("sdm845",), devices=("mi8", "mi9")), [MI8]),
    "all and soc": (Selection(every=True, socs=("sdm845",)), [PIXEL, MI8]),
    "one of each soc, the ready one": (Selection(one_per_soc=True), [HOST, MI8, MI9, ODD]),
    "one of a soc": (Selection(one_per_soc=True, socs=("sdm845",)), [MI8]),
    "one of a soc that is not ready": (Selection(one_per_soc=True, tags=("quiet",)), [PIXEL]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_options_select_the_units_that_match_all_of_them(name: str) -> None:
    choice, units = CHOICES[name]
    assert select(THERE, choice) == units


@pytest.mark.slow
def test_the_order_of_units_does_not_change_which_are_selected() -> None:
    for order in itertools.permutations(THERE):
        for choice, units in CHOICES.values():
            assert set(select(order, choice)) == set(units)


def test_of_units_that_are_equally_ready_the_first_is_taken() -> None:
    a, b = SelectableUnit(phone("a", "sm8150")), SelectableUnit(phone("b", "msmnile"))
    assert one_per_soc([a, b]) == [a]
    assert one_per_soc([b, a]) == [b]


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (Selection(socs=("sdm660",)), "--soc sdm660: no such unit"),
        (Selection(socs=("sdm845", "sdm660")), "--soc sdm660: no such unit"),
        (Selection(devices=("mi8", "mi88")), "--device mi88: no such unit, did you mean 'mi8'?"),
        (Selection(tags=("labs",)), "--tag labs: no such unit, did you mean 'lab'?"),
        (Selection(socs=("unknown",)), "--soc unknown: no such unit"),
        (Selection(devices=("",)), "--device : no such unit"),
        (Selection(socs=("host",), tags=("lab", "desk")), "no unit fits --soc host and --tag lab or desk at once"),
    ],
)
def test_no_match_says_what_there_is_and_how_to_add(choice: Selection, text: str) -> None:
    with pytest.raises(NoUnitError) as caught:
        select(THERE, choice)
    message = str(caught.value)
    assert message.startswith(text)
    assert (
        "host (SoC host, ABI host, ready), pixel (SoC sdm845, ABI arm64-v8a, tags lab quiet, offline), mi8 (" in message
    )
    assert "odd (SoC unknown, unauthorized); to add one, plug in a phone" in message
    assert "devices.yml" in message
    assert caught.value.exit_status == 3


def test_a_long_list_is_cut() -> None:
    many = [SelectableUnit(phone(f"phone{number}", "sdm845")) for number in range(50)]
    with pytest.raises(NoUnitError, match="and 30 more"):
        select(many, Selection(devices=("x",)))


def test_without_any_unit_there_is_none() -> None:
    with pytest.raises(NoUnitError, match="no unit is there; there are: none; to add one"):
        select([])
