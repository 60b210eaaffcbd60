"""What a host does for people about its jobs that go on without clients; each function is called there by Dask."""

from __future__ import annotations

from distributed import WorkerPlugin, get_worker
from pydantic import TypeAdapter

from farm.cluster.detached import DetachedJobs
from farm.cluster.queue import JobName, KeptJob

KEPT = TypeAdapter(list[tuple[JobName, KeptJob]])


class DetachedPlugin(WorkerPlugin):
    """The jobs that the host of a worker has."""

    name = "farm-detached"

    def __init__(self, jobs: DetachedJobs) -> None:
        self.jobs = jobs


def begin(request: bytes) -> None:
    """See DetachedJobs.begin."""
    _jobs().begin(request)


def kept() -> bytes:
    """See DetachedJobs.jobs; as KEPT."""
    return KEPT.dump_json(_jobs().jobs())


def answer(job: str) -> bytes:
    """See DetachedJobs.answer."""
    return _jobs().answer(job)


def end(job: str, person: str) -> None:
    """See DetachedJobs.end."""
    _jobs().end(job, person)


def _jobs() -> DetachedJobs:
    plugin = get_worker().plugins[DetachedPlugin.name]
    assert isinstance(plugin, DetachedPlugin)
    return plugin.jobs
