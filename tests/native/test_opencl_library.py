"""OpenCL that is behind something: Pixel's loader, and drivers that only the namespace of vendors' drivers opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.native.compiling import run_compiler
from runtime.native.toolchains import find_toolchain
from tests.native.fake_driver import fake_driver
from tests.native.farmrt import Farmrt

# Gives functions of the driver FAKE_BEHIND, once it was enabled; exports none by its OpenCL name.
PIXEL = """
#include <dlfcn.h>
#include <stdlib.h>
static void *behind;
void enableOpenCL(void) { behind = dlopen(getenv("FAKE_BEHIND"), RTLD_NOW | RTLD_LOCAL); }
void *loadOpenCLPointer(const char *name) { return behind ? dlsym(behind, name) : NULL; }
"""
# Android's library that opens others in the namespace of vendors' drivers: here the driver FAKE_BEHIND for VENDORS.
SUPPORT = """
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void *android_load_sphal_library(const char *name, int flags) {
    return strcmp(name, getenv("VENDORS")) == 0 ? dlopen(getenv("FAKE_BEHIND"), flags) : NULL;
}
"""
EMPTY = "int nothing;"


def library(folder: Path, name: str, source: str) -> Path:
    """A shared library of this source."""
    (folder / f"{name}.c").write_text(source)
    command = [
        *find_toolchain("host").compiler,
        "-fPIC",
        "-shared",
        "-o",
        str(folder / name),
        str(folder / f"{name}.c"),
    ]
    run_compiler([*command, "-ldl"])
    return folder / name


def probed(farmrt_program: Path, folder: Path, opened: Path, **variables: str) -> dict[str, str]:
    """What farmrt says of OpenCL when it is to use this library."""
    known = {"FAKE_BEHIND": str(fake_driver()), "LD_LIBRARY_PATH": str(folder), "FARM_OPENCL": str(opened)}
    with Farmrt([str(farmrt_program)], folder, variables=known | variables) as farmrt:
        return dict(farmrt.done("probe")["opencl"])


def test_pixels_loader_is_enabled_and_asked(farmrt_program: Path, tmp_path: Path) -> None:
    found = probed(farmrt_program, tmp_path, library(tmp_path, "libOpenCL-pixel.so", PIXEL))
    assert (found["error"], found["origin"], Path(found["library"]).name) == ("", "loader", "libOpenCL-pixel.so")


@pytest.mark.parametrize("source", [EMPTY, None], ids=["without platforms", "that cannot be opened"])
def test_a_library_without_platforms_is_opened_as_a_vendors(
    farmrt_program: Path, tmp_path: Path, source: str | None
) -> None:
    opened = library(tmp_path, "libOpenCL.so", source) if source else tmp_path / "libOpenCL.so"
    if source is None:
        opened.write_bytes(b"no library")
    library(tmp_path, "libvndksupport.so", SUPPORT)
    found = probed(farmrt_program, tmp_path, opened, VENDORS=str(opened))
    assert (found["error"], found["library"]) == ("", str(opened))
    refused = probed(farmrt_program, tmp_path, opened, VENDORS="another")
    assert refused["library"] == "" and "no OpenCL platform" in refused["error"] if source else refused["error"]


def test_a_library_that_is_not_there_is_no_vendors(farmrt_program: Path, tmp_path: Path) -> None:
    library(tmp_path, "libvndksupport.so", SUPPORT)
    missing = tmp_path / "libOpenCL.so"
    assert probed(farmrt_program, tmp_path, missing, VENDORS=str(missing))["library"] == ""
