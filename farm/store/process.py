"""Identifies the process that works on a run, so that a run whose process was killed is known to be interrupted.

An identity is host, boot id, process id and start time: a process that got the same id later has another identity.
"""

import os
import platform
from pathlib import Path

import psutil

from farm.host_system import boot_id

PROCESSES = Path("/proc")
_STATE, _START_TICKS = 0, 19  # fields after the name in /proc/<pid>/stat, see proc(5)


def own_process() -> str:
    """The identity of this process."""
    return process_identity(os.getpid()) or ""


def process_identity(pid: int) -> str | None:
    """The identity of a process of this host; None where there is none, or only a zombie."""
    start = _start(pid)
    return f"{own_host()} {boot_id()} {pid} {start}" if start else None


def _start(pid: int) -> str:
    """When a process started, in the system's own unit; empty where there is none that still runs."""
    if not PROCESSES.is_dir():
        return _start_by_psutil(pid)
    try:
        fields = (PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[_STATE] == "Z" else fields[_START_TICKS]


def _start_by_psutil(pid: int) -> str:
    """The same where there is no /proc, in seconds."""
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.Error:
        return ""


def is_gone(process: str) -> bool:
    """Whether a process is known to have ended; of another host's that cannot be told."""
    return is_own_host(process) and not is_process(process)


def is_own_host(process: str) -> bool:
    """Whether an identity is of a process of this host."""
    host, _, rest = process.partition(" ")
    words = rest.split()
    return host == own_host() and len(words) == 3 and words[1].isdecimal()


def host_of(process: str) -> str:
    """The host of a process; empty where none is known."""
    return process.partition(" ")[0]


def is_process(process: str) -> bool:
    """Whether the process of an identity, which is of this host, still runs."""
    return process_identity(int(process.split()[2])) == process


def own_host() -> str:
    """The name of this host in the identities of its processes."""
    return "".join(platform.node().split()) or "localhost"
