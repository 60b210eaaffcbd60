"""Builds and runs a small kernel on an OpenCL driver: `python -m runtime.reference.driver_check LIBRARY`.

Exit status 0 when it works, and a line that names its device and version; else 1, and one line that says why not. A
driver may also end the process.
"""

import sys
from typing import Any

import numpy as np
import pyopencl as cl

from runtime.errors import DeviceError
from runtime.reference.device import open_device
from runtime.target import NOTHING_COMPUTED

SOURCE = "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }"


def check(library: str) -> str:
    """The driver's device and version; raises DeviceError where it cannot build the kernel, or computes it wrong."""
    device = open_device(library)
    context = cl.Context([device])
    values = np.arange(16, dtype=np.float32)
    try:
        doubled = _doubled(context, _built(context, device), values)
    except cl.Error as error:
        raise DeviceError(str(error).partition("\n")[0]) from None
    if not (np.array_equal(doubled, 2 * values) or device.driver_version.startswith(NOTHING_COMPUTED)):
        raise DeviceError("it computes something wrong")
    version = device.platform.version.partition(",")[0].split()
    return f"{device.name.strip()}, {' '.join(version)}"


def _built(context: Any, device: Any) -> Any:
    """Builds the kernel's program; where that fails, the DeviceError has the first line of the compiler's log."""
    program: Any = cl.Program(context, SOURCE)
    try:
        return program.build(cache_dir=False)
    except cl.Error:
        log = program.get_build_info(device, cl.program_build_info.LOG).strip()
        if log:
            raise DeviceError(log.partition("\n")[0]) from None
        raise


def _doubled(context: Any, program: Any, values: Any) -> Any:
    queue = cl.CommandQueue(context)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory, doubled = cl.Buffer(context, flags, hostbuf=values), np.empty_like(values)
    program.twice(queue, values.shape, None, memory)
    cl.enqueue_copy(queue, doubled, memory)
    return doubled


def main() -> int:
    """Checks the driver that the command line names."""
    try:
        print(check(sys.argv[1]))
    except DeviceError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
