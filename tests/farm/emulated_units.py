"""A folder to work in, with tiny.yml and emulated phones in devices.yml: for tests of whole jobs."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from farm import cli
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.emulation.phone_thread import EventLoopThread
from farm.farmrt.session import Session
from farm.jobs.fleet import dispatch
from farm.transport import adb
from farm.transport.adb_server import find_adb
from tests.farm.forks import ForkedProcess
from tests.farm.model.tiny_model import write_deployment

END_S = 180.0
ENTRY = """  {name}:
    transport: adb
    serial: 127.0.0.1:{phone}
    adb_server: {server}
    target_abis: [host]
    target_socs: [{soc}]
"""


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """A command that ended: exit status, rows and what it said."""

    status: int
    rows: list[dict[str, Any]]
    err: str

    @property
    def row(self) -> dict[str, Any]:
        """The only row."""
        (row,) = self.rows
        return row


class EmulatedUnits:
    """The folder is the working directory as long as the block lasts. Phones end with it.

    Args:
        server: port of the adb server.
    """

    def __init__(
        self, folder: Path, server: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        self.folder, self.server, self._capsys = folder, server, capsys
        self._phones = contextlib.ExitStack()
        self._thread: EventLoopThread | None = None
        write_deployment(folder)
        (folder / "devices.yml").write_text("devices:\n")

    def __enter__(self) -> EmulatedUnits:
        return self

    def __exit__(self, *_: object) -> None:
        self._phones.close()

    def phone(self, name: str = "mi8", soc: str = "sdm845") -> EmulatedPhone:
        """Starts a phone and writes it into devices.yml."""
        if self._thread is None:
            self._thread = EventLoopThread()
            self._phones.callback(self._thread.close)
        phone = self._phones.enter_context(EmulatedPhone(PhoneSettings(soc=soc), thread=self._thread))
        with (self.folder / "devices.yml").open("a") as file:
            file.write(ENTRY.format(name=name, phone=phone.port, server=self.server, soc=soc))
        return phone

    def farm(self, *arguments: str) -> CommandResult:
        """Runs a job in this process."""
        self._capsys.readouterr()
        status = cli.call([*arguments, "--json"])
        captured = self._capsys.readouterr()
        return CommandResult(status, json.loads(captured.out)["rows"] if captured.out else [], captured.err)

    def text(self, *arguments: str) -> str:
        """All that a job that goes well prints."""
        self._capsys.readouterr()
        assert cli.call(arguments) == 0
        return "".join(self._capsys.readouterr())

    def run(self, *more: str) -> CommandResult:
        """`farm run` on the phones."""
        return self.farm("run", "tiny.yml", "--all", "--validate", "--round", "3", *more)

    def tune(self, *more: str) -> CommandResult:
        """`farm tune` on the phones."""
        return self.farm("tune", "tiny.yml", "--all", "--budget", "6", *more)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Runs a command in a process of its own; `wait_for_result` reads it to its end."""
        program = [sys.executable, "-P", "-c", "from farm.cli import main; main()", *arguments, "--json"]
        return ForkedProcess(program, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_result(process: subprocess.Popen[str]) -> CommandResult:
    """What came of a command in another process."""
    out, err = process.communicate(timeout=END_S)
    return CommandResult(process.returncode, json.loads(out)["rows"] if out else [], err)


def farmrt_processes(phone: EmulatedPhone) -> list[psutil.Process]:
    """The farmrt processes of a phone."""
    root = str(phone.root.resolve())
    found = []
    for pid in psutil.pids():  # `process_iter` would remember what a process was before it became farmrt
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.exe().startswith(root) and "farmrt" in process.name():
                found.append(process)
    return found


def host_farmrt_processes(emulated: EmulatedUnits) -> list[psutil.Process]:
    """The farmrt processes that this process runs on this machine's own unit."""
    folder = (emulated.folder / "build/units").resolve()
    alive = (each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE)
    return [each for each in alive if Path(each.exe()).is_relative_to(folder)]


def is_clean(phone: EmulatedPhone) -> bool:
    """Whether nothing runs there any more, and every file of the store is whole: its folder's name is its hash."""
    objects = [path for path in (phone.root / "data/local/tmp/farm/objects").glob("*/*") if path.is_file()]
    whole = (hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name for path in objects)
    return not farmrt_processes(phone) and all(whole)


def kill_server(port: int) -> None:
    """Ends an adb server."""
    subprocess.run([find_adb(), "-P", str(port), "kill-server"], check=False, capture_output=True, timeout=60)


def shorten_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What otherwise takes many seconds takes one or two: to notice that a phone is gone, and that it is back."""
    shorter_s = {
        "SILENCE_S": 0.5,
        "ANSWER_S": 8.0,
        "SETTLE_S": 12.0,
        "DIAL_S": 4.0,
        "REDIAL_S": 12.0,
        "RECONNECT_S": 0.5,
    }
    for name, value_s in shorter_s.items():
        monkeypatch.setattr(adb, name, value_s)
    monkeypatch.setattr(dispatch, "POLL_S", 0.3)


def do_before_command(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object], skip: int = 0) -> None:
    """Lets something happen once, just before farmrt gets a command for the first time (after `skip` others)."""
    actions, send = [*[lambda: None] * skip, act], Session.sent

    def sent(self: Session, asked: str, /, **values: Any) -> Any:
        if asked == name and actions:
            actions.pop(0)()
        return send(self, asked, **values)

    monkeypatch.setattr(Session, "sent", sent)
