"""Faults that an emulated phone can have: `NAME[:key=value,...]`, where some keys are the trigger.

A request is what the controller asks for: `connect`, `shell COMMAND`, `push PATH`, `pull PATH`, `stat PATH` or
`list PATH`. `at` (the request's first word) and `on` (a regular expression for the rest) select requests. The fault
happens in each of them: at its start, after `bytes` of its data (of a command: its output), or `after` a time. Without
`at` and `on`, a fault of commands or files happens in all of them; others happen to the phone, timed from its start.
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
FLIPPED_BIT = 0x20
MAX_FACTOR = 100.0
# Who ends a process on a phone -> the line of Android's log that says so.
KILLERS = {
    "phantom": "I ActivityManager: Killing PhantomProcessRecord {5f3a 4711:47:farmrt/2000}: Trimming phantom processes",
    "memory": "I lowmemorykiller: Kill 'farmrt' (4711), uid 2000, oom_score_adj 900 to free 81234kB rss; min watermark",
}


class FaultTarget(enum.Enum):
    """What a fault affects."""

    LINK = "link"
    COMMAND = "command"
    DATA = "data"
    PHONE = "phone"


@dataclasses.dataclass(frozen=True)
class FaultKind:
    """What a fault affects, its help text, and its own keys with their defaults; None for a key that may be absent."""

    target: FaultTarget
    help: str
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


FAULTS = {
    "disconnect": FaultKind(FaultTarget.LINK, "the link is reset, and refused while `away`", {"away": 0.0}),
    "reboot": FaultKind(FaultTarget.LINK, "processes die, the phone is away; files stay", {"away": 3.0}),
    "stall": FaultKind(FaultTarget.LINK, "half-open: the link stays, nothing moves on it", {}),
    "offline": FaultKind(FaultTarget.PHONE, "takes connections and never answers", {"for": None}),
    "unauthorized": FaultKind(FaultTarget.PHONE, "knows no computer's key", {"for": None}),
    "storage": FaultKind(FaultTarget.PHONE, "only so much can still be written", {"free": 0}),
    "alter": FaultKind(FaultTarget.DATA, "one bit of a file or output flips, `bytes` from its start", {}),
    "truncate": FaultKind(FaultTarget.DATA, "a file or output ends after `bytes`, without an error", {}),
    "exit": FaultKind(FaultTarget.COMMAND, "the command dies, with this status", {"status": 139, "by": ""}),
    "hang": FaultKind(FaultTarget.COMMAND, "the command stands still", {}),
    "garbage": FaultKind(FaultTarget.COMMAND, "random bytes among the command's output", {"size": 4096}),
    "flood": FaultKind(FaultTarget.COMMAND, "output without an end, or of this size", {"size": None}),
    "battery": FaultKind(FaultTarget.PHONE, "how full it is", {"level": 5, "charging": False, "saver": False}),
    "hot": FaultKind(FaultTarget.PHONE, "is that hot, kept so `for` a time", {"temp": 60.0, "for": 0.0}),
    "throttle": FaultKind(FaultTarget.PHONE, "thermal status (0 to 6), clocks down", {"status": 3, "for": None}),
    "slow": FaultKind(
        FaultTarget.PHONE, "computes so many times slower, and no sensor tells", {"factor": 1.5, "for": None}
    ),
    "sensor": FaultKind(
        FaultTarget.PHONE,
        "a thermal zone of this type shows the battery's `charge`, or is `still`",
        {"zone": "", "shows": "charge"},
    ),
    "asleep": FaultKind(FaultTarget.PHONE, "its screen goes off, whatever keeps it on"),
    "doze": FaultKind(FaultTarget.PHONE, "its screen is off, and it says that it dozes"),
    "property": FaultKind(
        FaultTarget.PHONE,
        "another value (with \\x1b escapes, repeated up to `length`), or none",
        {"name": "", "value": None, "length": None},
    ),
    "clock": FaultKind(FaultTarget.PHONE, "`date` jumps", {"jump": 3600.0}),
    "noexec": FaultKind(FaultTarget.PHONE, "nothing in /data/local/tmp may be executed, whatever its mode says"),
    "denied": FaultKind(FaultTarget.PHONE, "files that are listed, and whose content is refused", {"files": "^sys/"}),
    "lacks": FaultKind(FaultTarget.PHONE, "has none of these programs", {"programs": ""}),
    "banner": FaultKind(FaultTarget.COMMAND, "the shell prints this first, on both outputs", {"text": "Welcome"}),
}

NEEDED_KEYS = {"property": ("name",), "lacks": ("programs",)}


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault and its trigger; `times` is how often it happens, None for always."""

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
        """Parses a specification; raises ConfigError."""
        name, _, rest = text.partition(":")
        if name not in FAULTS:
            raise ConfigError(f"--fault {text}: unknown fault {name!r}{suggestion(name, FAULTS)}")
        kind = FAULTS[name]
        values = _parse_keys(text, rest, {*kind.defaults, *TRIGGER_FIELDS})
        trigger = {field: values.pop(key) for key, field in TRIGGER_FIELDS.items() if key in values}
        happens_once = kind.target in (FaultTarget.LINK, FaultTarget.PHONE) and "every_s" not in trigger
        fault = cls(name, {**kind.defaults, **values}, **{"times": 1 if happens_once else None, **trigger})
        if fault.size_bytes and not fault.selects_requests and kind.target is not FaultTarget.DATA:
            raise ConfigError(f"--fault {text}: bytes= needs at= or on=, which say whose")
        for key in NEEDED_KEYS.get(name, ()):
            if not fault.values[key]:
                raise ConfigError(f"--fault {text}: needs {key}=")
        return fault

    @property
    def target(self) -> FaultTarget:
        """What the fault affects."""
        return FAULTS[self.name].target

    @property
    def selects_requests(self) -> bool:
        """Whether the fault selects requests, by `at` or `on`."""
        return bool(self.at or self.on)

    def matches(self, request: str, text: str) -> bool:
        """Whether the fault happens in that request; `request` is empty for the phone itself."""
        if self.selects_requests:
            return self.at in ("", request) and request != "" and (self.on is None or bool(self.on.search(text)))
        default_requests = {FaultTarget.COMMAND: ("shell",), FaultTarget.DATA: ("push", "pull")}.get(self.target, ("",))
        return request in default_requests


@dataclasses.dataclass
class ArmedFault:
    """A fault and how often it may still happen (None: always)."""

    fault: Fault
    remaining: int | None

    def take_one(self) -> bool:
        """Counts one occurrence; False when none is left."""
        if self.remaining is None:
            return True
        self.remaining -= 1
        return self.remaining >= 0


class FaultInjector:
    """The faults of one phone, for its requests."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._armed = [ArmedFault(fault, fault.times) for fault in faults]

    def add(self, fault: Fault) -> ArmedFault:
        """Adds a fault for all requests that start from now on."""
        self._armed.append(ArmedFault(fault, fault.times))
        return self._armed[-1]

    def monitor(self, request: str, text: str, act: Callable[[Fault], None]) -> FaultMonitor:
        """Monitors one request; `act` carries out faults of the link, the command or the phone."""
        return FaultMonitor([armed for armed in self._armed if armed.fault.matches(request, text)], act)


class FaultMonitor:
    """Lets the faults of one request happen when its bytes or its time reach their triggers."""

    def __init__(self, armed: Sequence[ArmedFault], act: Callable[[Fault], None]) -> None:
        self._act = act
        self._position = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._altering = [fault for fault in armed if fault.fault.target is FaultTarget.DATA and fault.take_one()]
        self._due = [fault for fault in armed if fault.fault.target is not FaultTarget.DATA]
        self._start_due()

    def __enter__(self) -> FaultMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancels the faults that have not happened yet."""
        for timer in self._timers:
            timer.cancel()

    def transform(self, chunk: bytes) -> bytes:
        """Counts a piece of the request's data; returns it as the faults alter it."""
        start = self._position
        self._position += len(chunk)
        self._start_due()
        for armed in self._altering:
            chunk = _altered(chunk, armed.fault.name, armed.fault.size_bytes - start)
        return chunk

    def _start_due(self) -> None:
        ready = [armed for armed in self._due if armed.fault.size_bytes <= self._position]
        self._due = [armed for armed in self._due if armed.fault.size_bytes > self._position]
        for armed in ready:
            self._schedule(armed, armed.fault.after_s or armed.fault.every_s or 0.0)

    def _schedule(self, armed: ArmedFault, delay_s: float) -> None:
        if delay_s:
            self._timers.append(asyncio.get_running_loop().call_later(delay_s, self._fire, armed))
        else:
            self._fire(armed)

    def _fire(self, armed: ArmedFault) -> None:
        if not armed.take_one():
            return
        self._act(armed.fault)
        if armed.fault.every_s:
            self._schedule(armed, armed.fault.every_s)


def _altered(chunk: bytes, name: str, offset: int) -> bytes:
    if name == "truncate":
        return chunk[: max(offset, 0)]
    if not 0 <= offset < len(chunk):
        return chunk
    return chunk[:offset] + bytes([chunk[offset] ^ FLIPPED_BIT]) + chunk[offset + 1 :]


def _parse_keys(text: str, rest: str, allowed_keys: set[str]) -> dict[str, Any]:
    """Parses the keys of a specification; a comma separates two keys only where `key=` follows it."""
    values: dict[str, Any] = {}
    for part in filter(None, re.split(r",(?=[a-z]+=)", rest)):
        key, equals, value = part.partition("=")
        if key not in allowed_keys or not equals:
            raise ConfigError(
                f"--fault {text}: {key!r}: not one of {', '.join(sorted(allowed_keys))}{suggestion(key, allowed_keys)}"
            )
        try:
            values[key] = KEY_READERS[key](value)
        except (ValueError, re.error) as error:
            raise ConfigError(f"--fault {text}: {key}: {error}") from None
    return values


def read_size(text: str) -> int:
    """Parses a size such as `64K`, `1.5MB` or `100` into bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)i?B?", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is no size such as 64K or 1MB")
    return int(float(match[1]) * 1024 ** " KMG".index(match[2].upper() or " "))


def read_time(text: str) -> float:
    """Parses a time such as `500ms`, `5s`, `-2m`, `1h` or `3` into seconds."""
    match = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(ms|s|m|h|)", text)
    if not match:
        raise ValueError(f"{text!r} is no time such as 500ms, 5s or 2m")
    return float(match[1]) * {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}[match[2]]


def _read_duration(text: str) -> float:
    seconds = read_time(text)
    if seconds < 0:
        raise ValueError("cannot be negative")
    return seconds


def _read_request(text: str) -> str:
    if text not in REQUESTS:
        raise ValueError(f"{text!r} is not one of {', '.join(REQUESTS)}")
    return text


def _read_yes_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{text!r} is neither yes nor no")
    return text == "yes"


def _read_escaped(text: str) -> str:
    return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")


# Key of a trigger -> its field.
TRIGGER_FIELDS = {
    "at": "at",
    "on": "on",
    "bytes": "size_bytes",
    "after": "after_s",
    "every": "every_s",
    "times": "times",
}


def _read_shown(text: str) -> str:
    if text not in ("charge", "still"):
        raise ValueError(f"{text!r} is neither charge nor still")
    return text


def _read_killer(text: str) -> str:
    if text not in KILLERS:
        raise ValueError(f"{text!r} is not one of {', '.join(KILLERS)}")
    return text


def _read_factor(text: str) -> float:
    factor = float(text)
    if not 1.0 <= factor <= MAX_FACTOR:
        raise ValueError(f"{text} is not between 1 and {MAX_FACTOR:g}")
    return factor


KEY_READERS: dict[str, Callable[[str], Any]] = {
    "at": _read_request,
    "on": re.compile,
    "bytes": read_size,
    "after": _read_duration,
    "every": _read_duration,
    "times": int,
    "away": _read_duration,
    "for": _read_duration,
    "free": read_size,
    "size": read_size,
    "status": int,
    "level": int,
    "charging": _read_yes_no,
    "saver": _read_yes_no,
    "temp": float,
    "factor": _read_factor,
    "by": _read_killer,
    "name": str,
    "zone": str,
    "shows": _read_shown,
    "value": _read_escaped,
    "length": read_size,
    "jump": read_time,
    "files": re.compile,
    "programs": str,
    "text": _read_escaped,
}
