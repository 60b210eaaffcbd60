"""What an OpenCL driver of this machine really offers, asked of farmrt in a process of its own."""

from __future__ import annotations

import json

from farm.drivers import Driver
from farm.inventory import HOST
from farm.jobs.unit import FARMRT
from farm.transport import connect
from runtime.errors import DeviceError
from runtime.native.build import build_farmrt

PROBE_DEADLINE_S = 60.0


def probe_driver(driver: Driver) -> str:
    """Device and version of a driver. Raises JobError when farmrt cannot be built or the driver does not work."""
    transport = connect(HOST)
    try:
        transport.push({FARMRT: build_farmrt()})
        done = transport.run([f"./{FARMRT}", "probe", f"opencl={driver.path}"], PROBE_DEADLINE_S)
    finally:
        transport.close()
    try:
        opencl = json.loads(done.stdout)["opencl"]
        return f"{opencl['device']['name']}, {opencl['platform_version']}"
    except (ValueError, KeyError, TypeError):
        raise DeviceError(f"does not work: farmrt probe ended with status {done.exit_status}") from None
