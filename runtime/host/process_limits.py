"""What bounds a process that runs code of others: a model that asks for all memory ends it alone."""

import contextlib
import resource


def bound_memory(most_bytes: int) -> None:
    """Bounds this process's address space, and has it write no core file.

    A bound that the system does not know, as macOS, or for which it has a stricter one, is left as it is.
    """
    for kind, most in ((resource.RLIMIT_AS, most_bytes), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
