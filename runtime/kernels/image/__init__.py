"""Kernels on RGBA 2D images: the table's rows, one module an operator family."""

from __future__ import annotations

from runtime.kernels.image import (
    convolution,
    deconvolution,
    elementwise,
    movement,
    normalization,
    reduction,
    sampling,
    winograd,
)
from runtime.kernels.image.spec import ImageKernel

KERNELS: tuple[ImageKernel, ...] = (
    *convolution.KERNELS,
    *deconvolution.KERNELS,
    *winograd.KERNELS,
    *sampling.KERNELS,
    *reduction.KERNELS,
    *elementwise.KERNELS,
    *movement.KERNELS,
    *normalization.KERNELS,
)
