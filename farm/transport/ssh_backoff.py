"""Keeps this process from hammering an SSH server that ends connections before they begin.

sshd does so to a machine whose logins failed (PerSourcePenalties), for 15 seconds to ten minutes, and while too many
logins are under way (MaxStartups). Who asks again at once is shut out for longer.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Hashable

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 64.0
PATIENCE_S = 75.0


@dataclasses.dataclass(frozen=True)
class Patience:
    """How a job waits until it may ask a server again: with `sleep`, and `say` tells the user why."""

    sleep: Callable[[float], None]
    say: Callable[[str], None]


class Backoff:
    """When each server may be asked again; the pauses double from one refusal to the next. For all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses: dict[Hashable, tuple[float, float]] = {}  # server -> length, and when it ends

    def left_s(self, server: Hashable) -> float:
        """How long the server is still left alone."""
        return max(0.0, self._pauses.get(server, (0.0, 0.0))[1] - time.monotonic())

    def refused(self, server: Hashable) -> None:
        """The server ended a connection before it began."""
        with self._lock:
            last_s = self._pauses.get(server, (0.0, 0.0))[0]
            pause_s = min(2 * last_s or FIRST_PAUSE_S, LONGEST_PAUSE_S)
            self._pauses[server] = pause_s, time.monotonic() + pause_s

    def admitted(self, server: Hashable) -> None:
        """The server speaks with this machine."""
        with self._lock:
            self._pauses.pop(server, None)


BACKOFF = Backoff()
