"""The files by which pkg-config and CMake find farmrt in the folder that `farm build` writes, even a moved one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.version import RUNTIME_VERSION

_PKG_CONFIG = """\
libdir=${{pcfiledir}}
includedir=${{pcfiledir}}

Name: farmrt
Description: Executes the plans that farm convert writes
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -lfarmrt {flags}
"""

_CMAKE = """\
# find_package(farmrt) gives the targets farmrt::farmrt (static) and, after `farm build --shared`, farmrt::shared.
if(NOT TARGET farmrt::farmrt)
  add_library(farmrt::farmrt STATIC IMPORTED)
  set_target_properties(farmrt::farmrt PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/libfarmrt.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"
    INTERFACE_LINK_LIBRARIES "{libraries}")
endif()
if(NOT TARGET farmrt::shared AND EXISTS "${{CMAKE_CURRENT_LIST_DIR}}/libfarmrt.so")
  add_library(farmrt::shared SHARED IMPORTED)
  set_target_properties(farmrt::shared PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/libfarmrt.so"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
endif()
"""

_CMAKE_VERSION = """\
set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


def package_files(linker_flags: Sequence[str]) -> Mapping[str, str]:
    """Text of each file by its name; `linker_flags` (`-lm`, ...) link what the static library needs."""
    values = {
        "version": RUNTIME_VERSION,
        "flags": " ".join(linker_flags),
        "libraries": ";".join(flag.removeprefix("-l") for flag in linker_flags),
    }
    texts = {"farmrt.pc": _PKG_CONFIG, "farmrtConfig.cmake": _CMAKE, "farmrtConfigVersion.cmake": _CMAKE_VERSION}
    return {name: text.format_map(values) for name, text in texts.items()}
