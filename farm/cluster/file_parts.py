"""Files of hosts, brought here part by part."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from farm import atomic_file
from farm.cluster import host_tasks
from farm.cluster.host_files import PART_BYTES, relative_path

Ask = Callable[..., Any]
"""What a host answers: its name, a function that it calls, and the function's arguments."""


def fetch_file(ask: Ask, host: str, digest: str, target: Path) -> None:
    """Brings a file that a job made; it appears whole."""
    with atomic_file.replacing(target) as file:
        offset = 0
        while part := ask(host, host_tasks.read_part, digest, offset, PART_BYTES):
            file.write(part)
            offset += len(part)


def fetch_files(ask: Ask, host: str, files: Mapping[str, str], folder: Path) -> None:
    """Brings files (path -> hash) into a folder."""
    for name, digest in files.items():
        fetch_file(ask, host, digest, folder / relative_path(name))
