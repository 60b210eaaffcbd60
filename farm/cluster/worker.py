"""`farm worker`: offers the units of this host, each as a Dask worker of one thread, as they come and go.

All of them live in one process, beside one that answers what is asked of the host itself; jobs run in processes of
their own (farm/cluster/host_process.py), so that a unit that is offered costs little, and none can take others down.
"""

import asyncio
import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from distributed import Client, Security, Worker, WorkerPlugin
from distributed.core import Status

from farm.cluster import connection
from farm.cluster.address import ClusterAddress
from farm.cluster.detached import DetachedJobs
from farm.cluster.host_files import HostFiles
from farm.cluster.host_tasks import DetachedPlugin, OfferedUnit, cluster_name
from farm.cluster.scheduler import end_on_signals
from farm.config.inventory import Unit
from farm.jobs.tune.journal_exchange import JournalExchange, shared_folder
from farm.lease import labgrid_place
from farm.transport import connect
from farm.units import lookup, survey
from farm.units.survey import UnitEntry, UnitReport, UnitState
from runtime.errors import ConfigError, FarmError, JobError

HOST_PREFIX = "host "
HOST_THREADS = 2
RECONNECT_S = 3.0
LOOK_EVERY_S = 5.0
ASK_AGAIN_S = 30.0
CLEAN_EVERY_S = 3600.0
PLACES_EVERY_S = 60.0
# Those of a Dask worker that stay; the others would wake each unit's to look at what all units of a host share.
NEEDED_CALLBACKS = {"heartbeat", "keep-alive"}
USABLE = (UnitState.READY, UnitState.BUSY)


def run_host(
    address: ClusterAddress,
    folder: Path | None,
    name: str,
    say: Callable[[str], None],
    look_every_s: float = LOOK_EVERY_S,
) -> None:
    """Offers this host's units until it is told to end (SIGINT or SIGTERM), or the scheduler has gone."""
    connection.use_settings()
    detached = DetachedJobs(name, str(address), folder)
    host = _Host(address, connection.security_for(address, folder), name, say, detached)
    asyncio.run(host.serve(look_every_s))


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a worker offers, by the names that clients ask for."""

    name: str
    local_name: str
    resources: Mapping[str, float]


def offer_of(unit: Unit, host: str) -> Offer:
    """What is offered of a unit."""
    name = cluster_name(unit, host)
    words = [f"unit:{name}", f"at:{host}", f"soc:{unit.soc}", *(f"tag:{tag}" for tag in unit.tags)]
    return Offer(name, unit.name, dict.fromkeys(words, 1.0))


class NameTakenError(ConfigError):
    """Another worker offers something of this name."""


class UnitWatch:
    """Which units of this host can be used; asks one that is new, or that did not answer, what it is."""

    def __init__(self, ask_again_s: float = ASK_AGAIN_S) -> None:
        self._known: dict[str, UnitReport] = {}
        self._asked_s: dict[str, float] = {}
        self._ask_again_s = ask_again_s

    def usable(self, entries: list[UnitEntry], now_s: float) -> list[Unit]:
        """Those that can be used, of all that are here."""
        present = {entry.unit.name for entry in entries if entry.state == UnitState.READY}
        self._known = {name: report for name, report in self._known.items() if name in present}
        to_ask = [entry for entry in entries if entry.unit.name in present and self._is_due(entry, now_s)]
        for report in survey.ask_all(to_ask, lambda entry: survey.identify(entry, connect)):
            self._known[report.unit.name] = report
            self._asked_s[report.unit.name] = now_s
        return [report.unit for report in self._known.values() if report.state in USABLE]

    def _is_due(self, entry: UnitEntry, now_s: float) -> bool:
        known = self._known.get(entry.unit.name)
        if known is None:
            return True
        return known.state not in USABLE and now_s - self._asked_s[entry.unit.name] > self._ask_again_s


class _Host:
    def __init__(
        self,
        address: ClusterAddress,
        security: Security | None,
        name: str,
        say: Callable[[str], None],
        detached: DetachedJobs,
    ) -> None:
        self._address, self._security, self._name, self._say = address, security, name, say
        self._workers: dict[str, Worker] = {}
        self._elsewhere: set[str] = set()  # units that another host offers
        self._watch, self._detached = UnitWatch(), detached
        self._clean_at_s = 0.0

    async def serve(self, look_every_s: float) -> None:
        """Offers units until told to end; a scheduler that goes away is waited for."""
        ended = end_on_signals()
        await self._check_scheduler()
        await self._offer(ended, look_every_s)
        while not ended.is_set():
            self._say(f"{self._address}: the scheduler has gone; waiting for it")
            await self._wait_for_scheduler(ended)
            with contextlib.suppress(JobError, NameTakenError):  # it has gone again, or not noticed yet that we had
                await self._offer(ended, look_every_s)

    async def _offer(self, ended: asyncio.Event, look_every_s: float) -> None:
        """Offers units as long as the scheduler is there."""
        resources = {f"host:{self._name}": float(HOST_THREADS)}
        with tempfile.TemporaryDirectory(prefix="farm-worker-") as scratch:
            plugin = DetachedPlugin(self._detached)
            host = await self._started(f"{HOST_PREFIX}{self._name}", HOST_THREADS, resources, scratch, plugin)
            self._say(f"{self._name}: offers its units to {self._address}")
            await self._offer_units(host, ended, scratch, look_every_s)

    async def _offer_units(self, host: Worker, ended: asyncio.Event, scratch: str, look_every_s: float) -> None:
        beside = [asyncio.create_task(each) for each in (self._exchange_journals(), self._end_expired_reservations())]
        try:
            while not ended.is_set() and host.status == Status.running:
                await self._look(scratch)
                self._detached.resume()  # now that units are offered
                await self._clean()
                await _wait(ended, look_every_s)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await asyncio.gather(*(worker.close() for worker in (host, *self._workers.values())))
            self._workers.clear()

    async def _wait_for_scheduler(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await _wait(ended, RECONNECT_S)
            with contextlib.suppress(JobError):
                await self._check_scheduler()
                return

    async def _exchange_journals(self) -> None:
        """Shares tuning trials with the other hosts, as long as the scheduler is there."""
        with contextlib.suppress(OSError, TimeoutError):
            async with self._client() as client:
                await keep_exchanging(client, self._name)

    async def _end_expired_reservations(self) -> None:
        """Gives places in labgrid back, once a minute."""
        sweep = PlaceSweep(self._say)
        while True:
            await asyncio.get_running_loop().run_in_executor(None, sweep.run)
            await asyncio.sleep(PLACES_EVERY_S)

    def _client(self) -> Client:
        options: dict[str, Any] = {"asynchronous": True, "set_as_default": False, "timeout": connection.CONNECT_S}
        return Client(str(self._address), security=self._security, **options)

    async def _check_scheduler(self) -> None:
        """Refuses to offer anything to a scheduler of another farm."""
        try:
            async with self._client() as client:
                found = await client.run_on_scheduler(connection.scheduler_version)
        except (OSError, TimeoutError) as error:
            raise JobError(connection.unanswered(self._address, error)) from None
        connection.check_farm_version(self._address, found, f"host {self._name}")

    async def _started(
        self, name: str, threads: int, resources: Mapping[str, float], scratch: str, plugin: WorkerPlugin
    ) -> Worker:
        """A worker of this process that has joined the cluster."""
        local: dict[str, Any] = {"host": "127.0.0.1"} if self._address.is_loopback else {}
        worker = Worker(
            str(self._address),
            nthreads=threads,
            name=name,
            resources=dict(resources),
            security=self._security,
            protocol=f"{self._address.protocol}://",
            local_directory=scratch,
            memory_limit=0,
            plugins=(plugin,),
            **connection.NO_PAGE,
            **local,
        )
        for needless in worker.periodic_callbacks.keys() - NEEDED_CALLBACKS:
            del worker.periodic_callbacks[needless]  # not started yet
        try:
            await asyncio.wait_for(worker, 2 * connection.CONNECT_S)
        except (OSError, TimeoutError, RuntimeError, ValueError) as error:
            text = " ".join(str(error.__cause__ or error).split())
            if "name taken" in text:
                raise NameTakenError(f"{name!r} is offered in the cluster already; give it another name") from None
            raise JobError(connection.unanswered(self._address, error)) from None
        return worker

    async def _look(self, scratch: str) -> None:
        """Announces units that came, and takes back those that went."""
        loop = asyncio.get_running_loop()
        try:
            units = await loop.run_in_executor(None, lambda: self._watch.usable(lookup.present(), loop.time()))
        except FarmError as error:
            self._say(str(error))
            return
        offers = {offer.name: offer for offer in (offer_of(unit, self._name) for unit in units)}
        for name in [name for name, worker in self._workers.items() if not _stays(worker, offers.get(name))]:
            await self._workers.pop(name).close()
            self._say(f"{name}: has gone")
        self._elsewhere &= offers.keys()
        for name in offers.keys() - self._workers.keys():
            await self._announce(offers[name], scratch)

    async def _clean(self) -> None:
        """Removes files of jobs that nobody uses any more, now and then."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._clean_at_s:
            return
        self._clean_at_s = loop.time() + CLEAN_EVERY_S
        with contextlib.suppress(OSError):  # a job changed some of it meanwhile: the next time will do
            self._detached.touch()
            removed = await loop.run_in_executor(None, lambda: HostFiles().clean(time.time()))
            if removed:
                self._say(f"files of jobs that nobody used any more: {len(removed)} removed")

    async def _announce(self, offer: Offer, scratch: str) -> None:
        """Offers a unit, unless another host does: then it is tried again at the next look."""
        name = offer.name
        try:
            plugin = OfferedUnit(offer.local_name)
            self._workers[name] = await self._started(name, 1, offer.resources, scratch, plugin)
        except NameTakenError:
            if name not in self._elsewhere:
                self._say(f"{name}: another host offers it")
            self._elsewhere.add(name)
            return
        self._elsewhere.discard(name)
        self._say(f"{name}: is offered ({', '.join(offer.resources)})")


def _stays(worker: Worker, offer: Offer | None) -> bool:
    """Whether a worker still offers what is there."""
    return offer is not None and worker.status == Status.running and worker.state.total_resources == offer.resources


async def _wait(ended: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)


TOPIC = "farm-journals"
JOURNAL_LOOK_EVERY_S = 0.5
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
        await asyncio.sleep(JOURNAL_LOOK_EVERY_S)


class PlaceSweep:
    """The places of all units of this host, those too that cannot be used now.

    Args:
        say: is told what went wrong, once as long as it stays the same.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, ""

    def run(self) -> None:
        """Looks at every place once; what goes wrong with one does not keep the others."""
        problems = []
        try:
            for unit in [entry.unit for entry in lookup.present()]:
                try:
                    labgrid_place.end_expired(unit)
                except OSError as error:  # labgrid's client could not be started
                    problems.append(f"{unit.name}: labgrid's client: {error.strerror or error}")
        except (FarmError, OSError) as error:
            problems.append(f"places in labgrid: {error}")
        text = "; ".join(problems)
        if text and text != self._said:
            self._say(text)
        self._said = text
