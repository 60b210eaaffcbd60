"""Folders in which qemu finds the C library of another machine, and the command that runs a program there."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

from runtime.native.abi import ABIS

QEMU = {"arm64": "qemu-aarch64", "armhf": "qemu-arm", "arm64-v8a": "qemu-aarch64"}
DEBIAN_LIBRARIES = {
    "arm64": Path("/usr/aarch64-linux-gnu/lib"),
    "armhf": Path("/usr/arm-linux-gnueabihf/lib"),
    "arm64-v8a": Path("/usr/aarch64-linux-gnu/lib"),
}
GLIBC_TARGET = {abi: ABIS["arm64" if abi == "arm64-v8a" else abi].zig_target for abi in QEMU}
REMEDY = "apt install qemu-user-static libc6-arm64-cross libc6-armhf-cross"

# Of bionic only what glibc has under other names, and the attributes of threads, for which programs have less room.
BIONIC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

typedef int main_function(int, char **, char **);

_Noreturn void __libc_init(void *arguments, void (*on_exit)(void), main_function *main, const void *table) {
    long count = *(long *)arguments;
    char **words = (char **)arguments + 1;
    (void)on_exit, (void)table;
    exit(main((int)count, words, words + count + 1));
}

int *__errno(void) { return &errno; }

typedef struct {
    char room[64];
} attributes;
typedef int set_function(attributes *, size_t);
typedef int create_function(void *, attributes *, void *(*)(void *), void *);

int pthread_attr_init(size_t *stack_bytes) { return *stack_bytes = 0, 0; }
int pthread_attr_setstacksize(size_t *stack_bytes, size_t bytes) { return *stack_bytes = bytes, 0; }
int pthread_attr_destroy(size_t *stack_bytes) { return *stack_bytes = 0, 0; }

int pthread_create(void *thread, const size_t *stack_bytes, void *(*run)(void *), void *argument) {
    attributes own = {0};
    create_function *create = (create_function *)dlsym(RTLD_NEXT, "pthread_create");
    if (stack_bytes == NULL) return create(thread, NULL, run, argument);
    ((set_function *)dlsym(RTLD_NEXT, "pthread_attr_init"))(&own, 0);
    ((set_function *)dlsym(RTLD_NEXT, "pthread_attr_setstacksize"))(&own, *stack_bytes);
    return create(thread, &own, run, argument);
}
"""


def missing(abi: str) -> str:
    """What running programs for an ABI lacks here; empty where nothing is missing."""
    found = _emulator(abi) and DEBIAN_LIBRARIES[abi].is_dir()
    return "" if found else f"{QEMU[abi]} or its C library is missing: {REMEDY}"


@dataclasses.dataclass(frozen=True)
class Machine:
    """A folder that programs see over the host's root, so that `/vendor/lib64` can be anything."""

    abi: str
    root: Path

    def command(self, *words: str | Path) -> list[str]:
        """The argument list that runs a program for this machine."""
        emulator = _emulator(self.abi)
        assert emulator
        libraries = ("-E", "LD_LIBRARY_PATH=/system/lib64") if ABIS[self.abi].is_android else ()
        return [emulator, "-L", str(self.root), *libraries, *map(str, words)]


def make_machine(abi: str, root: Path) -> Machine:
    """Fills a folder with the C library; for Android with glibc under bionic's names."""
    (root / "lib").symlink_to(DEBIAN_LIBRARIES[abi])
    if ABIS[abi].is_android:
        add_android(root, DEBIAN_LIBRARIES[abi], DEBIAN_LIBRARIES[abi] / "ld-linux-aarch64.so.1")
    return Machine(abi, root)


def add_android(root: Path, libraries: Path, loader: Path) -> None:
    """Android's dynamic linker and C library in a root folder: glibc's, whose `libraries` lie there for programs."""
    system = root / "system"
    shutil.rmtree(system, ignore_errors=True)
    for folder in ("bin", "lib64"):
        (system / folder).mkdir(parents=True)
    shutil.copy(loader, system / "bin" / "linker64")
    for name, version in {"libm.so": 6, "libdl.so": 2}.items():
        (system / "lib64" / name).symlink_to(libraries / f"{name}.{version}")
    (system / "bionic.c").write_text(BIONIC)
    compile_library("arm64-v8a", system / "bionic.c", system / "lib64" / "libc.so")


def compile_library(abi: str, source: Path, library: Path) -> None:
    """A shared object for the glibc that every machine here has."""
    library.parent.mkdir(parents=True, exist_ok=True)
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", GLIBC_TARGET[abi], "-O1"]
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-s"]
    subprocess.run([*compiler, *flags, source, "-o", library], check=True)


def _emulator(abi: str) -> str | None:
    return shutil.which(f"{QEMU[abi]}-static") or shutil.which(QEMU[abi])
