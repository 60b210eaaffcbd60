"""What to lower a model to on a unit that farmrt has probed."""

from __future__ import annotations

from farm.config.deployment import Runtime
from farm.config.inventory import Unit
from farm.farmrt.answers import DeviceAnswer, OpenClAnswer, ProbeAnswer
from farm.jobs.models.prepare import Prepared
from runtime.errors import UnsupportedError
from runtime.target import Target, multiplies_halves
from runtime.types import Precision


def choose_target(
    unit: Unit, probe: ProbeAnswer, prepared: Prepared, runtime: Runtime, memory: str | None = None
) -> Target:
    """What to lower a model to on a unit that `farmrt probe` describes.

    Raises:
        UnsupportedError: the unit cannot run it so; the text says what could be changed.
    """
    if runtime == "cpu":
        precision = prepared.precision(runtime)
        if precision.computes_in_half and not multiplies_halves(probe.cpu.features):
            precision = Precision.FP16_STORAGE
        return probe.target(unit.soc, memory="cpu", precision=precision)
    device = _usable_device(unit, probe.opencl, memory)
    precisions = prepared.precisions(has_half=device.fp16)
    if not precisions:
        reason = f"{device.name} has no fp16 arithmetic; set data_type: fp16_fp32 or fp32_fp32"
        raise UnsupportedError(f"unit {unit.name!r}: {reason}")
    settings = {"memory": memory} if memory else {}
    allow_cpu = "cpu" in prepared.settings.runtimes
    return probe.target(unit.soc, precision=precisions[0], allow_cpu=allow_cpu, **settings)


def _usable_device(unit: Unit, opencl: OpenClAnswer, memory: str | None) -> DeviceAnswer:
    device, where = opencl.device, f"unit {unit.name!r}"
    if device is None:
        reason = opencl.error or "none was found"
        raise UnsupportedError(
            f"{where} has no OpenCL driver ({reason}); `farm doctor --device {unit.name}` says what to do, "
            "or set runtime: cpu"
        )
    if memory == "image" and not device.images:
        raise UnsupportedError(f"{where}: {device.name} has no images; use --memory buffer")
    return device
