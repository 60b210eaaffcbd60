"""Every test runs as farm does: with an `ld` on PATH, without which PoCL cannot link kernels."""

from __future__ import annotations

import os

from farm import toolchain

os.environ.update(toolchain.environment())
