"""A transport that says what is done on its unit: commands, pushes, pulls, and what programs print as errors."""

import contextlib
import logging
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from farm import safe_text
from farm.transport.base import CompletedProgram, Process, Transport
from runtime.errors import JobError

LOG = logging.getLogger("farm.unit")
MAX_COMMAND, MAX_DETAIL = 120, 2000


def logged(unit: str, transport: Transport) -> Transport:
    """The transport itself, unless somebody listens to the log."""
    return LoggedTransport(unit, transport) if LOG.isEnabledFor(logging.INFO) else transport


class LoggedTransport:
    """Does what another transport does, and says so: commands and files as INFO, what programs print as DEBUG."""

    def __init__(self, unit: str, transport: Transport) -> None:
        self._unit, self._transport = unit, transport

    def run(
        self,
        argv: Sequence[str],
        deadline_s: float,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
    ) -> CompletedProgram:
        """See Transport.run."""
        with self._timed(_command_text(argv)) as notes:
            completed = self._transport.run(argv, deadline_s, stdin, stdout)
            notes.append(f"exit status {completed.exit_status}")
        if completed.stderr:
            self._hear(completed.stderr.decode(errors="replace"))
        return completed

    def start(self, argv: Sequence[str], name: str = "") -> Process:
        """See Transport.start."""
        with self._timed(f"start {_command_text(argv)}"):
            process = self._transport.start(argv, name)
        process.listen(self._hear)
        return process

    def push(self, files: Mapping[str, Path]) -> list[str]:
        """See Transport.push."""
        with self._timed(f"push {len(files)} files") as notes:
            sent = self._transport.push(files)
            notes.append(f"sent {', '.join(sent)}" if sent else "all there already")
        return sent

    def pull(self, remote: str, local: Path) -> None:
        """See Transport.pull."""
        with self._timed(f"pull {remote}"):
            self._transport.pull(remote, local)

    def hash_with(self, program: str) -> None:
        """See Transport.hash_with."""
        self._transport.hash_with(program)

    def close(self) -> None:
        """See Transport.close."""
        self._transport.close()

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[list[str]]:
        """Says what was done in the block, with the block's notes, how long it took, and the error that ended it."""
        begun_s, notes = time.monotonic(), list[str]()
        try:
            yield notes
        except JobError as error:
            notes.append(str(error))
            raise
        finally:
            LOG.info("%s: %s", self._unit, "; ".join([what, *notes, f"{1e3 * (time.monotonic() - begun_s):.0f} ms"]))

    def _hear(self, text: str) -> None:
        LOG.debug("%s: %s", self._unit, safe_text.word(text, MAX_DETAIL))


def _command_text(argv: Sequence[str]) -> str:
    """The command in one line, as short as the log's reader wants it."""
    return safe_text.word(shlex.join(argv), MAX_DETAIL if LOG.isEnabledFor(logging.DEBUG) else MAX_COMMAND)
