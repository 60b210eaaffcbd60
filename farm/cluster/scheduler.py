"""`farm scheduler`: Dask's scheduler, with certificates unless it serves this machine alone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed import Scheduler, Security

from farm.cluster import connection
from farm.cluster.address import ClusterAddress
from farm.cluster.turns import TurnsPlugin
from runtime.errors import JobError

HEARTBEATS = (
    12  # within the time after which a silent worker counts as dead; one that dies is noticed by its connection
)


class UnitScheduler(Scheduler):
    """Dask's, for workers that mostly wait: Dask itself would have hundreds of heartbeats a second."""

    def heartbeat_worker(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """What a worker is answered."""
        answer = super().heartbeat_worker(*arguments, **named)
        return answer | {"heartbeat-interval": self.worker_ttl / HEARTBEATS} if self.worker_ttl else answer


def run_scheduler(address: ClusterAddress, folder: Path | None, say: Callable[[str], None]) -> None:
    """Runs a scheduler until it is told to end (SIGINT or SIGTERM); says where it listens."""
    connection.use_settings()
    security = connection.security_for(address, folder)
    asyncio.run(_serve(address, security, say))


async def _serve(address: ClusterAddress, security: Security | None, say: Callable[[str], None]) -> None:
    ended = end_on_signals()
    host, protocol = address.host.strip("[]"), f"{address.protocol}://"
    scheduler = UnitScheduler(
        host=host,
        port=address.port,
        protocol=protocol,
        security=security,
        plugins=[TurnsPlugin()],
        **connection.NO_PAGE,
    )
    try:
        await scheduler
    except OSError as error:
        raise JobError(f"{address}: cannot be listened on: {error.strerror or error}") from None
    try:
        say(scheduler.address)
        await ended.wait()
    finally:
        await scheduler.close()


def end_on_signals() -> asyncio.Event:
    """Is set as soon as the process is told to end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended
