"""Typical sizes of matrix products, for `farm opbench`."""

from runtime.operators.case import OperatorCase, shape_text, sized


def _dense(channels: int, out: int, rows: int = 1, activation: str = "", bits: int = 0) -> OperatorCase:
    x, attrs = (rows, channels), {"activation": activation} if activation else {}
    name = f"FullyConnected_{shape_text(x)}_{out}{activation and f'_{activation}'}{f'_int{bits}' if bits else ''}"
    return OperatorCase(name, "FullyConnected", (x,), ((out, channels), (out,)), attrs, weight_bits=bits)


OPBENCH_CASES = (
    _dense(1024, 1001),
    _dense(1024, 1000, rows=16),
    _dense(2048, 1000),
    sized("MatMul", (8, 128, 64), (8, 64, 128), detail="128"),
    sized("MatMul", (1, 8, 128, 64), (8, 1, 64, 128), detail="8x1"),
    _dense(192, 768, rows=197),
    _dense(192, 576, rows=197),
    _dense(192, 768, rows=197, activation="gelu"),
    _dense(768, 192, rows=197),
    _dense(256, 1024, rows=128, activation="gelu"),
    _dense(384, 1536, rows=128, activation="gelu"),
    _dense(1536, 384, rows=128),
    _dense(512, 1376),
    _dense(1376, 512),
    _dense(512, 1376, rows=128),
    _dense(2048, 1000, bits=8),
    _dense(512, 1376, bits=4),
    _dense(512, 1376, rows=128, bits=8),
)
