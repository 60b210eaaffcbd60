"""Asks the model of a played GPU how long a launch takes, without launching anything."""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.errors import ConfigError

_MESSAGE_BYTES = 4096
_Sizes = ctypes.c_size_t * 3


class PlayedModel:
    """The times of one profile; `environment` as `played_environment` makes it. Raises ConfigError for a bad one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._profile = environment["FARM_PLAYED_GPU"].encode()
        self._keys = environment["FARM_PLAYED_KEYS"].encode()
        self._ask = ctypes.CDLL(environment["FARM_OPENCL"]).played_gpu_launch
        self._ask.restype = ctypes.c_double

    def launch_ns(
        self,
        kernel: str,
        memory: str,
        options: str,
        arguments: Mapping[str, int],
        global_size: Sequence[int],
        local_size: Sequence[int],
    ) -> float:
        """Time of a launch in ns, without what it costs to start it.

        Args:
            memory: `buffer` or `image`.
            options: the program's, `-DNAME=VALUE`.
            arguments: the kernel's ints by name.
            local_size: zeros where the driver chooses. One that the GPU refuses takes for ever (infinity).
        """
        told = " ".join([options, *(f"-D{name}={value}" for name, value in arguments.items())])
        sizes = [_Sizes(*[*size, 1, 1, 1][:3]) for size in (global_size, local_size)]
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        names = (self._profile, self._keys, kernel.encode(), memory == "image", told.encode())
        ns = self._ask(*names, *sizes, message, ctypes.c_size_t(_MESSAGE_BYTES))
        if message.value:
            raise ConfigError(f"played GPU: {message.value.decode(errors='replace')}")
        return float(ns)


def described_kernels() -> list[str]:
    """The kernels whose costs are known, with their memory: `conv1x1 image`; `*` is any other."""
    text = (Path(__file__).parent / "gpu" / "kernels.costs").read_text()
    return [line.strip("[]") for line in text.splitlines() if line.startswith("[")]
