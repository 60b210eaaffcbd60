"""Kernels on buffers (NHWC activations): the table's rows, one module an operator family."""

from __future__ import annotations

from runtime.kernels.buffer import (
    attention,
    channels,
    convolution,
    deconvolution,
    matrix,
    normalization,
    peak,
    recurrent,
    strided,
    winograd,
)
from runtime.kernels.buffer.spec import BufferKernel

KERNELS: tuple[BufferKernel, ...] = (
    *convolution.KERNELS,
    *deconvolution.KERNELS,
    *matrix.KERNELS,
    *recurrent.KERNELS,
    *winograd.KERNELS,
    *channels.KERNELS,
    *strided.KERNELS,
    *normalization.KERNELS,
    *attention.KERNELS,
)

# What shows what a device can do, and is no operator's.
PROBES: tuple[BufferKernel, ...] = (peak.PEAK_MACS,)
