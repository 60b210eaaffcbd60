"""Processes of `python -P -c PROGRAM ...` that need not import farm: they are forked from one that has.

`ForkedProcess` is a Popen. What it starts is a process like any other, only that its parent is a server, which has one
thread; each process of tests starts one when it first needs it, and its forks ask the same one. On a connection for
each process the server tells that process's number, and its status when it has ended.
"""

import atexit
import contextlib
import gc
import importlib
import inspect
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

ADDRESS = "FARM_TEST_FORKS"
ROOMS = ("farm.cli", "farm.cluster")
IMPORTED_LATE = ("farm.jobs.loading", "farm.store.store", "httpx", "scipy.optimize", "scipy.special", "scipy.sparse")
MOST_BYTES = 1 << 17  # of a request: arguments and environment
ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class ForkedProcess(subprocess.Popen):
    """A Popen of [sys.executable, "-P", "-c", PROGRAM, ...], for which no Python is started. Elsewhere than on Linux
    one is."""

    def _execute_child(self, *given: Any) -> None:
        if sys.platform != "linux":
            super()._execute_child(*given)
            return
        asked = dict(zip(inspect.signature(super()._execute_child).parameters, given, strict=True))
        executable, isolated, flag, program, *arguments = map(str, asked["args"])
        assert [executable, isolated, flag] == [sys.executable, "-P", "-c"]
        request = {
            "program": program,
            "arguments": arguments,
            "folder": str(Path(asked["cwd"] or ".").absolute()),
            "environment": dict(os.environ if asked["env"] is None else asked["env"]),
            "has_session": asked["start_new_session"],
        }
        streams = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(f"\0{server_address()}")
        fds = [own if fd == -1 else fd for own, fd in enumerate(streams)]
        socket.send_fds(self._connection, [json.dumps(request).encode()], fds)
        self.pid = int(self._connection.recv(64))
        self._child_created = True
        self._close_pipe_fds(*(asked[end] for end in ENDS))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if sys.platform != "linux":
            return super()._try_wait(wait_flags)
        try:
            status = self._connection.recv(64, socket.MSG_DONTWAIT if wait_flags else 0)
        except BlockingIOError:
            return 0, 0
        self._connection.close()
        return self.pid, int(status)

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


SUBPROCESS = types.SimpleNamespace(**vars(subprocess) | {"Popen": ForkedProcess})  # the module, with forks


def server_address() -> str:
    """The name of the server's socket, which is started where there is none."""
    if ADDRESS not in os.environ:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.farm.forks"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process that forks has no other threads
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        os.environ[ADDRESS] = server.stdout.readline().strip()
        atexit.register(server.communicate)
    return os.environ[ADDRESS]


def serve() -> str:
    """Forks whenever it is asked, until the tests end; returns in each fork, with the program that it is to run."""
    for name in [*IMPORTED_LATE, *(name for room in ROOMS for name in _modules(room))]:
        importlib.import_module(name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    name = f"farm-forks-{os.getpid()}"
    listener.bind(f"\0{name}")
    listener.listen(100)
    print(name, flush=True)
    children: dict[int, socket.socket] = {}
    with selectors.PollSelector() as selector:
        for each in (0, woken, listener):
            selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    sys.exit()
                if key.fileobj is woken:
                    woken.recv(4096)
                    _tell_ended(children)
                elif program := _forked(listener.accept()[0], children):
                    return program


def _modules(room: str) -> list[str]:
    return [found.name for found in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}.")]


def _tell_ended(children: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with children.pop(ended[0]) as connection, contextlib.suppress(OSError):  # whoever asked may have gone
                connection.send(str(ended[1]).encode())


def _forked(connection: socket.socket, children: dict[int, socket.socket]) -> str:
    """Forks; in the fork it returns the program, here nothing."""
    text, fds, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    pid = os.fork() if text else 0
    if not pid and text:
        return _begun(json.loads(text), fds)
    with contextlib.suppress(OSError):  # whoever asked has been killed meanwhile
        connection.send(str(pid).encode())
    for fd in fds:
        os.close(fd)
    if pid:
        children[pid] = connection
    return ""


def _begun(request: dict[str, Any], fds: list[int]) -> str:
    """Makes a fork as a new process would be."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if request["has_session"]:
        os.setsid()
    for own, fd in enumerate(fds):
        os.dup2(fd, own)
    os.closerange(3, 1 + max(int(fd.name) for fd in Path("/proc/self/fd").iterdir()))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdout.reconfigure(write_through="PYTHONUNBUFFERED" in os.environ)
    sys.argv = ["-c", *request["arguments"]]
    return str(request["program"])


if __name__ == "__main__":
    exec(compile(serve(), "<string>", "exec"), {"__name__": "__main__"})
