"""An adb server of a test's own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.transport.adb_server import find_adb

TIMEOUT_S = 30.0


@contextmanager
def adb_server(home: Path) -> Iterator[int]:
    """Port of a server with keys and log in the folder `home`, which ends after the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    environment = os.environ | {"HOME": str(home), "TMPDIR": str(home), "ADB_MDNS": "0"}

    def adb(*arguments: str) -> None:
        command = [find_adb(), "-P", str(port), *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=TIMEOUT_S)

    adb("start-server")
    try:
        yield port
    finally:
        adb("kill-server")
