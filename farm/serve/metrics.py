"""Figures for Prometheus: units by state, leases, temperatures, failures, jobs, queue, the latest night's verdicts."""

import datetime
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from farm.cluster.queue import PRIORITIES
from farm.serve.service import FarmService
from farm.serve.watcher import QueueSnapshot, Snapshot, WatchedUnit
from farm.units.survey import UnitState

COUNTS_S = 60.0  # how long the store's counts are kept: counting reads all of it
UNIT = ("unit", "soc")


class FarmCollector(Collector):
    """Collects what the page knows, without asking a unit."""

    def __init__(self, service: FarmService) -> None:
        self._service = service
        self._source, self._results = service.source, service.results
        self._counts: tuple[float, dict[tuple[str, str], int]] = (-COUNTS_S, {})
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        snapshot = self._service.watcher.snapshot
        units = list(snapshot.units.values())
        yield _states(units)
        yield from _readings(units)
        yield _lease_ages(units)
        yield self._failures(units)
        yield GaugeMetricFamily("farm_look_seconds", "How long the last look at all units took.", snapshot.took_s)
        yield GaugeMetricFamily("farm_look_time_seconds", "Unix time of the last look at all units.", snapshot.time)
        yield GaugeMetricFamily("farm_runs_running", "Runs of the store that go on.", len(self._results.running()))
        yield self._rows()
        yield self._verdicts()
        if self._source.has_queue:
            yield _hosts(snapshot)
            yield from _queue(self._service.queue.snapshot)

    def _failures(self, units: Iterable[WatchedUnit]) -> Metric:
        found = GaugeMetricFamily("farm_unit_recent_failures", "Failures among a unit's last jobs.", labels=UNIT)
        for unit in units:
            outcomes = self._source.health(unit.report.unit).outcomes
            found.add_metric(_labels(unit), sum(not outcome.ok for outcome in outcomes))
        return found

    def _rows(self) -> Metric:
        with self._lock:
            if time.monotonic() - self._counts[0] >= COUNTS_S:
                self._counts = (time.monotonic(), self._results.row_counts())
        found = CounterMetricFamily(
            "farm_rows", "Rows in the store, by job and how they ended.", labels=("job", "status")
        )
        for labels, count in sorted(self._counts[1].items()):
            found.add_metric(labels, count)
        return found

    def _verdicts(self) -> Metric:
        found = GaugeMetricFamily("farm_night_series", "Series of the latest night, by verdict.", labels=("verdict",))
        judged = self._results.night()
        counts = Counter(str(series.judgement.verdict) for series in judged.night.series) if judged else {}
        for verdict, count in sorted(counts.items()):
            found.add_metric((verdict,), count)
        return found


def exposition(collector: Collector) -> bytes:
    """The metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


def _states(units: Iterable[WatchedUnit]) -> Metric:
    counted = Counter(unit.report.state for unit in units)
    found = GaugeMetricFamily("farm_units", "Units, by state.", labels=("state",))
    for state in UnitState:
        found.add_metric((str(state),), counted[state])
    return found


def _hosts(snapshot: Snapshot) -> Metric:
    found = GaugeMetricFamily("farm_hosts", "Hosts of the cluster, by whether they answer.", labels=("state",))
    silent = sum(map(bool, snapshot.hosts.values()))
    found.add_metric(("answers",), len(snapshot.hosts) - silent)
    found.add_metric(("silent",), silent)
    return found


def _queue(queue: QueueSnapshot) -> Iterator[Metric]:
    yield GaugeMetricFamily("farm_queue_up", "Whether the scheduler answered at last.", int(not queue.error))
    labels = ("priority", "state")
    jobs = GaugeMetricFamily("farm_queue_jobs", "Jobs that run or only wait.", labels=labels)
    tasks = GaugeMetricFamily("farm_queue_tasks", "Pieces of work that run on a unit or wait for one.", labels=labels)
    for priority in PRIORITIES:
        of_priority = [job for job in queue.jobs if job.name.priority == priority]
        running = sum(job.count("running") > 0 for job in of_priority)
        jobs.add_metric((priority, "running"), running)
        jobs.add_metric((priority, "waiting"), len(of_priority) - running)
        for state in ("running", "waiting"):
            tasks.add_metric((priority, state), sum(job.count(state) for job in of_priority))
    longest_s = queue.waits.longest_s(time.monotonic())
    yield from (jobs, tasks)
    yield GaugeMetricFamily("farm_queue_longest_wait_seconds", "How long the oldest work has waited.", longest_s)
    waits = SummaryMetricFamily("farm_queue_wait_seconds", "How long work waited that began.", labels=("priority",))
    for priority in PRIORITIES:
        waits.add_metric((priority,), queue.waits.begun.get(priority, 0), queue.waits.seconds.get(priority, 0.0))
    yield waits


def _readings(units: Iterable[WatchedUnit]) -> Iterator[Metric]:
    heat = GaugeMetricFamily("farm_unit_temperature_celsius", "A unit's hottest part.", labels=UNIT)
    battery = GaugeMetricFamily("farm_unit_battery_percent", "A unit's battery.", labels=UNIT)
    free = GaugeMetricFamily("farm_unit_free_bytes", "Free storage of a unit.", labels=UNIT)
    for unit in units:
        device = unit.report.device
        for family, value in (
            (heat, device.temperature_c),
            (battery, device.battery_percent),
            (free, device.free_bytes),
        ):
            if value is not None:
                family.add_metric(_labels(unit), value)
    yield from (heat, battery, free)


def _lease_ages(units: Iterable[WatchedUnit]) -> Metric:
    labels = (*UNIT, "kind")
    found = GaugeMetricFamily("farm_lease_age_seconds", "How long a job or a person has held a unit.", labels=labels)
    now = datetime.datetime.now().astimezone()
    for unit in units:
        if holder := unit.report.holder:
            kind = "reservation" if holder.is_reservation else "job"
            found.add_metric((*_labels(unit), kind), (now - holder.since).total_seconds())
    return found


def _labels(unit: WatchedUnit) -> tuple[str, str]:
    return unit.report.unit.name, unit.report.unit.soc
