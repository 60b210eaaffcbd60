"""Netron, the usual viewer of networks, opens the graphs that `farm convert` writes, fused operators included."""

from collections import Counter
from pathlib import Path

import netron
import onnx
import pytest

from runtime.convert import convert
from runtime.exporters.onnx_exporter import export_onnx
from runtime.zoo import catalogue
from tests.browser.chromium import Browser

pytestmark = pytest.mark.slow
DRAW_S = 60.0
SHOWN = "return [...document.querySelectorAll('.node-item-type text')].map(each => each.textContent)"
AGREED = {"name": "consent", "value": "1"}  # else it asks, before it draws, whether it may report home


def converted(name: str) -> onnx.ModelProto:
    model = catalogue.build(name, width=0.25, size=75)
    shapes = {
        value.name: tuple(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim) for value in model.graph.input
    }
    return export_onnx(convert(model, shapes)[0])


@pytest.mark.parametrize("name", catalogue.names())
def test_every_operator_of_a_graph_is_shown(browser: Browser, name: str, tmp_path: Path) -> None:
    model = converted(name)
    onnx.save(model, tmp_path / "graph.onnx")
    address = netron.start(str(tmp_path / "graph.onnx"), address=("127.0.0.1", 0), browse=False)
    try:
        page = f"http://{address[0]}:{address[1]}/"
        browser.driver.get(page)
        browser.driver.add_cookie(AGREED)
        browser.driver.get(page)
        browser.wait_until(lambda: browser.run(SHOWN), DRAW_S)
        assert Counter(browser.run(SHOWN)) == Counter(node.op_type for node in model.graph.node)
    finally:
        netron.stop(address)
