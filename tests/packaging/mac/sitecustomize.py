"""Makes a Python process believe that it runs on macOS: no /proc, no /sys, none of what only Linux has.

Packages that choose by the system when they are imported come first, so that they work. psutil alone still reads
/proc: on a Mac it asks the kernel.
"""

import asyncio
import builtins
import importlib
import io
import multiprocessing
import os
import platform
import select
import selectors
import subprocess
import sys
import tempfile
import time
import uuid

STANDARD = (asyncio, multiprocessing, subprocess, tempfile)
for name in (
    "urllib.request",
    "psutil",
    "numpy",
    "onnx",
    "onnxruntime",
    "paramiko",
    "pyopencl",
    "scipy.stats",
    "sqlalchemy",
    "rich",
):
    importlib.import_module(name)
uuid.getnode()


def hidden(path: object) -> bool:
    """Whether a path is one that only Linux has, asked by anybody but psutil."""
    text = os.fspath(path) if isinstance(path, str | bytes | os.PathLike) else ""
    word = os.fsdecode(text)
    caller = sys._getframe(2).f_globals.get("__name__", "")
    return word.split("/")[:2] in (["", "proc"], ["", "sys"]) and not str(caller).startswith("psutil")


def without_linux(function):  # type: ignore[no-untyped-def]
    """The function, blind for /proc and /sys."""

    def called(path=".", *arguments, **named):  # type: ignore[no-untyped-def]
        if hidden(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *arguments, **named)

    return called


for module, names in {
    os: ("open", "stat", "lstat", "scandir", "listdir", "readlink", "access"),
    io: ("open",),
    builtins: ("open",),
}.items():
    for name in names:
        setattr(module, name, without_linux(getattr(module, name)))

only_linux = [name for name in dir(os) if name.startswith(("sched_", "pidfd_", "memfd_", "eventfd", "splice", "setns"))]
for name in (*only_linux, "copy_file_range", "posix_fadvise", "getxattr", "setxattr", "listxattr", "unshare"):
    if hasattr(os, name):
        delattr(os, name)
del time.CLOCK_BOOTTIME
selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc]
del select.epoll
sys.platform = "darwin"
platform.system = lambda: "Darwin"
