"""Kernels on buffers (NHWC activations): the table's rows, one module an operator family."""

from __future__ import annotations

from runtime.kernels.buffer import attention, channels, convolution, matrix, normalization, strided, winograd
from runtime.kernels.buffer.spec import BufferKernel

KERNELS: tuple[BufferKernel, ...] = (
    *convolution.KERNELS,
    *matrix.KERNELS,
    *winograd.KERNELS,
    *channels.KERNELS,
    *strided.KERNELS,
    *normalization.KERNELS,
    *attention.KERNELS,
)
