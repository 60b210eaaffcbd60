"""A real sshd, where there is one: for tests that a server of our own cannot replace."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import loopback
from tests.conftest import require


@contextmanager
def running_sshd(folder: Path, authorized: str, *options: str) -> Iterator[tuple[int, str]]:
    """See loopback.running_sshd; skips where there is no sshd."""
    require("sshd", loopback.MISSING)
    with loopback.running_sshd(folder, authorized, *options) as running:
        yield running
