"""pyopencl's devices as targets."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

from runtime.target import Target, gpu_family


def default_device() -> Any:
    """The first device of the first OpenCL platform."""
    return cl.get_platforms()[0].get_devices()[0]


def target_of_device(device: Any, soc: str = "host", **settings: Any) -> Target:
    """The target that a pyopencl device is; `settings` override single fields."""
    sizes = tuple(device.max_work_item_sizes[:3])
    fields: dict[str, Any] = {
        "gpu": device.name,
        "driver": device.driver_version,
        "opencl_version": device.version,
        "gpu_family": gpu_family(device.name, device.platform.version),
        "compute_units": device.max_compute_units,
        "max_work_group_size": device.max_work_group_size,
        "max_work_item_sizes": sizes,
        "local_memory_bytes": device.local_mem_size,
        "max_allocation_bytes": device.max_mem_alloc_size,
        "image2d_max_width": device.image2d_max_width,
        "image2d_max_height": device.image2d_max_height,
        "fp16": "cl_khr_fp16" in device.extensions,
    }
    return Target(soc, "host", **(fields | settings))
