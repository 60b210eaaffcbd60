"""What the system of this machine offers: Linux tells and can do more than macOS, which controls phones and boards."""

import functools
import getpass
import hashlib
import os
import platform
import re
import uuid
from pathlib import Path

from runtime.errors import ConfigError

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
PROCESS_SPACE_FILE = Path("/proc/self/ns/pid")
_STATE_AND_START = re.compile(r"[^ZX](?: \S+){18} (\d+) .*", re.DOTALL)  # fields 3 and 22 of proc_pid_stat(5)


def boot_id() -> str:
    """A word for this boot of this machine, unlike any other's; where the system has none, a word for the machine."""
    try:
        return BOOT_ID_FILE.read_text().strip()
    except OSError:
        return f"{uuid.getnode():012x}"


@functools.cache
def process_space() -> str:
    """A word for where the numbers of processes mean what they mean here: this boot, and this container."""
    try:
        container = str(PROCESS_SPACE_FILE.readlink())
    except OSError:
        container = ""
    return hashlib.sha256(f"{boot_id()} {container}".encode()).hexdigest()[:8]


def process_start(pid: int) -> str:
    """When a process began, in ticks since the boot; empty where it has ended, or the system has no /proc."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    match = _STATE_AND_START.fullmatch(status.rpartition(") ")[2])
    return match[1] if match else ""


def is_running(pid: int, start: str) -> bool:
    """Whether the process of that number is the one that began then (`process_start`), and runs still."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's
    return process_start(pid) == start


def user_name() -> str:
    """The login name of the user that farm runs as; empty where there is none, as in `docker run --user 1234`."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def home_folder() -> Path:
    """The user's home folder; raises ConfigError where there is none."""
    return expanded_path("~")


def expanded_path(path: str) -> Path:
    """A path that people wrote, with the home folder for a leading `~` or `~user`; raises ConfigError."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = path.partition("/")[0][1:]
        reason = f"there is no user {user!r}" if user else f"user {os.getuid()} has no home folder here; set HOME"
        raise ConfigError(f"{path}: {reason}") from None


def why_no_linux(purpose: str) -> str:
    """Why this machine cannot serve a purpose for which only Linux will do; empty where it runs Linux."""
    system = platform.system()
    return "" if system == "Linux" else f"{purpose} needs Linux; this machine ({system}) controls phones and boards"


def check_linux(purpose: str) -> None:
    """Raises ConfigError where this machine cannot serve a purpose for which only Linux will do."""
    if reason := why_no_linux(purpose):
        raise ConfigError(reason)
