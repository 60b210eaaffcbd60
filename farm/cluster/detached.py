"""Jobs that go on without the client that sent them: a host carries out the whole command, and keeps what comes of it.

    build/cluster/detached/<id>/request.json   what was asked
                                begun          a line for each time that it was begun
                                answer.json    the document that it printed, and what it made, by hash
                                ended          its exit status; there when all else is

The command is a client of the cluster like any other, with retries, turns and a place in the queue; only that it runs
beside the worker of a host, in place of somebody's terminal. A job that has not ended when its host's worker dies is
begun again with the next one.
"""

import contextlib
import dataclasses
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from farm import atomic_file
from farm.cluster.host_files import DETACHED, FOLDER, HostFiles
from farm.cluster.host_job import HostJob
from farm.cluster.host_process import run_command
from farm.cluster.queue import OWN_JOB, JobName, KeptJob
from runtime.errors import ConfigError, FarmError, JobError

REQUEST, BEGUN, ANSWER, ENDED = "request.json", "begun", "answer.json", "ended"
STORE = "detached.db"
BEGINNINGS = 3
FULL_S = 10.0  # until an answer that found no room is written again
_JOB = re.compile(r"[0-9a-f]{1,32}")


@dataclasses.dataclass(frozen=True)
class DetachedRequest:
    """A command that goes on without its client.

    Attributes:
        name: the job, whose client the host becomes.
        arguments: the command line without `farm`, and without a cluster.
        files: path in the job's folder -> hash.
        leaves: whether artifacts and journals that it leaves are wanted.
        run: the command as a run of whoever fetches it.
        side_names: what a comparison's two sides are called in the rows, see farm.cluster.remote_comparison.
    """

    name: JobName
    arguments: list[str]
    files: dict[str, str]
    leaves: bool
    run: dict[str, Any]
    side_names: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


REQUESTS = TypeAdapter(DetachedRequest)


class DetachedJobs:
    """The jobs of a host that go on without their clients.

    Args:
        host: its name.
        url: the scheduler's.
        certificates: the folder of the host's certificate, None: the user's own.
    """

    def __init__(self, host: str, url: str, certificates: Path | None) -> None:
        self._host, self._folder = host, (FOLDER / DETACHED).resolve()
        certified = ["--certificates", str(certificates.resolve())] if certificates else []
        self._options = ["--cluster", url, *certified, "--store", STORE]
        self._beginning, self._is_resumed = threading.Lock(), False
        self._running: dict[str, DetachedRequest] = {}
        self._cancelled: dict[str, str] = {}  # job -> by whom

    def begin(self, content: bytes) -> None:
        """Begins a job, given as JSON, unless it is known; it is known from now on, also after a crash."""
        request = REQUESTS.validate_json(content)
        path = self._place(request.name.id) / REQUEST
        with self._beginning:
            if not path.exists():
                atomic_file.write(path, content)
                self._start(request)

    def resume(self) -> None:
        """Begins again what an earlier worker did not end; the first call does so."""
        with self._beginning:
            for request in () if self._is_resumed else self._requests():
                if request.name.id not in self._running and self._exit_status(request.name.id) is None:
                    self._start(request)
            self._is_resumed = True

    def jobs(self) -> list[tuple[JobName, KeptJob]]:
        """All jobs that go on, or whose results are still there."""
        names = [request.name for request in self._requests()]
        return [(name, KeptJob(self._host, self._exit_status(name.id))) for name in names]

    def answer(self, job: str) -> bytes:
        """What came of a job that has ended, as JSON, with the `run` of its request; its files stay for a day at least.

        Raises ConfigError where its results have been removed.
        """
        folder = self._place(job)
        with contextlib.suppress(FileNotFoundError):
            content = (folder / ANSWER).read_bytes()
            os.utime(folder)
            answer = json.loads(content)
            if not HostFiles().missing([*answer.get("files", {}).values(), *answer.get("left", {}).values()]):
                return content
        raise ConfigError(f"{job}: its results are no longer on {self._host}: they made room for others")

    def end(self, job: str, person: str) -> None:
        """Ends a job in a person's name."""
        if job not in self._running:
            raise ConfigError(f"{job}: does not run on {self._host}")
        self._cancelled[job] = person

    def touch(self) -> None:
        """Has the folders of what runs count as used."""
        for job, request in list(self._running.items()):
            for folder in (self._place(job), HostFiles().folder_of(request.files, job)):
                with contextlib.suppress(FileNotFoundError):
                    os.utime(folder)

    def _start(self, request: DetachedRequest) -> None:
        self._running[request.name.id] = request
        threading.Thread(target=self._work, args=(request,), name=request.name.id, daemon=True).start()

    def _work(self, request: DetachedRequest) -> None:
        """A job's thread."""
        answer = self._answer(request)
        while not self._keep(request, answer):
            time.sleep(FULL_S)
        del self._running[request.name.id]

    def _answer(self, request: DetachedRequest) -> dict[str, Any]:
        begun = self._place(request.name.id) / BEGUN
        with contextlib.suppress(OSError), begun.open("a") as file:
            file.write("begun\n")
        if begun.exists() and len(begun.read_text().splitlines()) > BEGINNINGS:
            return {"error": f"{self._host} has ended {BEGINNINGS} times while it did this job"}
        job = HostJob(request.arguments, request.files, request.name.id, request.leaves)
        return job.answer(lambda arguments, folder: self._document(request.name, arguments, folder))

    def _document(self, name: JobName, arguments: Sequence[str], folder: Path) -> dict[str, Any]:
        """What the command prints; where it was ended early, with the rows that there were."""
        try:
            environment = {OWN_JOB: name.text}
            document = run_command(
                [*arguments, *self._options],
                folder,
                lambda: name.id in self._cancelled,
                lambda event: None,
                environment,
            )
        except JobError as error:
            document = _failed(error)
        if name.id in self._cancelled:
            document = _failed(JobError(f"{self._cancelled[name.id]} ended this job (`farm jobs cancel {name.id}`)"))
        return {**document, "rows": _stored_rows(folder / STORE)} if document["error"] else document

    def _keep(self, request: DetachedRequest, answer: dict[str, Any]) -> bool:
        """Writes an answer; False where there is no room for it."""
        folder, status = self._place(request.name.id), answer.get("document", {}).get("exit_status", 1)
        kept = {**answer, "command": request.name.command, "run": request.run, "side_names": request.side_names}
        try:
            atomic_file.write(folder / ANSWER, json.dumps(kept).encode())
            atomic_file.write(folder / ENDED, str(status).encode())
        except FarmError:
            return False
        return True

    def _requests(self) -> Iterator[DetachedRequest]:
        """Of all jobs that are here; what is being removed, or another version of farm left, is passed over."""
        for path in sorted(self._folder.glob(f"*/{REQUEST}")):
            with contextlib.suppress(OSError, ValueError):
                yield REQUESTS.validate_json(path.read_bytes())

    def _exit_status(self, job: str) -> int | None:
        """Of a job that has ended."""
        with contextlib.suppress(OSError, ValueError):
            return int((self._place(job) / ENDED).read_text())
        return None

    def _place(self, job: str) -> Path:
        if not _JOB.fullmatch(job):
            raise ConfigError(f"{job!r} names no job")
        return self._folder / job


def _failed(error: JobError) -> dict[str, Any]:
    return {"exit_status": error.exit_status, "error": {"kind": "job", "message": str(error)}, "rows": []}


def _stored_rows(path: Path) -> list[dict[str, Any]]:
    """The rows that the last command with this store left there."""
    from farm.store import Store  # takes half a second to import, which commands that look at a cluster need not

    try:
        with Store.open(str(path), create=False) as store:
            return [row for run in store.runs(limit=1) for row in store.rows(run.id)]
    except FarmError:
        return []
