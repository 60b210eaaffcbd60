"""The table of engines beside farmrt."""

from __future__ import annotations

from benchmarks import engines_page
from farm.rows.status import Status
from tests.farm.report.test_engines_page import rows_of


def test_the_table_has_all_engines_and_its_verdicts() -> None:
    rows = rows_of("host", farmrt=2.0, onnxruntime=1.0)
    text = engines_page.text_of({"net": rows}, others_cores=0.0)
    assert "- net on host: onnxruntime (cpu) is the fastest of 2: farmrt (cpu) takes 2.00 times as long" in text
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| net |")]
    assert [line[1] for line in lines] == ["**onnxruntime (cpu)**", "farmrt (cpu)", "crashes (cpu)"]
    assert lines[1][3].startswith("2.00 (") and lines[2][2:4] == ["-", "-"] and lines[2][-1].startswith(Status.FAILED)
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    assert "Other work" not in text and "Other work" in engines_page.text_of({"net": rows}, 1.0)


def test_the_page_has_its_place_for_the_table() -> None:
    page = engines_page.PAGE.read_text()
    assert page.count(engines_page.BEGIN) == page.count(engines_page.END) == 1
    assert page.index(engines_page.BEGIN) < page.index(engines_page.END)


def test_networks_are_those_of_the_zoo_for_an_image() -> None:
    known = engines_page.networks()
    images = ["squeezenet_v11", "mobilenet_v2", "mobilenet_v1", "resnet50", "inception_v3"]
    images += ["mobilenet_v3_large", "efficientnet_lite0"]
    assert sorted(name for name in known if "." not in name and "8bit" not in name) == sorted(images)
    assert {"mobilenet_v2_8bit", "squeezenet_v11_8bit"} <= set(known)
    with known["squeezenet_v11"]() as source:
        assert source.models["squeezenet_v11"].runtimes == ("cpu", "gpu")
