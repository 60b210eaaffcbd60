"""A played GPU: an OpenCL library of ours that stands before PoCL, with a mobile GPU's limits, manners and times.

The library's sources, its profiles and what kernels cost lie in `gpu/`; docs/emulation.md says how to use them.
"""

import ctypes
import functools
import hashlib
from pathlib import Path

from farm.config.suggestion import suggestion
from farm.farmrt.drivers import find_drivers
from runtime.errors import ConfigError
from runtime.native import toolchains
from runtime.native.build import default_output_dir
from runtime.native.compiling import run_compiler, writable_folder
from runtime.native.scratch import locked_folder, scratch_folder
from runtime.native.toolchains import Toolchain, find_toolchain

_FOLDER = Path(__file__).parent / "gpu"
_COSTS = _FOLDER / "kernels.costs"
_DOT_PRODUCTS = _FOLDER / "dot_products.cl"
_INCLUDES = Path(toolchains.__file__).parent / "src"
_NAME, _PIXEL = "libplayed_gpu.so", "libOpenCL-pixel.so"  # an ICD driver; a library with the entries of Pixel's loader
_FLAGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-fPIC",
    "-fvisibility=hidden",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
)
_LIBRARIES = ("-lpthread", "-ldl", "-lm")
_MESSAGE_BYTES = 4096


def profile_names() -> list[str]:
    """The GPUs that are shipped as profiles."""
    return sorted(path.stem for path in (_FOLDER / "profiles").glob("*.gpu"))


def played_environment(given: str) -> dict[str, str]:
    """The variables by which farmrt finds a played GPU.

    Args:
        given: `PROFILE[:KEY=VALUE,...]`: a shipped profile's name or a file's path, and keys that override its own.

    Raises:
        ConfigError: no such profile, it cannot be read, or there is no PoCL to stand before.
        BuildError: no compiler, or it failed.
    """
    profile, _, keys = given.partition(":")
    path = _find_profile(profile)
    library = build_library(_PIXEL if _is_pixel(path, keys) else _NAME)
    if problem := _problem(library, path, keys):
        raise ConfigError(f"--gpu: {problem}")
    return {
        "FARM_OPENCL": str(library),
        "FARM_PLAYED_GPU": str(path),
        "FARM_PLAYED_KEYS": keys,
        "FARM_PLAYED_OPENCL": str(_driver_behind()),
    }


def _is_pixel(profile: Path, keys: str) -> bool:
    """Whether the profile, or a key that overrides it, wants Pixel's loader; what is wrong is told later."""
    lines = (*profile.read_text(errors="replace").splitlines(), *keys.split(","))
    pairs = (line.partition("#")[0].split("=", 1) for line in lines)
    found = [pair[1].strip() for pair in pairs if pair[0].strip() == "loader" and len(pair) > 1]
    return found[-1:] == ["pixel"]


def build_library(name: str = _NAME) -> Path:
    """The library of a name, compiled if its sources changed; raises BuildError."""
    toolchain = find_toolchain("host")
    folder = default_output_dir().with_name("played_gpu")
    stamp, library, digest = folder / f"{name}.stamp", folder / name, _digest(toolchain)
    with writable_folder(folder), locked_folder(folder):
        if not library.is_file() or not stamp.is_file() or stamp.read_text() != digest:
            with scratch_folder(folder) as scratch:
                run_compiler(_command(toolchain, scratch / name))
                (scratch / name).replace(library)
            stamp.write_text(digest)
    return library


def _sources() -> list[Path]:
    return sorted((_FOLDER / "src").glob("*.[ch]"))


def _command(toolchain: Toolchain, output: Path) -> list[str]:
    sources = [str(path) for path in _sources() if path.suffix == ".c"]
    paths = (f'-DPLAYED_COSTS="{_COSTS}"', f'-DPLAYED_DOT_PRODUCTS="{_DOT_PRODUCTS}"', f"-I{_INCLUDES}")
    defines = (*paths, *(["-DPLAYED_PIXEL"] if output.name == _PIXEL else []))
    return [*toolchain.compiler, *_FLAGS, *defines, "-shared", "-o", str(output), *sources, *_LIBRARIES]


def _digest(toolchain: Toolchain) -> str:
    digest = hashlib.sha256(repr((toolchain, _COSTS)).encode())
    for path in [*_sources(), _INCLUDES / "opencl" / "opencl.h"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _find_profile(profile: str) -> Path:
    shipped = _FOLDER / "profiles" / f"{profile}.gpu"
    for path in (shipped, Path(profile).absolute()):
        if path.is_file():
            return path
    raise ConfigError(f"--gpu {profile}: neither a file nor a shipped profile{suggestion(profile, profile_names())}")


@functools.cache
def _driver_behind() -> Path:
    for driver in find_drivers({}):
        if driver.name == "PoCL":
            return driver.path
    raise ConfigError("--gpu: a played GPU computes by PoCL, and there is none; pip install 'pyopencl[pocl]'")


def _problem(library: Path, profile: Path, keys: str) -> str:
    """What is wrong with a profile or with keys, as the library says it; empty where nothing is."""
    loaded = ctypes.CDLL(str(library))
    loaded.played_gpu_check.restype = ctypes.c_bool
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    good = loaded.played_gpu_check(str(profile).encode(), keys.encode(), message, ctypes.c_size_t(_MESSAGE_BYTES))
    return "" if good else message.value.decode(errors="replace")
