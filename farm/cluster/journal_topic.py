"""The topic of the scheduler's in which hosts carry tuning trials to each other."""

from __future__ import annotations

import asyncio
import time

from distributed import Client

from farm.jobs.tune.journal_exchange import JournalExchange, shared_folder

TOPIC = "farm-journals"
LOOK_EVERY_S = 0.5
ANNOUNCE_EVERY_S = 10.0


async def keep_exchanging(client: Client, host: str) -> None:
    """Exchanges until it is cancelled, or the scheduler has gone; `client` is an asynchronous one."""
    exchange = JournalExchange(shared_folder(), host)
    client.subscribe_topic(TOPIC, lambda event: exchange.hear(event[1]))
    announced_s = -ANNOUNCE_EVERY_S
    while True:
        if time.monotonic() - announced_s >= ANNOUNCE_EVERY_S:
            exchange.announce()
            announced_s = time.monotonic()
        exchange.look()
        while exchange.outgoing:
            await client.log_event(TOPIC, exchange.outgoing.pop(0))
        await asyncio.sleep(LOOK_EVERY_S)
