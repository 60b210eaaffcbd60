"""Defines what a tensor is made of: precision, element type, storage and role; everything else builds on these.

Their numbers are part of plan files and of farmrt's header (plan/records.py, plan/header.py).
"""

from __future__ import annotations

import enum


class Precision(enum.IntEnum):
    """Storage and arithmetic of activations and weights."""

    FP32 = 0
    FP16_STORAGE = 1  # half in memory, float arithmetic
    FP16 = 2  # half in memory, half arithmetic (needs cl_khr_fp16)


class Storage(enum.IntEnum):
    """How a tensor lies in memory.

    FLAT   row-major in origin order.
    NHWC   pixel-major: element (n, c, h, w) at offset + ((n*H + h)*W + w)*stride + c; stride >= C, so that a channel
           range of a wider tensor is a tensor too (concatenation and splitting cost nothing).
    IMAGE  RGBA 2D image, channel-major: element (n, c, h, w) is component c%4 of pixel (c/4*W + w, n*H + h).
    """

    FLAT = 0
    NHWC = 1
    IMAGE = 2


class ElementType(enum.IntEnum):
    """Element type of a tensor in memory."""

    F32 = 0
    F16 = 1
    I32 = 2


class Role(enum.IntEnum):
    """What a tensor is to the plan's user; inputs and outputs are FLAT F32 in a scratch pool."""

    INTERMEDIATE = 0
    INPUT = 1
    OUTPUT = 2


class ImageFormat(enum.IntEnum):
    """Channel type of an RGBA image."""

    FLOAT = 0
    HALF = 1
