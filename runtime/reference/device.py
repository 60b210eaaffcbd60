"""Opens the pyopencl device of a driver's library, and describes such a device as a target."""

import ctypes
from pathlib import Path
from typing import Any

import pyopencl as cl

from runtime.errors import DeviceError
from runtime.target import Target, dot_of, gpu_family, has_subgroups

_MOST_PLATFORMS = 16
_PLATFORM_IDS = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)


def open_device(library: Path | str) -> Any:
    """Opens the first device that any platform of a driver has, even of one that no OpenCL loader here knows.

    The library may be a loader's too, which gives the device of its first driver. Raises DeviceError where it cannot be
    loaded, is no OpenCL driver, or offers no device.
    """
    platforms, count = (ctypes.c_void_p * _MOST_PLATFORMS)(), ctypes.c_uint32()
    try:
        status = _platform_ids(library)(_MOST_PLATFORMS, platforms, ctypes.byref(count))
        if status or not count.value or not platforms[0]:
            raise DeviceError(f"{library}: no OpenCL platform (code {status})")
        found = map(cl.Platform.from_int_ptr, filter(None, platforms[: count.value]))
        devices = [device for platform in found for device in platform.get_devices()]
    except (OSError, AttributeError, cl.Error) as error:
        raise DeviceError(str(error).partition("\n")[0]) from None
    if not devices:
        raise DeviceError(f"{library}: it offers no device")
    return devices[0]


def target_of_device(device: Any, soc: str = "host", **settings: Any) -> Target:
    """The target that a pyopencl device is; `settings` override single fields."""
    sizes = tuple(device.max_work_item_sizes[:3])
    fields: dict[str, Any] = {
        "gpu": device.name,
        "driver": device.driver_version,
        "opencl_version": device.version,
        "gpu_family": family_of(device),
        "compute_units": device.max_compute_units,
        "max_work_group_size": device.max_work_group_size,
        "max_work_item_sizes": sizes,
        "local_memory_bytes": device.local_mem_size,
        "max_allocation_bytes": device.max_mem_alloc_size,
        "image2d_max_width": device.image2d_max_width,
        "image2d_max_height": device.image2d_max_height,
        "fp16": "cl_khr_fp16" in device.extensions,
        "subgroups": has_subgroups(device.extensions.split()),
        "dot": dot_of(device.extensions.split(), device.version),
    }
    return Target(soc, "host", **(fields | settings))


def family_of(device: Any) -> str:
    """Family key of a pyopencl device; see `gpu_family`."""
    return gpu_family(device.name, device.platform.version, is_cpu=device.type == cl.device_type.CPU)


def _platform_ids(library: Path | str) -> Any:
    """Returns the function that lists a library's platforms: the entry of drivers for loaders, else the public one."""
    loaded = ctypes.CDLL(str(library))
    loaded.clGetExtensionFunctionAddress.restype = ctypes.c_void_p
    address = loaded.clGetExtensionFunctionAddress(b"clIcdGetPlatformIDsKHR")
    return _PLATFORM_IDS(address) if address else loaded.clGetPlatformIDs
