"""Attention of farmrt's CPU between tensors of eight bits; it has no OpenCL."""

from runtime.kernels.blocked import blocked_row

_STRIDES = " ".join(f"{tensor}s{axis}:0" for tensor in "qkvy" for axis in range(4))

QUANTIZED_ATTENTION = blocked_row(
    "quantized_attention",
    "Attention",
    "q:bytes k:bytes v:bytes table:bytes y:bytes",
    f"batch heads queries keys depth values {_STRIDES} "
    + " ".join(f"{tensor}_zero:0-255" for tensor in "qkvw")
    + " looks_up:0-1",
    "score_scale score_a score_b step per_weight y_scale act_a act_b",
    lambda d: d["batch"] * d["heads"] * d["queries"] * d["keys"] * (d["depth"] + d["values"]),
)

BLOCK_KERNELS = (QUANTIZED_ATTENTION,)
