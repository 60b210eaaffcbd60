"""A job in a process of its own on its host: the command line that a client sent, in a folder with its files."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from farm.jobs.fleet.progress import PROGRESS_FORM, parse_event
from farm.jobs.tune.journal_exchange import SHARED_JOURNALS, shared_folder
from runtime.errors import JobError

CLUSTER = "FARM_CLUSTER"  # a job on a host is a job of this host alone
POLL_S = 0.2
END_S = 20.0  # for a job that is told to end, to give its unit back
KEPT_LINES = 20
PROGRAM = "from farm.cluster.host_process import end_with_parent; end_with_parent(); from farm.cli import main; main()"

Event = dict[str, Any]


def run_command(
    arguments: Sequence[str],
    folder: Path,
    is_cancelled: Callable[[], bool],
    tell: Callable[[Event], None],
    environment: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Runs a command line with --json in a folder; its document.

    Args:
        arguments: the command line without `farm`.
        folder: its working directory.
        is_cancelled: whether nobody wants the answer any more; the job is interrupted then, as by Ctrl-C.
        tell: is called with each event of progress.
        environment: variables beside this process's own.

    Raises:
        JobError: the process ended without a document.
    """
    command = [sys.executable, "-P", "-c", PROGRAM, *arguments, "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != CLUSTER}
        | {PROGRESS_FORM: "json", SHARED_JOURNALS: str(shared_folder()), **environment},
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    ) as process:
        said: list[str] = []
        assert process.stdout and process.stderr
        reader = threading.Thread(target=_read_events, args=(process.stderr, tell, said), daemon=True)
        reader.start()
        answer: list[bytes] = []
        writer = threading.Thread(target=_read_all, args=(process.stdout, answer), daemon=True)
        writer.start()
        _wait(process, is_cancelled)
        reader.join()
        writer.join()
    return _document(answer, process.returncode, said)


def end_with_parent() -> None:
    """Interrupts this process, as Ctrl-C does, when the one that started it has gone: its standard input ends."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()


def _wait(process: subprocess.Popen[bytes], is_cancelled: Callable[[], bool]) -> None:
    asked = False
    while True:
        try:
            process.wait(END_S if asked else POLL_S)
            return
        except subprocess.TimeoutExpired:
            if asked:
                process.kill()
            elif is_cancelled():
                asked = True
                process.send_signal(signal.SIGINT)


def _read_events(stream: IO[bytes], tell: Callable[[Event], None], said: list[str]) -> None:
    for line in stream:
        text = line.decode("utf-8", "replace").strip()
        event = parse_event(text)
        if event:
            tell(event)
        elif text:
            said.append(text)
            del said[:-KEPT_LINES]


def _read_all(stream: IO[bytes], answer: list[bytes]) -> None:
    answer.append(stream.read())


def _document(answer: Sequence[bytes], exit_status: int, said: Sequence[str]) -> dict[str, Any]:
    try:
        document = json.loads(b"".join(answer).splitlines()[-1])
    except (ValueError, IndexError):
        reason = said[-1] if said else "it said nothing"
        raise JobError(f"the job's process ended with status {exit_status} and no answer: {reason}") from None
    assert isinstance(document, dict)
    return document
