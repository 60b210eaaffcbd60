"""What a host does for clients, each a function that Dask calls there with plain text and bytes, and that returns such.

`perform` runs on a unit, one at a time; all others run beside jobs.
"""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Worker, WorkerPlugin, get_worker
from pydantic import TypeAdapter

from farm.cluster.detached import DetachedJobs
from farm.cluster.host_files import HostFiles
from farm.cluster.host_job import HostJob, check_room
from farm.cluster.host_process import Event, run_command
from farm.cluster.queue import BEGUN, JobName, KeptJob
from farm.config.inventory import Unit
from farm.transport import connect
from farm.units import lookup, survey
from farm.units.survey import UnitReport

REPORTS = TypeAdapter(list[UnitReport])


class OfferedUnit(WorkerPlugin):
    """The unit that a worker offers."""

    name = "farm-unit"

    def __init__(self, unit: str) -> None:
        self.unit = unit


def cluster_name(unit: Unit, host: str) -> str:
    """A unit's name in the cluster: the host's own unit is called as the host, since every host has one."""
    return host if unit.kind.is_local else unit.name


def describe() -> bytes:
    """The reports of the host's units, as `farm devices` makes them."""
    return REPORTS.dump_json(survey.ask_all(lookup.present(), lambda entry: survey.inspect(entry, connect)))


def missing_files(hashes: list[str]) -> list[str]:
    """Those that the host does not have."""
    return HostFiles().missing(hashes)


def receive_part(digest: str, upload: str, content: bytes, is_last: bool) -> None:
    """Takes a part of a file."""
    HostFiles().add_part(digest, upload, content, is_last)


def receive_files(files: list[tuple[str, bytes]]) -> None:
    """Takes small files: hash and content of each."""
    for digest, content in files:
        HostFiles().add_part(digest, secrets.token_hex(8), content, is_last=True)


def read_part(digest: str, offset: int, size: int) -> bytes:
    """A part of a file that a job made."""
    return HostFiles().read_part(digest, offset, size)


def probe_room() -> None:
    """Raises OSError where the host's disk is full."""
    HostFiles().probe_room()


def perform(request: str) -> str:
    """Runs a client's command line on the worker's unit.

    The request is JSON: `job` (whose progress this is), `unit` (its name in the cluster), `arguments`, `files` (path ->
    hash), and `leaves`: whether artifacts and journals that it leaves are wanted, for which it has a folder of its own.
    So is the answer: `document`, what the command printed; `files`, what it made; `left`; `no_room`, why its disk
    takes nothing; or `error`.
    """
    asked = json.loads(request)
    worker, key = get_worker(), get_worker().get_current_task()
    worker.loop.add_callback(worker.batched_send, {"op": BEGUN, "key": key})

    def tell(event: Event) -> None:
        worker.log_event(asked["job"], {**event, "unit": asked["unit"]})

    def run(arguments: Sequence[str], folder: Path) -> dict[str, Any]:
        own_unit = ("--device", own, "--store", "none")
        document = run_command([*arguments, *own_unit], folder, lambda: _is_cancelled(worker, key), tell)
        check_room(document, folder)
        return document

    own = _offered(worker)
    job = HostJob(asked["arguments"], asked["files"], str(key) if asked["leaves"] else "", asked["leaves"])
    answer = job.answer(run)
    if "files" in answer:
        answer["files"] = {_named(name, own, asked["unit"]): digest for name, digest in answer["files"].items()}
    return json.dumps(answer)


def _offered(worker: Worker) -> str:
    """The name of a worker's unit on its host."""
    offered = worker.plugins[OfferedUnit.name]
    assert isinstance(offered, OfferedUnit)
    return offered.unit


def _named(file: str, own: str, unit: str) -> str:
    """The name of a file `<model>.<unit>.<...>` with the unit's name in the cluster."""
    return file.replace(f".{own}.", f".{unit}.", 1)


def _is_cancelled(worker: Worker, key: Any) -> bool:
    """Whether the scheduler has told the worker that nobody wants a task any more, which cannot end its thread."""
    task = worker.state.tasks.get(key)
    return task is None or task.state == "cancelled" or worker.status.name in ("closing", "closed", "failed")


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
