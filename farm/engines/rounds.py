"""Rounds of a model in a process on a unit: what it is asked for, its answers, and the outputs that it wrote.

A program in the unit's Python (unit_program.py) and one in C (runtime/native/engine) answer alike: a line of JSON once
the model is loaded, and one at the end; `progress` between them.
"""

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from farm import safe_text
from farm.engines.base import EngineUnit
from farm.transport.base import Process
from runtime.errors import DeadlineError, DeviceError, JobError, ProcessEndedError, ProcessKilledError

Array = npt.NDArray[Any]

LOAD_S = 900.0
START_S = 120.0  # for an import of large libraries from a cold disk
REMOVE_S = 30.0
SHOWN_CHARACTERS = 200
LOG_LINES, LOG_CHARACTERS = 5, 300

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _EngineAnswer(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Refused(_EngineAnswer):
    stage: Literal["import", "load", "run"]
    error: Annotated[str, Field(max_length=4096)]


class ModelLoaded(_EngineAnswer):
    """The model is loaded."""

    version: Annotated[str, Field(max_length=100)]
    init_ms: Duration
    nodes: Annotated[dict[str, Annotated[int, Field(ge=0)]], Field(max_length=100)] = {}


class RoundsDone(_EngineAnswer):
    """The rounds are run, and the outputs written."""

    first_ms: Duration
    samples_ms: Annotated[list[Duration], Field(max_length=1_000_000)]
    peak_bytes: Annotated[int, Field(ge=0)] | None
    peak_since: Literal["load", "start"]


_ANSWER: TypeAdapter[_Refused | ModelLoaded | RoundsDone] = TypeAdapter(_Refused | ModelLoaded | RoundsDone)


@dataclasses.dataclass(frozen=True)
class RoundsRequest:
    """What a process is to do; all files are paths on the unit: the model's by role, inputs and outputs by name."""

    files: Mapping[str, str]
    threads: int | None
    options: Mapping[str, str]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    rounds: int
    warmup: int


@dataclasses.dataclass(frozen=True)
class RoundsProcess:
    """A process of an engine, not yet started; `package` is what has the engine, in errors."""

    engine: str
    package: str
    unit: EngineUnit
    argv: Sequence[str]

    def run(self, request: RoundsRequest) -> tuple[ModelLoaded, RoundsDone, dict[str, Array]]:
        """Its answers, and the outputs by name; the errors of Engine.ready."""
        transport = self.unit.transport
        process = transport.start(self.unit.wrap(self.argv), self.engine)
        log: deque[str] = deque(maxlen=LOG_LINES)
        process.listen(log.append)
        try:
            loaded = self._answer(process, START_S + LOAD_S, "load the model")
            done = self._answer(process, self.unit.round_limit_s, "run a round")
            if not isinstance(loaded, ModelLoaded) or not isinstance(done, RoundsDone):
                raise DeviceError(f"{self.engine}: answered in another order than it should", "bad_answer")
            values = self._fetched(request.outputs)
        except (DeviceError, DeadlineError) as error:
            process.close()  # which reads what is left of its log
            _add_log(error, log)
            raise
        finally:
            process.close()
            transport.run(["rm", "-f", "--", *request.outputs.values()], REMOVE_S)
        if len(done.samples_ms) != request.rounds:
            raise DeviceError(f"{self.engine}: ran {len(done.samples_ms)} rounds, not {request.rounds}", "bad_answer")
        return loaded, done, values

    def _answer(self, process: Process, deadline_s: float, what: str) -> ModelLoaded | RoundsDone:
        """The next answer; a line that tells of progress lets the deadline begin anew."""
        try:
            while (line := process.read_line(deadline_s)) == "progress":
                pass
            answer = _ANSWER.validate_json(line)
        except DeadlineError:
            raise DeadlineError(f"{self.engine}: did not {what} within {deadline_s:g} s") from None
        except ProcessKilledError:
            raise
        except ProcessEndedError as error:
            raise DeviceError(f"{error}") from None  # the unit is there: it is the engine that failed
        except ValidationError:
            shown = safe_text.word(line, SHOWN_CHARACTERS)
            raise DeviceError(f"{self.engine}: printed what is no answer: {shown}", "bad_answer") from None
        if isinstance(answer, _Refused):
            raise self._refusal(answer)
        return answer

    def _refusal(self, refused: _Refused) -> DeviceError:
        text = safe_text.one_line(refused.error)
        if refused.stage == "import":
            return DeviceError(f"{self.engine}: {self.package} cannot be used there: {text}")
        if refused.stage == "load":
            return DeviceError(f"{self.engine} refuses the model: {text}", "unsupported")
        return DeviceError(f"{self.engine} fails in a round: {text}")

    def _fetched(self, outputs: Mapping[str, str]) -> dict[str, Array]:
        values = {}
        with TemporaryDirectory() as folder:
            for name, remote in outputs.items():
                local = Path(folder, remote)
                self.unit.transport.pull(remote, local)
                try:
                    values[name] = np.load(local, allow_pickle=False)
                except (ValueError, EOFError):
                    raise DeviceError(f"{self.engine}: wrote no array for output {name}", "bad_answer") from None
        return values


def _add_log(error: JobError, log: Iterable[str]) -> None:
    """Adds the last lines that an engine wrote to an error that does not have them."""
    words = safe_text.one_line(" ".join(" ".join(log).split()))[-LOG_CHARACTERS:]
    if words and words not in str(error):
        error.args = (f"{error}; its log ends: {words}",)
