"""The one error tree: what a user can get wrong, or what can fail on a unit, each as a class.

    FarmError                 one line for the user: where, what, what to do; exit status in `exit_status`
    |- ConfigError            deployment file, devices.yml, command line, missing input file      (exit 2)
    |- ModelError             the model cannot be read or is not supported                        (exit 2)
    |  `- UnsupportedError    an operator or attribute that the importer or lowering lacks        (exit 2)
    |- FormatError            a plan, weights or artifact file is damaged or of another version   (exit 2)
    |- NoReferenceError       there are no reference outputs to compare with                      (exit 1)
    |- NoUnitError            no unit matches the selection                                       (exit 3)
    |- NoRoomError            a disk of this machine is full                                      (exit 1)
    |- StoreError             the store cannot be used now: locked, full, read-only, out of reach (exit 1)
    `- JobError               a job failed on a unit                                              (exit 1)
       |- BuildError          a program for a unit could not be compiled
       |- DeviceError         the unit answered with an error
       |- DeviceLostError     the unit, or the process on it, went away
       |  `- ProcessEndedError  the process on it ended; the unit may be fine
       |     `- ProcessKilledError  it was killed from outside, for want of memory most likely
       |- DeadlineError       the deadline passed
       |- UnitBusyError       somebody else holds the unit
       `- LeaseLostError      the unit was taken over by somebody else meanwhile

The command line catches FarmError once, prints `error: <text>` and exits with `exit_status`.
"""

import errno
import threading
import traceback

LACKS = (MemoryError, OSError, RuntimeError)  # classes of what a machine lacks, for `farm_error`
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class FarmError(Exception):
    """Base of every error that a user may see as one line."""

    exit_status = 1


class ConfigError(FarmError):
    """The configuration or the command line is wrong; the text starts with `file:line: key`, where there is one."""

    exit_status = 2


class ModelError(FarmError):
    """The model file is damaged, inconsistent, or holds what no deployment can run (NaN weights, say)."""

    exit_status = 2


class UnsupportedError(ModelError):
    """An operator, attribute or type that is not supported; the text names the node and what is supported.

    `kernel` names the one of which the target's driver has no variant that works, where that is why.
    """

    def __init__(self, text: str, kernel: str = "") -> None:
        super().__init__(text)
        self.kernel = kernel


class FormatError(FarmError):
    """A plan, weights or artifact file is damaged, truncated, or was written by another version."""

    exit_status = 2


class NoReferenceError(FarmError):
    """The reference (ONNX Runtime) refuses the model, ends, or takes too long: outputs are compared with nothing."""


class NoUnitError(FarmError):
    """No unit matches; the text names the units that are there and how to add one."""

    exit_status = 3


class NoRoomError(FarmError):
    """A disk of this machine is full; the text names the file that could not be written."""


class StoreError(FarmError):
    """The store of rows cannot be used now (locked, full, read-only, out of reach); what it holds is whole."""


class JobError(FarmError):
    """A job failed on a unit."""


class BuildError(JobError):
    """A program (farmrt, or an OpenCL program) could not be compiled."""


class DeviceError(JobError):
    """The unit answered a command with an error; `kind` is farmrt's word for it (docs/farmrt.md), empty for others."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class DeviceLostError(JobError):
    """The unit or the process on it ended or stopped answering."""


class ProcessEndedError(DeviceLostError):
    """The process on the unit ended, and the link to it did not: the unit may be fine."""


class ProcessKilledError(ProcessEndedError):
    """The process on the unit was killed from outside, as Android does when memory runs short."""


class DeadlineError(JobError):
    """A command did not finish within its deadline."""


class UnitBusyError(JobError):
    """Somebody else holds the unit; the text says who, since when and until when."""


class LeaseLostError(JobError):
    """The lease ran out or was ended, and somebody else may use the unit: nothing may be written there any more."""


def unwritten(text: str, error: OSError, otherwise: type[FarmError]) -> FarmError:
    """The error of a file that could not be written: NoRoomError where the disk is full, else of another class.

    `text` says which file, and what was to be done with it; why not is added.
    """
    kind = NoRoomError if error.errno in NO_ROOM else otherwise
    return kind(f"{text}: {error.strerror or error}")


def farm_error(error: Exception) -> FarmError:
    """The error in words for the user, where this machine lacks something (memory, open files, room, threads).

    Raises any other but a FarmError itself.
    """
    if isinstance(error, FarmError):
        return error
    if isinstance(error, MemoryError):  # NumPy says how much it lacked
        return FarmError(f"this machine has too little memory{f': {error}' if str(error) else ''}")
    if not isinstance(error, OSError):
        if _is_refused_thread(error):
            return FarmError(
                "this machine starts no more threads; `ulimit -u`, systemd's TasksMax or a container's limit"
            )
        raise error
    text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    remedy = "; `ulimit -n` says how many, and raises it" if error.errno == errno.EMFILE else ""
    kind = NoRoomError if error.errno in NO_ROOM else ConfigError if error.errno == errno.ENAMETOOLONG else FarmError
    return kind(f"{text}{remedy}")


def _is_refused_thread(error: Exception) -> bool:
    """Whether a RuntimeError is the one that tells that no thread could be started: it has no class of its own."""
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1] is threading.Thread.start.__code__
