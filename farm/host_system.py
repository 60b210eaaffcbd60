"""What the system of this machine offers: Linux tells and can do more than macOS, which controls phones and boards."""

from __future__ import annotations

import platform
import uuid
from pathlib import Path

from runtime.errors import ConfigError

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """A word for this boot of this machine, unlike any other's; where the system has none, a word for the machine."""
    try:
        return BOOT_ID_FILE.read_text().strip()
    except OSError:
        return f"{uuid.getnode():012x}"


def why_no_linux(purpose: str) -> str:
    """Why this machine cannot serve a purpose for which only Linux will do; empty where it runs Linux."""
    system = platform.system()
    return "" if system == "Linux" else f"{purpose} needs Linux; this machine ({system}) controls phones and boards"


def check_linux(purpose: str) -> None:
    """Raises ConfigError where this machine cannot serve a purpose for which only Linux will do."""
    if reason := why_no_linux(purpose):
        raise ConfigError(reason)
