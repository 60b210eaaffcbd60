"""The page of quantised models."""

from __future__ import annotations

import re

import pytest

from farm.report.quantize_page import band_of, quantize_page
from farm.rows.quantize import QuantizedLayer, QuantizeRow
from farm.rows.status import Status

HOSTILE = '</style><script>alert(1)</script><img src="http://x.example/a.png">'


def layer(**more: object) -> QuantizedLayer:
    given = {"low": -1.0, "high": 3.0, "lowest": -2.0, "highest": 6.0, "clipped_percent": 2.5, "histogram": (1, 4, 16)}
    return QuantizedLayer(name="conv", op="Conv", **{**given, **more})  # type: ignore[arg-type]


def row(*layers: QuantizedLayer) -> QuantizeRow:
    return QuantizeRow(
        **{"unit": "", "soc": "", "device_model": "", "library": "lib", "model": "net", "runtime": "onnxruntime"},  # type: ignore[arg-type]
        status=Status.OK,
        file="q.onnx",
        after_db=31.25,
        before_db=20.0,
        agreement_percent=99.0,
        samples=9,
        judged=8,
        layers=layers,
    )


def test_the_frame_is_the_range_on_what_was_seen() -> None:
    assert band_of(layer()) == (12.5, 62.5)
    assert band_of(layer(low=-4.0, high=60.0)) == (0.0, 100.0)
    assert band_of(layer(low=None, high=None)) == (0.0, 100.0)


def test_the_page_has_all_layers_and_loads_nothing() -> None:
    page = quantize_page([row(layer(), layer(in_float="kept by --keep", after_db=300.0))])
    assert "net: 1 of 2 layers are quantised, SQNR 31.2 dB (all: 20.0)" in page
    assert "left:12.5%;width:50.0%" in page and "2.50 %" in page and "kept by --keep" in page and "exact" in page
    assert [float(height) for height in re.findall(r'<i style="height:([\d.]+)%', page)[:3]] == [25.0, 50.0, 100.0]
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)


@pytest.mark.parametrize("member", ["name", "op", "in_float"])
def test_names_cannot_break_out(member: str) -> None:
    page = quantize_page([row(layer().model_copy(update={member: HOSTILE}))])
    assert "<script>alert" not in page and "x.example" not in re.sub(r"&#34;.*?&#34;", "", page)
