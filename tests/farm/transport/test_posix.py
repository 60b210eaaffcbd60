"""What POSIX transports share: files hashed with farmrt while they arrive, digests, and how much storage there is."""

import contextlib
import hashlib
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from farm.config.adb_address import AdbAddress
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.transport import adb, file_digest, storage
from farm.transport.adb import AdbTransport
from farm.transport.local import LocalTransport
from farm.transport.posix_scripts import INSPECT, SERVE, PathStatus, parse_inspection
from runtime.errors import DeviceError, JobError
from runtime.native.build import build_farmrt
from tests.farm.transport.contract import DEADLINE_S, run_shell
from tests.farm.transport.unit_shells import SHELLS, shell_environment


@pytest.fixture(params=["shell 2", "old"])
def phone(request: pytest.FixtureRequest) -> Iterator[EmulatedPhone]:
    with EmulatedPhone(PhoneSettings(shell_v2=request.param == "shell 2")) as running:
        yield running


@pytest.fixture
def transport(phone: EmulatedPhone, port: int) -> Iterator[AdbTransport]:
    """A phone with farmrt on it."""
    serial = f"127.0.0.1:{phone.port}"
    opened = adb.connect(
        Unit("mi8", "adb", "sdm845", "MI 8", ("host",), serial=serial, adb_server=AdbAddress(port=port))
    )
    opened.push({"farmrt": build_farmrt("host")})
    opened.hash_with("farmrt")
    yield opened
    opened.close()


@pytest.fixture
def programs(transport: AdbTransport, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by each program that is started on the phone."""
    started: list[str] = []
    start = transport._start

    def noted(argv: Any, deadline: float) -> Any:
        started.append(" ".join(argv))
        return start(argv, deadline)

    monkeypatch.setattr(transport, "_start", noted)
    return started


@pytest.mark.slow
def test_a_push_starts_no_program(transport: AdbTransport, tmp_path: Path, programs: list[str]) -> None:
    """The one that looked what is there on the connection's first push serves all others."""
    files = {f"folder/{name}": tmp_path / str(number) for number, name in enumerate(["a b", ".c", "d'e", "f\\", "$g"])}
    for path in files.values():
        path.write_bytes(os.urandom(300_000))
    (tmp_path / "0").chmod(0o755)
    assert sorted(transport.push(files)) == sorted(files)
    assert transport.push(files) == [], "contents and modes are as they are here"
    assert programs == []
    for remote, path in files.items():
        assert transport.run(["cat", remote], DEADLINE_S).stdout == path.read_bytes()
    assert run_shell(transport, "ls -A").stdout == b"farmrt\nfolder\n"


@pytest.mark.slow
def test_names_that_are_no_line_are_pushed_too(transport: AdbTransport, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    for name in ("two\nlines", "carriage\rreturn", "not UTF-8 \udcff"):
        assert transport.push({name: tmp_path / "source", "plain": tmp_path / "source"})
        assert transport.push({name: tmp_path / "source"}) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", "reboot"])
def test_a_program_that_ended_between_pushes_is_started_again(
    transport: AdbTransport, phone: EmulatedPhone, tmp_path: Path, programs: list[str], end: str
) -> None:
    (tmp_path / "source").write_bytes(b"x")
    if end == "reboot":
        phone.inject("reboot:away=0.1")
    else:
        serving = [each for each in psutil.Process().children(recursive=True) if _serves_pushes(each)]
        assert serving
        for each in serving:
            with contextlib.suppress(psutil.NoSuchProcess):  # ends with the one before it
                each.kill()
    _wait_until_it_answers(transport)
    programs.clear()
    assert transport.push({"new": tmp_path / "source"}) == ["new"]
    assert len(programs) == 1, "one, which looks, hashes and moves"


def _serves_pushes(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "IFS= read -r line" in " ".join(process.cmdline())
    return False


def _wait_until_it_answers(transport: AdbTransport) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            transport.run(["true"], DEADLINE_S)
            return
        except JobError:
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.mark.slow
def test_many_files_that_no_command_line_holds(transport: AdbTransport, tmp_path: Path, programs: list[str]) -> None:
    (tmp_path / "source").write_bytes(b"x")
    files = {f"{'long' * 40}/{number}": tmp_path / "source" for number in range(300)}
    assert sorted(transport.push(files)) == sorted(files)
    assert transport.push(files) == []
    assert any("install_push" in program for program in programs)


@pytest.mark.slow
def test_a_file_that_is_altered_on_its_way_does_not_appear(
    transport: AdbTransport, phone: EmulatedPhone, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(bytes(5000))
    phone.inject("alter:at=push,on=push-,bytes=1000")
    with pytest.raises(DeviceError, match="data: arrived with another content"):
        transport.push({"data": tmp_path / "data"})
    phone.clear_faults()
    assert run_shell(transport, "ls -A").stdout == b"farmrt\n"


@pytest.mark.slow
def test_what_cannot_be_moved_is_said_and_cleared_away(
    transport: AdbTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_bytes(b"x")
    run_shell(transport, "mkdir folder")
    send = transport._send

    def send_and_disturb(*arguments: Any) -> None:
        send(*arguments)
        run_shell(transport, "rmdir folder; echo > folder")

    monkeypatch.setattr(transport, "_send", send_and_disturb)
    with pytest.raises(DeviceError, match=r"mi8: .*folder"):
        transport.push({"folder/data": tmp_path / "data"})
    assert run_shell(transport, "ls -A").stdout == b"farmrt\nfolder\n"


@pytest.mark.slow
def test_a_killed_hasher_is_no_failed_push(
    transport: AdbTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_bytes(b"x")
    transport.push({"hasher": _script(tmp_path, "echo tried >> tried; kill -9 $$")})
    transport.hash_with("hasher")
    assert transport.push({"data": tmp_path / "data"}) == ["data"]
    assert run_shell(transport, "cat data tried").stdout.startswith(b"xtried\n")


def _script(folder: Path, text: str) -> Path:
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by each hash that is computed."""
    hashes: list[object] = []
    begin = hashlib.sha256

    def noted() -> object:
        hashes.append(None)
        return begin()

    monkeypatch.setattr(hashlib, "sha256", noted)
    return hashes


def test_a_file_that_stays_is_hashed_once(
    tmp_path: Path, computed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"content")
    expected = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    later_ns = time.time_ns() + 2 * file_digest.SETTLED_NS
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    assert [file_digest.sha256(tmp_path / "a") for _ in range(3)] == [expected] * 3
    os.link(tmp_path / "a", tmp_path / "b")  # which changes the time of its last change
    assert [file_digest.sha256(tmp_path / name) for name in "ab"] == [expected] * 2
    assert len(computed) == 2


def test_a_young_file_is_hashed_again(tmp_path: Path, computed: list[object]) -> None:
    for content in (b"one", b"two"):
        (tmp_path / "a").write_bytes(content)
        os.utime(tmp_path / "a", (1, 1))
        assert file_digest.sha256(tmp_path / "a") == hashlib.new("sha256", content).hexdigest()
    assert len(computed) == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="gone: cannot be read: No such file"):
        file_digest.sha256(tmp_path / "gone")


@pytest.mark.parametrize(
    ("line", "free"),
    [
        ("/dev/root 1000 600 400 60% /", 400 * 1024),
        ("/dev/block/by-name/user data 1000 1000 0 100% /data", 0),
        ("/dev/sda1 1000 600 400 60% /media/pi/My 64 GB 10 stick", 400 * 1024),
        ("                 1000 600 400 60% /a line that df broke", 400 * 1024),
        ("none 0 0 0 - /proc", 0),
        ("/dev/root 1000 600 some 60% /", None),
        ("/dev/root 1000 600 -4 60% /", None),
        ("df: no such folder", None),
        ("", None),
    ],
)
def test_the_free_bytes_are_those_of_df(line: str, free: int | None) -> None:
    assert storage.free_bytes(line) == free


def test_files_need_whole_blocks() -> None:
    assert storage.space_needed([1, 4096, 4097, 0]) == (1 + 1 + 2) * 4096


def test_there_is_no_error_where_files_fit_or_nobody_knows() -> None:
    assert storage.no_space_error("pixel: /data", 4096, 4096) is None
    assert storage.no_space_error("pixel: /data", 4096, None) is None


def test_a_full_disk_of_this_machine_is_told_in_figures(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(3_000_000))
    opened = LocalTransport(small_disk / "unit")
    with pytest.raises(DeviceError, match=r"\S+/disk/unit: no space left: 3.0 MB needed, 1.0 MB free"):
        opened.push({"large": tmp_path / "large"})
    assert list((small_disk / "unit").iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_an_inspection_is_one_write(tmp_path: Path, shell: str) -> None:
    """Each would be a packet of adb's that is answered."""
    environment, folder = shell_environment(shell, tmp_path / "programs"), tmp_path / "unit"
    folder.mkdir()
    for name in ("a", "b", "back\\slash"):
        (folder / name).write_text(name)
    (folder / "b").chmod(0o755)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # keeps writes apart
    with ours, theirs:
        names = ["./a", "./new/folder/c", "./b", "./back\\slash", "."]
        subprocess.run(["sh", "-c", INSPECT, "sh", "", *names], stdout=theirs, cwd=folder, env=environment, check=True)
        ours.setblocking(False)
        lines = ours.recv(65536).splitlines()
        with pytest.raises(BlockingIOError):
            ours.recv(65536)
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b", "back\\slash")}
    assert parse_inspection(lines, len(names)) == [
        PathStatus(state=(False, hashes["a"])),
        PathStatus(missing=2),
        PathStatus(state=(True, hashes["b"])),
        PathStatus(state=(False, hashes["back\\slash"])),
        PathStatus(is_folder=True),
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_one_program_serves_pushes_one_after_another(tmp_path: Path, shell: str) -> None:
    environment, folder = shell_environment(shell, tmp_path / "programs"), tmp_path / "unit"
    folder.mkdir()
    (folder / "farmrt").symlink_to(build_farmrt("host"))
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", SERVE], stdin=pipe, stdout=pipe, cwd=folder, env=environment) as program:
        assert program.stdin and program.stdout
        for number, name in enumerate(("it's", "$HOME `id` \\n", "*")):
            _tell(program.stdin, "inspect", "./farmrt", f"./{name}")
            assert program.stdout.readline() == b"none 0\n"
            part = folder / f"push-{number}" / "0" / name
            push, arriving = f"push-{number}", f"./push-{number}/0/{name}"
            _tell(program.stdin, "receive", "./farmrt", push, f"./{push}/0", ".", "--", "5", arriving)
            part.parent.mkdir(parents=True)
            part.write_bytes(b"bytes")
            program.stdin.write(b"sent\n")
            program.stdin.flush()
            assert program.stdout.readline() == f"file - {hashlib.sha256(b'bytes').hexdigest()}\n".encode()
            _tell(program.stdin, "install")
            assert program.stdout.readline() == b"installed\n"
        program.stdin.close()
        assert program.wait(60) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(["it's", "$HOME `id` \\n", "*", "farmrt"])


def _tell(pipe: IO[bytes], *words: str) -> None:
    pipe.write(shlex.join(words).encode() + b"\n")
    pipe.flush()
