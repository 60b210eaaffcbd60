"""What an emulated phone can do wrong: `NAME[:key=value,...]`, with a trigger that says when.

A request is what the controller asks for: `connect`, `shell COMMAND`, `push PATH`, `pull PATH`, `stat PATH` or
`list PATH`. A fault fires in every request that `at` (its first word) and `on` (a regular expression in the rest)
choose: at its start, or once `bytes` of its data (a command's: its output) have passed, or `after` so long. Without
`at` and `on` it is the phone's own, and counts from its start; what concerns commands or files then concerns all.
"""

from __future__ import annotations

import asyncio
import codecs
import dataclasses
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from farm.config.suggestion import suggestion
from runtime.errors import ConfigError

REQUESTS = ("connect", "shell", "push", "pull", "stat", "list")
FLIPPED = 0x20
MAX_FACTOR = 100.0


class Concern(enum.Enum):
    """What a fault spoils."""

    LINK = "link"
    COMMAND = "command"
    DATA = "data"
    PHONE = "phone"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A row of the table of faults; `defaults` are its own keys, None for one that may be left out."""

    concern: Concern
    help: str
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


FAULTS = {
    "disconnect": Kind(Concern.LINK, "the link is reset, and refused while `away`", {"away": 0.0}),
    "reboot": Kind(Concern.LINK, "processes die, the phone is away; files stay", {"away": 3.0}),
    "stall": Kind(Concern.LINK, "half-open: the link stays, nothing moves on it", {}),
    "offline": Kind(Concern.PHONE, "takes connections and never answers", {"for": None}),
    "unauthorized": Kind(Concern.PHONE, "knows no computer's key", {"for": None}),
    "storage": Kind(Concern.PHONE, "only so much can still be written", {"free": 0}),
    "alter": Kind(Concern.DATA, "one bit of a file or output flips, `bytes` from its start", {}),
    "truncate": Kind(Concern.DATA, "a file or output ends after `bytes`, without an error", {}),
    "exit": Kind(Concern.COMMAND, "the command dies, with this status", {"status": 139}),
    "hang": Kind(Concern.COMMAND, "the command stands still", {}),
    "garbage": Kind(Concern.COMMAND, "random bytes among the command's output", {"size": 4096}),
    "flood": Kind(Concern.COMMAND, "output without an end, or of this size", {"size": None}),
    "battery": Kind(Concern.PHONE, "how full it is", {"level": 5, "charging": False, "saver": False}),
    "hot": Kind(Concern.PHONE, "is that hot, kept so `for` a time", {"temp": 60.0, "for": 0.0}),
    "throttle": Kind(Concern.PHONE, "thermal status (0 to 6), clocks down", {"status": 3, "for": None}),
    "slow": Kind(Concern.PHONE, "computes so many times slower, and no sensor tells", {"factor": 1.5, "for": None}),
    "property": Kind(
        Concern.PHONE,
        "another value (with \\x1b escapes, repeated up to `length`), or none",
        {"name": "", "value": None, "length": None},
    ),
    "clock": Kind(Concern.PHONE, "`date` jumps", {"jump": 3600.0}),
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault and when it happens; `times` None stands for always."""

    name: str
    values: Mapping[str, Any]
    at: str = ""
    on: re.Pattern[str] | None = None
    size_bytes: int = 0
    after_s: float = 0.0
    every_s: float | None = None
    times: int | None = None

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Reads one specification; raises ConfigError."""
        name, _, rest = text.partition(":")
        if name not in FAULTS:
            raise ConfigError(f"--fault {text}: unknown fault {name!r}{suggestion(name, FAULTS)}")
        kind = FAULTS[name]
        found = _read(text, rest, {*kind.defaults, *TRIGGER})
        trigger = {field: found.pop(key) for key, field in TRIGGER.items() if key in found}
        once = kind.concern in (Concern.LINK, Concern.PHONE) and "every_s" not in trigger
        fault = cls(name, {**kind.defaults, **found}, **{"times": 1 if once else None, **trigger})
        if fault.size_bytes and not fault.chosen and kind.concern is not Concern.DATA:
            raise ConfigError(f"--fault {text}: bytes= needs at= or on=, which say whose")
        if name == "property" and not fault.values["name"]:
            raise ConfigError(f"--fault {text}: needs name=")
        return fault

    @property
    def concern(self) -> Concern:
        """What it spoils."""
        return FAULTS[self.name].concern

    @property
    def chosen(self) -> bool:
        """Whether it names requests."""
        return bool(self.at or self.on)

    def concerns(self, request: str, text: str) -> bool:
        """Whether it happens in that request; `request` is empty for the phone itself."""
        if self.chosen:
            return self.at in ("", request) and request != "" and (self.on is None or bool(self.on.search(text)))
        wanted = {Concern.COMMAND: ("shell",), Concern.DATA: ("push", "pull")}.get(self.concern, ("",))
        return request in wanted


@dataclasses.dataclass
class Armed:
    """A fault with the times that it still may happen."""

    fault: Fault
    left: int | None

    def spend(self) -> bool:
        """Takes one of them; False when none is left."""
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0


class Board:
    """The faults of one phone."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._armed = [Armed(fault, fault.times) for fault in faults]

    def add(self, fault: Fault) -> Armed:
        """Counts for requests that come from now on."""
        self._armed.append(Armed(fault, fault.times))
        return self._armed[-1]

    def watch(self, request: str, text: str, act: Callable[[Fault], None]) -> Watch:
        """Watches over one request; `act` does what a fault of the link, a command or the phone asks for."""
        return Watch([armed for armed in self._armed if armed.fault.concerns(request, text)], act)


class Watch:
    """Counts one request's bytes and time, and lets its faults happen."""

    def __init__(self, armed: Sequence[Armed], act: Callable[[Fault], None]) -> None:
        self._act = act
        self._position = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._spoiling = [each for each in armed if each.fault.concern is Concern.DATA and each.spend()]
        self._due = [each for each in armed if each.fault.concern is not Concern.DATA]
        self._start_due()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What has not happened will not."""
        for timer in self._timers:
            timer.cancel()

    def passed(self, chunk: bytes) -> bytes:
        """Counts a piece of the request's data; returns what becomes of it."""
        start = self._position
        self._position += len(chunk)
        self._start_due()
        for each in self._spoiling:
            chunk = _spoiled(chunk, each.fault.name, each.fault.size_bytes - start)
        return chunk

    def _start_due(self) -> None:
        ready = [each for each in self._due if each.fault.size_bytes <= self._position]
        self._due = [each for each in self._due if each.fault.size_bytes > self._position]
        for each in ready:
            self._schedule(each, each.fault.after_s or each.fault.every_s or 0.0)

    def _schedule(self, armed: Armed, delay_s: float) -> None:
        if delay_s:
            self._timers.append(asyncio.get_running_loop().call_later(delay_s, self._fire, armed))
        else:
            self._fire(armed)

    def _fire(self, armed: Armed) -> None:
        if not armed.spend():
            return
        self._act(armed.fault)
        if armed.fault.every_s:
            self._schedule(armed, armed.fault.every_s)


def _spoiled(chunk: bytes, name: str, offset: int) -> bytes:
    if name == "truncate":
        return chunk[: max(offset, 0)]
    if not 0 <= offset < len(chunk):
        return chunk
    return chunk[:offset] + bytes([chunk[offset] ^ FLIPPED]) + chunk[offset + 1 :]


def _read(text: str, rest: str, known: set[str]) -> dict[str, Any]:
    """The keys of one specification; a comma separates them where `key=` follows."""
    found: dict[str, Any] = {}
    for part in filter(None, re.split(r",(?=[a-z]+=)", rest)):
        key, equals, value = part.partition("=")
        if key not in known or not equals:
            raise ConfigError(f"--fault {text}: {key!r}: not one of {', '.join(sorted(known))}{suggestion(key, known)}")
        try:
            found[key] = READERS[key](value)
        except (ValueError, re.error) as error:
            raise ConfigError(f"--fault {text}: {key}: {error}") from None
    return found


def read_size(text: str) -> int:
    """Bytes of `64K`, `1.5MB` or `100`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)i?B?", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is no size such as 64K or 1MB")
    return int(float(match[1]) * 1024 ** " KMG".index(match[2].upper() or " "))


def read_time(text: str) -> float:
    """Seconds of `500ms`, `5s`, `-2m`, `1h` or `3`."""
    match = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(ms|s|m|h|)", text)
    if not match:
        raise ValueError(f"{text!r} is no time such as 500ms, 5s or 2m")
    return float(match[1]) * {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}[match[2]]


def _read_wait(text: str) -> float:
    seconds = read_time(text)
    if seconds < 0:
        raise ValueError("cannot be negative")
    return seconds


def _read_request(text: str) -> str:
    if text not in REQUESTS:
        raise ValueError(f"{text!r} is not one of {', '.join(REQUESTS)}")
    return text


def _read_answer(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{text!r} is neither yes nor no")
    return text == "yes"


def _read_escaped(text: str) -> str:
    return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")


# Key of a trigger -> its field.
TRIGGER = {"at": "at", "on": "on", "bytes": "size_bytes", "after": "after_s", "every": "every_s", "times": "times"}


def _read_factor(text: str) -> float:
    factor = float(text)
    if not 1.0 <= factor <= MAX_FACTOR:
        raise ValueError(f"{text} is not between 1 and {MAX_FACTOR:g}")
    return factor


READERS: dict[str, Callable[[str], Any]] = {
    "at": _read_request,
    "on": re.compile,
    "bytes": read_size,
    "after": _read_wait,
    "every": _read_wait,
    "times": int,
    "away": _read_wait,
    "for": _read_wait,
    "free": read_size,
    "size": read_size,
    "status": int,
    "level": int,
    "charging": _read_answer,
    "saver": _read_answer,
    "temp": float,
    "factor": _read_factor,
    "name": str,
    "value": _read_escaped,
    "length": read_size,
    "jump": read_time,
}
