"""Finds the OpenCL drivers of this machine without loading any of them.

In order of preference: those that the user names (FARM_OPENCL, then OCL_ICD_FILENAMES and OCL_ICD_VENDORS, as OpenCL's
loaders read them), those of the system (/etc/OpenCL/vendors), and from PyPI Intel's for CPUs, which also runs on those
of others, and PoCL in pyopencl. OCL_ICD_VENDORS takes the place of the system's list.
"""

import dataclasses
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

VENDORS_FOLDER = Path("/etc/OpenCL/vendors")
LOADER_CONFIGURATION = Path("/etc/ld.so.conf.d")
INTEL_DISTRIBUTION = "intel-opencl-rt"
INTEL_LIBRARY = "libintelocl.so"
LIBRARY_FOLDERS = ("/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib64", "/lib")

Origin = Literal["environment", "system", "intel", "pypi"]

# Part of the library's file name -> what people call the driver.
KNOWN = {
    "played_gpu": "played GPU",
    "pocl": "PoCL",
    "nvidia": "NVIDIA",
    "intelocl": "Intel (CPU)",
    "igdrcl": "Intel (GPU)",
    "amdocl": "AMD",
    "rusticl": "Mesa Rusticl",
    "mesaopencl": "Mesa Clover",
    "mali": "Arm Mali",
}


@dataclasses.dataclass(frozen=True)
class Driver:
    """A library that offers OpenCL; `path` is absolute."""

    path: Path
    origin: Origin
    name: str


@dataclasses.dataclass(frozen=True)
class DanglingEntry:
    """An entry of a vendors folder, or a variable, whose library is not there."""

    entry: Path | str
    library: str


def find_drivers(environment: Mapping[str, str] | None = None, vendors_folder: Path = VENDORS_FOLDER) -> list[Driver]:
    """Drivers in order of preference, each once."""
    environment = os.environ if environment is None else environment
    in_order = [*_named(environment), *_system(environment, vendors_folder), *_from_pypi()]
    once: dict[Path, Driver] = {}
    for driver in in_order:
        once.setdefault(driver.path.resolve(), driver)
    return list(once.values())


def find_dangling(
    environment: Mapping[str, str] | None = None, vendors_folder: Path = VENDORS_FOLDER
) -> list[DanglingEntry]:
    """What the user names, and entries of the vendors folder in force, that lead nowhere."""
    environment = os.environ if environment is None else environment
    folder = Path(environment.get("OCL_ICD_VENDORS") or vendors_folder)
    listed = ((entry, library) for entry in _entries(folder) for library in _libraries(entry))
    entries: list[tuple[Path | str, str]] = [*_named_libraries(environment), *listed]
    return [DanglingEntry(entry, library) for entry, library in entries if not locate(library, environment)]


def _named_libraries(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables and the libraries that they name."""
    if library := environment.get("FARM_OPENCL"):
        yield "FARM_OPENCL", library
    for library in filter(None, environment.get("OCL_ICD_FILENAMES", "").split(os.pathsep)):
        yield "OCL_ICD_FILENAMES", library


def _named(environment: Mapping[str, str]) -> Iterator[Driver]:
    for _, library in _named_libraries(environment):
        yield from _driver(library, "environment", environment)
    vendors = environment.get("OCL_ICD_VENDORS")
    if vendors and Path(vendors).is_dir():
        yield from _listed(Path(vendors), "environment", environment)
    elif vendors and vendors.endswith(".icd"):
        for library in _libraries(Path(vendors)):
            yield from _driver(library, "environment", environment)
    elif vendors:
        yield from _driver(vendors, "environment", environment)


def _system(environment: Mapping[str, str], vendors_folder: Path) -> Iterator[Driver]:
    if not environment.get("OCL_ICD_VENDORS"):
        yield from _listed(vendors_folder, "system", environment)


def _from_pypi() -> Iterator[Driver]:
    yield from _intel_from_pypi()
    yield from _pocl_from_pypi()


def _intel_from_pypi() -> Iterator[Driver]:
    """Intel's wheel puts the library outside of any package; it finds its neighbours by itself."""
    try:
        files = importlib.metadata.files(INTEL_DISTRIBUTION) or ()
    except importlib.metadata.PackageNotFoundError:
        return
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == INTEL_LIBRARY)
    yield from (Driver(path, "intel", "Intel (CPU)") for path in paths if path.is_file())


def _pocl_from_pypi() -> Iterator[Driver]:
    """pyopencl's wheel and PoCL's own put the library beside the package."""
    spec = importlib.util.find_spec("pyopencl")
    for location in spec.submodule_search_locations or () if spec else ():
        for folder in (Path(location, ".libs"), Path(f"{location}.libs")):
            for path in sorted(folder.glob("libpocl-*.so*")):
                yield Driver(path.absolute(), "pypi", "PoCL")


def _listed(folder: Path, origin: Origin, environment: Mapping[str, str]) -> Iterator[Driver]:
    for entry in _entries(folder):
        for library in _libraries(entry):
            yield from _driver(library, origin, environment)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.icd")) if folder.is_dir() else []


def _libraries(entry: Path) -> list[str]:
    """The library names in an .icd file: one a line."""
    try:
        return [line.strip() for line in entry.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


def _driver(library: str, origin: Origin, environment: Mapping[str, str]) -> Iterator[Driver]:
    path = locate(library, environment)
    if path is not None:
        word = path.name.lower()
        name = next((name for part, name in KNOWN.items() if part in word), path.name)
        yield Driver(path, origin, name)


def locate(library: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """The file that the dynamic loader would open for the name."""
    environment = os.environ if environment is None else environment
    if "/" in library:
        return Path(library).absolute() if Path(library).is_file() else None
    candidates = (Path(folder, library) for folder in _library_folders(environment))
    return next((path for path in candidates if path.is_file()), None)


def _library_folders(environment: Mapping[str, str]) -> Iterator[str]:
    yield from filter(None, environment.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    if LOADER_CONFIGURATION.is_dir():
        for file in sorted(LOADER_CONFIGURATION.glob("*.conf")):
            yield from re.findall(r"^\s*(/\S+)", file.read_text(errors="replace"), re.MULTILINE)
    yield from LIBRARY_FOLDERS
