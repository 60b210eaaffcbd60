"""A running `farmrt serve` on a unit: commands as calls, answers as types, every way to fail as its own error."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

from farm.farmrt import answers
from farm.farmrt.answers import Answer, LoadAnswer, MemoryAnswer, ProbeAnswer, RunAnswer, TrialAnswer
from farm.transport import storage
from farm.transport.base import Process, Transport
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, ProcessEndedError

DEFAULT_DEADLINE_S = 120.0
SAFE_CHARACTERS = "/,:|+=@"
SHOWN_CHARACTERS = 200
MAX_KIND = 40
MAX_MESSAGE = 4000

NAME = "farmrt"
PROGRESS = "progress"

JsonObject = dict[str, Any]  # of the JSON object that farmrt wrote
AnswerType = TypeVar("AnswerType", bound=Answer)


class Session:
    """Client of one `farmrt serve` process. A deadline is how long it may go without an answer or progress.

    Args:
        transport: the way to the unit.
        farmrt: path of the executable on the unit, relative to its folder.
        environment: variables that the process gets beside its own.
        deadline_s: how long a command may go without progress unless it says otherwise.
        wrap: makes of the command line one that runs it in another way.
    """

    def __init__(
        self,
        transport: Transport,
        farmrt: str,
        environment: Mapping[str, str] | None = None,
        deadline_s: float = DEFAULT_DEADLINE_S,
        wrap: Callable[[Sequence[str]], list[str]] = list,
    ) -> None:
        assignments = [f"{name}={value}" for name, value in (environment or {}).items()]
        program = farmrt if "/" in farmrt else f"./{farmrt}"
        self._argv = wrap([*(["env", *assignments] if assignments else []), program, "serve"])
        self._transport = transport
        self._deadline_s = deadline_s
        self._process: Process | None = transport.start(self._argv, NAME)
        self.respawns = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the process still takes commands, as far as is known."""
        return self._process is not None

    def command(self, name: str, /, *, deadline_s: float | None = None, **values: object) -> Answer:
        """Sends a command and returns its answer; a value that is None is left out.

        Raises:
            DeviceError: farmrt answered with an error (`kind` says which); the session goes on.
            DeadlineError: no answer in time, or a launch hung. The process is gone; see `respawn`.
            ProcessEndedError: the process ended; the text says how. See `respawn`.
            DeviceLostError: the unit is gone.
        """
        return self.sent(name, deadline_s=deadline_s, **values)()

    def sent(self, name: str, /, *, deadline_s: float | None = None, **values: object) -> Callable[[], Answer]:
        """Sends a command; what it returns waits for the answer, before another command is sent. Both raise as above.

        The deadline begins with the wait.
        """
        with self._forgetting(name):
            self._running(name).write_line(encode_command(name, values))

        def answered() -> Answer:
            with self._forgetting(name):
                answer = self._read_answer(name, deadline_s or self._deadline_s)
            if answer["ok"]:
                return self._parsed(name, answer)
            raise self._failure(name, answer)

        return answered

    @contextlib.contextmanager
    def _forgetting(self, name: str) -> Iterator[None]:
        """Drops the process with the unit, and where no answer came in time."""
        try:
            yield
        except DeviceLostError as error:
            self._forget()
            raise type(error)(f"{name}: {error}") from None
        except DeadlineError:
            self._forget()
            raise

    def _running(self, name: str) -> Process:
        if self._process is None:
            raise ProcessEndedError(f"farmrt has ended, so it cannot take the command {name!r}")
        return self._process

    def probe(self, opencl: str | None, deadline_s: float) -> ProbeAnswer:
        """Asks what the unit is; `opencl` names the library, None leaves the search to farmrt."""
        return _of(ProbeAnswer, self.command("probe", opencl=opencl, deadline_s=deadline_s))

    def loading(self, deadline_s: float, **values: object) -> Callable[[], LoadAnswer]:
        """Begins to load a plan, and returns what waits for it; the values are the command's words (docs/farmrt.md)."""
        answered = self.sent("load", deadline_s=deadline_s, **values)
        return lambda: _of(LoadAnswer, answered())

    def run(self, rounds: int, deadline_s: float, warmup: int | None = None, profile: bool = False) -> RunAnswer:
        """Runs the loaded plan; with `profile` the time of each step is measured too."""
        return self.running(rounds, deadline_s, warmup, profile)()

    def running(
        self, rounds: int, deadline_s: float, warmup: int | None = None, profile: bool = False
    ) -> Callable[[], RunAnswer]:
        """Begins to run the loaded plan as `run` does, and returns what waits for it."""
        answered = self.sent("run", rounds=rounds, warmup=warmup, profile=profile or None, deadline_s=deadline_s)
        return lambda: _of(RunAnswer, answered())

    def trial(self, deadline_s: float, **values: object) -> TrialAnswer:
        """Times one step of the loaded plan; the values are the words of the command (docs/farmrt.md)."""
        return _of(TrialAnswer, self.command("trial", deadline_s=deadline_s, **values))

    def examine(
        self, kind: type[AnswerType], point: str, opencl: str | None, deadline_s: float = DEFAULT_DEADLINE_S
    ) -> AnswerType:
        """Tries what the device can be trusted with at a point (docs/farmrt.md), whose answer is of this kind."""
        answer = self.command("examine", point=point, opencl=opencl, deadline_s=deadline_s)
        try:
            return kind.model_validate(answer.model_dump())
        except ValueError:
            raise DeviceError(f"examine: farmrt's answer on {point} is not what it should be", "bad_answer") from None

    def memory(self) -> MemoryAnswer:
        """Asks what memory the process takes."""
        return _of(MemoryAnswer, self.command("memory"))

    def respawn(self) -> None:
        """Starts a new process; whatever the last one had loaded is gone."""
        self._forget()
        self._process = self._transport.start(self._argv, NAME)
        self.respawns += 1

    def revive(self) -> None:
        """Starts a new process where the last one has ended."""
        if not self.alive:
            self.respawn()

    def close(self) -> None:
        """Ends the process; may be called twice."""
        self._forget()

    def _read_answer(self, name: str, deadline_s: float) -> JsonObject:
        """The next line that is an answer; what a driver or a linker prints between is passed over.

        A line that tells of progress lets the deadline begin anew.
        """
        end = time.monotonic() + deadline_s
        while not (line := self._read_line(name, deadline_s, end)).startswith("{"):
            if line == PROGRESS:
                end = time.monotonic() + deadline_s
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and isinstance(answer.get("ok"), bool):
            return answer
        self._forget()
        raise DeviceError(f"{name}: farmrt's answer cannot be read: {line[:SHOWN_CHARACTERS]}", "bad_answer")

    def _read_line(self, name: str, deadline_s: float, end: float) -> str:
        try:
            return self._running(name).read_line(max(0.0, end - time.monotonic()))
        except DeadlineError:
            raise DeadlineError(f"{name}: farmrt did not answer within {deadline_s:g} s") from None

    def _parsed(self, name: str, answer: JsonObject) -> Answer:
        try:
            return answers.parsed(name, answer)
        except ValueError as error:
            self._forget()
            raise DeviceError(f"{name}: farmrt's answer is not what it should be: {error}", "bad_answer") from None

    def _failure(self, name: str, answer: JsonObject) -> DeviceError | DeadlineError:
        kind, text = str(answer.get("error", ""))[:MAX_KIND], str(answer.get("message", "no message"))[:MAX_MESSAGE]
        where = f" (step {answer['step']})" if isinstance(answer.get("step"), int) else ""
        if kind == "hang":
            self._forget()
            return DeadlineError(f"{name}: {text}{where}")
        return storage.refusal_error(f"{name}: {text}{where}", kind)

    def _forget(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def _of(kind: type[AnswerType], answer: Answer) -> AnswerType:
    assert isinstance(answer, kind), f"{type(answer).__name__} is no {kind.__name__}"
    return answer


def encode_command(name: str, values: Mapping[str, object]) -> str:
    """One command line; docs/farmrt.md has the grammar."""
    arguments = [f"{key}={_encode(value)}" for key, value in values.items() if value is not None]
    return " ".join([name, *arguments])


def _encode(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple):
        return ",".join(_encode(item) for item in value)
    return quote(str(value), safe=SAFE_CHARACTERS)
