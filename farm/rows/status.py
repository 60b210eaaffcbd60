"""How a job ended, in one word: the status of its row."""

import enum

from runtime.errors import (
    BuildError,
    DeadlineError,
    DeviceError,
    DeviceLostError,
    FarmError,
    NoReferenceError,
    NoRoomError,
    ProcessKilledError,
    UnsupportedError,
)


class Status(enum.StrEnum):
    """How a job ended."""

    OK = "ok"
    WRONG_RESULT = "wrong_result"
    NO_REFERENCE = "no_reference"
    UNSUPPORTED = "unsupported"
    BUILD_FAILED = "build_failed"
    TIMEOUT = "timeout"
    KILLED = "killed"
    DEVICE_LOST = "device_lost"
    NO_ROOM = "no_room"
    FAILED = "failed"


def status_of(error: FarmError) -> Status:
    """The status of a row whose job ended with this error."""
    if isinstance(error, DeviceError):
        return Status(error.kind) if error.kind in _KINDS_OF_UNITS else Status.FAILED
    for kind, status in _STATUS_OF_ERROR:
        if isinstance(error, kind):
            return status
    return Status.FAILED


_KINDS_OF_UNITS = (Status.BUILD_FAILED, Status.UNSUPPORTED, Status.NO_ROOM)
_STATUS_OF_ERROR: tuple[tuple[type[FarmError], Status], ...] = (
    (UnsupportedError, Status.UNSUPPORTED),
    (BuildError, Status.BUILD_FAILED),
    (DeadlineError, Status.TIMEOUT),
    (ProcessKilledError, Status.KILLED),
    (DeviceLostError, Status.DEVICE_LOST),
    (NoRoomError, Status.NO_ROOM),
    (NoReferenceError, Status.NO_REFERENCE),
)
