"""Typical sizes of convolutions, for `farm opbench`."""

from runtime.operators.case import OperatorCase, shape_text
from runtime.types import Algorithm


def _conv(
    c: int,
    size: int,
    out: int,
    k: int = 3,
    stride: int = 1,
    dilation: int = 1,
    group: int = 1,
    algorithm: Algorithm = Algorithm.DIRECT,
    bits: int = 0,
    height: int = 0,
) -> OperatorCase:
    """Padded to keep the size, but for a window as large as the image, which is a fully connected layer."""
    pad = dilation * (k // 2) if k < size else 0
    x = (1, c, height or size, size)
    attrs = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (dilation,) * 2, "group": group}
    window = f"K{k}x{k}S{stride}x{stride}D{dilation}x{dilation}G{group}{f'W{tile}' if (tile := algorithm.tile) else ''}"
    weights = ((out, c // group, k, k), (out,))
    name = f"Conv_{shape_text(x)}_{window}_{out}{f'_int{bits}' if bits else ''}"
    return OperatorCase(name, "Conv", (x,), weights, attrs | {"activation": "relu"}, algorithm, weight_bits=bits)


OPBENCH_CASES = (
    *(_conv(3, 224, out, stride=2) for out in (16, 32)),
    _conv(3, 224, 64, k=7, stride=2),
    _conv(3, 227, 96, k=11, stride=4),
    _conv(64, 56, 64),
    _conv(128, 28, 128),
    _conv(256, 14, 256),
    _conv(512, 7, 512),
    _conv(16, 28, 32, k=5),
    _conv(64, 28, 64, dilation=2),
    _conv(96, 28, 96, group=4),
    _conv(64, 56, 64, algorithm=Algorithm.WINOGRAD_2),
    _conv(64, 56, 64, algorithm=Algorithm.WINOGRAD_4),
    _conv(256, 14, 256, algorithm=Algorithm.WINOGRAD_2),
    _conv(256, 14, 256, algorithm=Algorithm.WINOGRAD_4),
    *(_conv(c, size, out, k=1) for c, size, out in ((32, 112, 64), (64, 56, 128), (256, 28, 256), (512, 14, 512))),
    _conv(1024, 7, 1024, k=1),
    *(
        _conv(c, size, out_c, k=1)
        for c, size, out_c in ((144, 56, 24), (240, 28, 40), (72, 28, 120), (576, 14, 96), (384, 14, 64), (960, 7, 160))
    ),
    *(_conv(256, pixels, 1024, k=1, height=1) for pixels in (2, 3)),
    *(_conv(c, size, c, group=c, stride=s) for c, size, s in ((32, 112, 1), (64, 112, 2), (128, 56, 1), (512, 14, 1))),
    _conv(240, 28, 240, k=5, group=240),
    _conv(72, 56, 72, k=5, stride=2, group=72),
    _conv(128, 7, 256, k=7),
    _conv(256, 14, 256, bits=8),
    *(_conv(c, size, c, k=1, bits=8) for c, size in ((256, 28), (1024, 7))),
)
