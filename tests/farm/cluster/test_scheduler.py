"""What Dask's scheduler does differently for units: heartbeats of whole hosts, and which tasks have begun."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import Worker

from farm.cluster import connection, queue
from farm.cluster.scheduler import HEARTBEATS, UnitScheduler

METRICS = {
    "bandwidth": {"total": 1.0, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "memory": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
}
OFFERED = {"host alpha": ["host:alpha"], "mi8": ["unit:mi8", "at:alpha"], "p40": ["unit:p40", "at:beta"]}


async def with_workers(act: Any) -> None:
    """Acts on a scheduler with a worker for each of OFFERED, given by name, none of which was heard of for long."""
    connection.use_settings()
    place: dict[str, Any] = {"host": "127.0.0.1", **connection.NO_PAGE}
    async with UnitScheduler(port=0, **place) as scheduler:
        workers = [
            Worker(scheduler.address, name=name, resources=dict.fromkeys(words, 1), memory_limit=0, **place)
            for name, words in OFFERED.items()
        ]
        await asyncio.gather(*workers)
        states = {state.name: state for state in scheduler.workers.values()}
        for state in states.values():
            state.last_seen = 0.0
        act(scheduler, states)
        await asyncio.gather(*(worker.close() for worker in workers))


def test_a_hosts_heartbeat_is_that_of_its_units() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        answer = scheduler.heartbeat_worker(address=states["host alpha"].address, metrics=METRICS)
        assert answer["heartbeat-interval"] * HEARTBEATS == scheduler.worker_ttl
        assert states["mi8"].last_seen == states["host alpha"].last_seen > 0
        assert states["p40"].last_seen == 0

    asyncio.run(with_workers(act))


def test_a_unit_need_not_say_that_it_is_there() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        answer = scheduler.heartbeat_worker(address=states["mi8"].address, metrics=METRICS)
        assert answer["heartbeat-interval"] == scheduler.worker_ttl
        assert states["mi8"].last_seen > 0 == states["host alpha"].last_seen

    asyncio.run(with_workers(act))


def test_a_worker_that_the_scheduler_does_not_know_is_told_so() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        assert scheduler.heartbeat_worker(address="tcp://127.0.0.1:1", metrics=METRICS)["status"] == "missing"

    asyncio.run(with_workers(act))


def test_a_task_that_a_unit_has_begun_runs_from_then_on() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        key, address = queue.task_key("aaa111", "mi8", "tiny"), states["mi8"].address
        begun = scheduler.stream_handlers[queue.BEGUN]
        begun(key=key, worker=address)  # of a client that has gone meanwhile
        assert states["mi8"].executing == {}
        task = scheduler.new_task(key, None, "released")
        begun(key=key, worker=address)
        assert list(states["mi8"].executing) == [task]

    asyncio.run(with_workers(act))


def test_units_are_not_told_which_others_have_gone() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        address, told = states["mi8"].address, list[Any]()
        scheduler.stream_comms[address].send = told.append
        for op in ("remove-worker", "free-keys"):
            scheduler.worker_send(address, {"op": op})
        assert told == [{"op": "free-keys"}]

    asyncio.run(with_workers(act))
