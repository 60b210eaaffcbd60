"""Phones over adb: the contract with shell protocol 2 and without, with a stock adb server; every way to lose one."""

import contextlib
import errno
import itertools
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.config.adb_address import AdbAddress
from farm.config.inventory import Inventory, Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.transport import adb, adb_sync
from farm.transport.adb import AdbTransport, remedy
from farm.transport.adb_server import AdbDevice, AdbServer, find_adb, parse_device
from farm.transport.base import Transport
from farm.units import lookup
from farm.units.survey import list_entries
from runtime.errors import ConfigError, DeviceError, DeviceLostError, FarmError, JobError, ProcessEndedError
from tests.farm.transport.contract import DEADLINE_S, PosixContract, run_shell, wait_until_ended

pytestmark = pytest.mark.slow


Open = Callable[..., AdbTransport]


@pytest.fixture
def phones(port: int) -> Iterator[Callable[..., EmulatedPhone]]:
    """Starts phones that end with the test."""
    running: list[EmulatedPhone] = []

    def start(**settings: Any) -> EmulatedPhone:
        phone = EmulatedPhone(PhoneSettings(**settings)).__enter__()
        running.append(phone)
        return phone

    yield start
    for phone in running:
        phone.__exit__(None, None, None)


def unit_of(phone: EmulatedPhone, port: int, folder: str = "") -> Unit:
    serial = f"127.0.0.1:{phone.port}"
    return Unit(
        "mi8", "adb", "sdm845", "MI 8", ("host",), serial=serial, adb_server=AdbAddress(port=port), folder=folder
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices in a second or two what otherwise takes twenty."""
    monkeypatch.setattr(adb, "SILENCE_S", 0.5)
    monkeypatch.setattr(adb, "ANSWER_S", 5.0)
    monkeypatch.setattr(adb, "SETTLE_S", 1.5)


class TestShellProtocol2(PosixContract):
    @pytest.fixture
    def transport(self, phones: Callable[..., EmulatedPhone], port: int) -> Iterator[Transport]:
        opened = adb.connect(unit_of(phones(), port))
        yield opened
        opened.close()


class TestOldPhone(PosixContract):
    @pytest.fixture
    def transport(self, phones: Callable[..., EmulatedPhone], port: int) -> Iterator[Transport]:
        opened = adb.connect(unit_of(phones(shell_v2=False, android=6), port))
        yield opened
        opened.close()


@pytest.fixture(params=["shell 2", "old"])
def phone(request: pytest.FixtureRequest, phones: Callable[..., EmulatedPhone]) -> EmulatedPhone:
    return phones(shell_v2=request.param == "shell 2")


@pytest.fixture
def transport(phone: EmulatedPhone, port: int) -> Iterator[AdbTransport]:
    opened = adb.connect(unit_of(phone, port))
    yield opened
    opened.close()


def test_many_files_are_pushed_over_one_connection(transport: AdbTransport, tmp_path: Path) -> None:
    files = {}
    for number in range(200):
        path = tmp_path / str(number)
        path.write_bytes(os.urandom(number * 50))
        files[f"many/{number}"] = path
    assert sorted(transport.push(files)) == sorted(files)
    assert transport.push(files) == []
    files["many/7"].write_bytes(b"changed")
    assert transport.push(files) == ["many/7"]


def test_command_lines_longer_than_a_packet_run(transport: AdbTransport) -> None:
    argument = "x" * 50_000
    assert run_shell(transport, 'printf %s "$1"', argument).stdout == argument.encode()


def test_a_full_storage_leaves_nothing_half_written(
    transport: AdbTransport, phone: EmulatedPhone, tmp_path: Path
) -> None:
    phone.inject("storage:free=1M")
    (tmp_path / "large").write_bytes(os.urandom(8_000_000))
    with pytest.raises(DeviceError, match=r"mi8: /\S+: no space left: 8.0 MB needed, [01].\d MB free; make room there"):
        transport.push({"large": tmp_path / "large"})
    phone.clear_faults()
    assert run_shell(transport, "ls -A").stdout == b""


def test_a_file_that_is_altered_on_its_way_does_not_appear(
    transport: AdbTransport, phone: EmulatedPhone, tmp_path: Path
) -> None:
    phone.inject("alter:at=push,on=push-,bytes=1000")
    (tmp_path / "data").write_bytes(bytes(5000))
    with pytest.raises(DeviceError, match="arrived with another content"):
        transport.push({"data": tmp_path / "data"})
    phone.clear_faults()
    assert run_shell(transport, "ls -A").stdout == b""


@pytest.mark.parametrize("fault", ["alter:at=pull,bytes=1000", "truncate:at=pull,bytes=1000"])
def test_a_file_that_is_altered_on_its_way_back_is_refused(
    transport: AdbTransport, phone: EmulatedPhone, tmp_path: Path, fault: str
) -> None:
    (tmp_path / "data").write_bytes(bytes(5000))
    transport.push({"data": tmp_path / "data"})
    phone.inject(fault)
    with pytest.raises(JobError):
        transport.pull("data", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_program_that_dies_does_not_count_as_a_lost_phone(transport: AdbTransport) -> None:
    process = transport.start(["sh", "-c", "read line; echo last words >&2; kill -SEGV $$"])
    process.write_line("go")
    with pytest.raises(ProcessEndedError, match=r"139 \(SIGSEGV\): last words"):
        process.read_line(DEADLINE_S)


@pytest.mark.parametrize("fault", ["disconnect:away=1", "reboot:away=1"])
def test_a_phone_that_goes_in_a_run_is_lost_and_used_again_when_it_returns(
    transport: AdbTransport, phone: EmulatedPhone, port: int, quick: None, fault: str
) -> None:
    process = transport.start(["sh", "-c", "echo $$; exec cat"])
    pid = int(process.read_line(DEADLINE_S))
    phone.inject(fault)
    with pytest.raises(DeviceLostError) as caught:
        process.read_line(DEADLINE_S)
    assert not isinstance(caught.value, ProcessEndedError)
    wait_until_ended(pid)
    again = _opened_again(unit_of(phone, port))
    assert run_shell(again, "echo back").stdout == b"back\n"
    again.close()


def _opened_again(unit: Unit) -> AdbTransport:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return adb.connect(unit)
        except JobError:
            assert time.monotonic() < end
            time.sleep(0.2)


@pytest.mark.parametrize("at", ["push", "pull", "shell"])
def test_a_reset_in_each_stage_is_a_lost_phone(
    phones: Callable[..., EmulatedPhone], port: int, tmp_path: Path, quick: None, at: str
) -> None:
    phone = phones()
    transport = adb.connect(unit_of(phone, port))
    (tmp_path / "data").write_bytes(os.urandom(3_000_000))
    if at == "pull":
        transport.push({"data": tmp_path / "data"})
    phone.inject(f"disconnect:at={at},bytes=100000,away=3" if at != "shell" else "disconnect:at=shell,away=3")
    with pytest.raises(DeviceLostError, match="mi8"):
        if at == "push":
            transport.push({"data": tmp_path / "data"})
        elif at == "pull":
            transport.pull("data", tmp_path / "back")
        else:
            run_shell(transport, "echo never")
    assert not (tmp_path / "back").exists()
    transport.close()


def test_a_stalled_connection_is_noticed(phone: EmulatedPhone, transport: AdbTransport, quick: None) -> None:
    process = transport.start(["sh", "-c", "echo there; sleep 1000"])
    assert process.read_line(DEADLINE_S) == "there"
    phone.inject("stall")
    begun = time.monotonic()
    with pytest.raises(DeviceLostError, match="mi8"):
        process.read_line(60.0)
    assert time.monotonic() - begun < 30


def test_a_silent_program_does_not_count_as_a_lost_phone(transport: AdbTransport, quick: None) -> None:
    assert run_shell(transport, "sleep 3; echo done").stdout == b"done\n"


def test_a_server_that_is_killed_is_started_again(
    phones: Callable[..., EmulatedPhone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own_port = int(listener.getsockname()[1])
    unit = unit_of(phones(), own_port)
    try:
        transport = adb.connect(unit)
        process = transport.start(["sh", "-c", "echo there; sleep 1000"])
        assert process.read_line(DEADLINE_S) == "there"
        _kill_server(own_port)
        with pytest.raises(DeviceLostError):
            process.read_line(DEADLINE_S)
        assert run_shell(transport, "echo again").stdout == b"again\n"
        (tmp_path / "data").write_bytes(os.urandom(200_000_000))
        threading.Timer(0.1, lambda: _kill_server(own_port)).start()
        with pytest.raises(DeviceLostError):
            transport.push({"data": tmp_path / "data"})
        (tmp_path / "data").write_bytes(b"small")
        assert transport.push({"data": tmp_path / "data"}) == ["data"]
        transport.close()
    finally:
        _kill_server(own_port)


def _kill_server(port: int) -> None:
    subprocess.run([find_adb(), "-P", str(port), "kill-server"], check=False, capture_output=True, timeout=30)


@pytest.mark.parametrize(
    ("fault", "words"), [("unauthorized", "accept the dialogue"), ("offline", r"(offline|absent|does not answer)")]
)
def test_phones_that_may_not_be_used_say_why(
    phones: Callable[..., EmulatedPhone], port: int, quick: None, fault: str, words: str
) -> None:
    phone = phones()
    phone.inject(fault)
    with pytest.raises(JobError, match=words):
        adb.connect(unit_of(phone, port))


def test_an_adbd_without_exec_is_told_to_be_too_old(
    phones: Callable[..., EmulatedPhone], port: int, quick: None
) -> None:
    transport = adb.connect(unit_of(phones(exec_service=False), port))
    with pytest.raises(DeviceError, match=r"mi8: its adbd is too old: .* Android 5"):
        run_shell(transport, "true")
    transport.close()


def test_a_lost_old_phone_is_not_told_to_be_too_old(
    phones: Callable[..., EmulatedPhone], port: int, quick: None
) -> None:
    phone = phones(shell_v2=False)
    transport = adb.connect(unit_of(phone, port))
    phone.inject("disconnect:away=60")
    with pytest.raises(DeviceLostError, match="mi8"):
        run_shell(transport, "true")
    transport.close()


def test_a_phone_that_did_not_come_back_is_waited_for_once_by_all_that_tidies_up(
    phones: Callable[..., EmulatedPhone], port: int, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = phones()
    transport = adb.connect(unit_of(phone, port))
    waits: list[float | None] = []
    wait = adb._wait_until_ready
    monkeypatch.setattr(
        adb,
        "_wait_until_ready",
        lambda name, server, serial, deadline: waits.append(deadline) or wait(name, server, serial, deadline),
    )
    phone.inject("disconnect:away=60")
    for _ in range(3):
        with pytest.raises(DeviceLostError, match="mi8"):
            run_shell(transport, "true")
    assert len(waits) == 1
    transport.close()


def test_an_absent_phone_is_an_error_with_what_to_do(port: int, quick: None) -> None:
    unit = Unit("gone", "adb", "sdm845", "x", ("host",), serial="0123456789", adb_server=AdbAddress(port=port))
    with pytest.raises(DeviceLostError, match="gone: 0123456789 is absent: adb does not see it"):
        adb.connect(unit)


NO_PERMISSIONS = "no permissions (user in plugdev group; are your udev rules wrong?); see [..] usb:1-1"


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("emulator-5554  device product:sdk model:Pixel_7 transport_id:1", ("emulator-5554", "device", "Pixel_7")),
        ("0123 unauthorized usb:1-1 transport_id:2", ("0123", "unauthorized")),
        (f"0123 {NO_PERMISSIONS}", ("0123", "no permissions")),
        ("10.0.0.1:5555 offline", ("10.0.0.1:5555", "offline")),
        (
            "adb-X (2)._adb-tls-connect._tcp device product:p model:M device:d transport_id:7",
            ("adb-X (2)._adb-tls-connect._tcp", "device", "M"),
        ),
        ("a device (3) offline transport_id:8", ("a device (3)", "offline")),
        ("(no serial number)     device usb:1-1 model:M transport_id:3", ("(no serial number)", "device", "M")),
        ("????????????           no permissions usb:1-2 transport_id:4", ("????????????", "no permissions")),
        ("", None),
        ("* daemon", ("*", "daemon")),
    ],
)
def test_lines_of_the_servers_device_list_are_parsed(line: str, device: tuple[str, ...] | None) -> None:
    assert parse_device(line) == (AdbDevice(*device) if device else None)


LIST = """\
0123456789ABCDEF       device usb:1-1 product:p model:M device:d transport_id:1
0123456789ABCDEF       device usb:1-2 product:p model:M device:d transport_id:2
(no serial number)     device product:p model:M device:d transport_id:3
A1                     device usb:1-4 product:p model:M device:d transport_id:4
"""


@contextlib.contextmanager
def server_of_list(text: str = LIST) -> Iterator[tuple[AdbAddress, list[str]]]:
    """An adb server with this list, and what it was asked."""
    import socketserver

    asked: list[str] = []

    class Listing(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while digits := self.rfile.read(4):
                asked.append(self.rfile.read(int(digits, 16)).decode())
                answer = text if asked[-1] == "host:devices-l" else "shell_v2" if "features" in asked[-1] else ""
                self.wfile.write(b"OKAY" + (b"%04x" % len(answer) + answer.encode() if answer else b""))
                if answer:
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Listing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield AdbAddress(port=server.server_address[1]), asked
        server.shutdown()


def test_phones_that_share_a_serial_are_named_by_their_paths() -> None:
    with server_of_list() as (address, asked):
        phones = lookup.adb_phones(address)
        assert [phone.serial for phone in phones] == ["usb:1-1", "usb:1-2", "transport_id:3", "A1"]
        units = {
            serial: Unit("u", "adb", "sdm845", "x", ("host",), serial=serial, adb_server=address)
            for serial in ("usb:1-2", "transport_id:3", "usb:1-4", "0123456789ABCDEF")
        }
        for serial in ("usb:1-2", "transport_id:3", "usb:1-4"):
            connected = adb.connect(units[serial])
            AdbServer(address).open("sync:", time.monotonic() + 5, serial).close()
            connected.close()
        with pytest.raises(DeviceError, match=r"u: several phones have the serial 01\w+: name one .*usb:1-1, usb:1-2"):
            adb.connect(units["0123456789ABCDEF"])
        entries = list_entries(
            Inventory((units["usb:1-4"], units["0123456789ABCDEF"]), adb_server=address), {address: phones}
        )
    found = [(entry.unit.serial, entry.state.value, entry.listed) for entry in entries]
    assert found[:2] == [("usb:1-4", "ready", True), ("0123456789ABCDEF", "not connected", True)]
    assert [serial for serial, _, _ in found[2:]] == ["usb:1-1", "usb:1-2", "transport_id:3"]
    assert "name one by its path" in entries[1].reason
    assert {"host:transport:usb:1-2", "host:transport-id:3", "host-transport-id:3:features"} <= set(asked)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"ANDROID_ADB_SERVER_PORT": ""}, "port 5037"),
        ({"ANDROID_ADB_SERVER_PORT": "5040", "ANDROID_ADB_SERVER_ADDRESS": "bench7"}, "bench7:5040"),
        ({"ANDROID_ADB_SERVER_ADDRESS": "localhost", "ANDROID_ADB_SERVER_PORT": "5041"}, "port 5041"),
        ({"ADB_SERVER_SOCKET": "tcp:5042", "ANDROID_ADB_SERVER_ADDRESS": "bench7"}, "port 5042"),
        ({"ADB_SERVER_SOCKET": "tcp:[fd00::1]:5043"}, "fd00::1:5043"),
        ({"ADB_SERVER_SOCKET": "tcp:bench7:5044"}, "bench7:5044"),
    ],
)
def test_the_variables_of_the_adb_program_name_the_server(
    variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert AdbServer().place == place
    assert AdbServer(AdbAddress(port=5050)).place == "port 5050"


@pytest.mark.parametrize("value", ["localfilesystem:/tmp/adb", "tcp:bench7", "tcp:", "5037"])
def test_a_socket_that_is_no_port_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADB_SERVER_SOCKET", value)
    with pytest.raises(ConfigError, match=r"ADB_SERVER_SOCKET: .* is no port \(tcp:\[host:\]port\)"):
        AdbServer()


def test_every_state_but_device_has_a_remedy() -> None:
    assert remedy("device") == ""
    assert all(remedy(state) for state in (*adb.REMEDIES, "something new"))


def test_a_server_of_another_version_is_used_as_it_is(tmp_path: Path) -> None:
    """A server that says version 31 and knows one phone: nothing is sent to it but questions."""
    import socketserver

    asked: list[str] = []

    class Old(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            service = self.rfile.read(int(self.rfile.read(4), 16)).decode()
            asked.append(service)
            text = {"host:version": "001f", "host:devices-l": "0123 device model:Old\n"}[service]
            self.wfile.write(b"OKAY%04x" % len(text) + text.encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Old) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = AdbServer(AdbAddress(port=server.server_address[1]))
        assert found.version(time.monotonic() + 5) == 31
        assert found.devices(time.monotonic() + 5) == [AdbDevice("0123", "device", "Old")]
        server.shutdown()
    assert asked == ["host:version", "host:devices-l"]


def test_another_program_on_the_port_is_an_error() -> None:
    import socketserver

    class Web(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.read(8)
            self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(DeviceError, match="is no adb server"):
            AdbServer(AdbAddress(port=server.server_address[1])).devices(time.monotonic() + 5)
        server.shutdown()


def test_too_many_open_files_here_are_no_loss_of_a_phone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "create_connection", refused)
    with pytest.raises(FarmError, match="Too many open files; `ulimit -n` says") as told:
        AdbServer().devices(time.monotonic() + 5)
    assert not isinstance(told.value, JobError)


def test_a_file_that_grows_while_it_is_sent_is_cut_at_the_size_that_it_had() -> None:
    sent = itertools.islice(adb_sync._blocks([(Path("/dev/zero"), "endless")]), 50)
    assert sum(map(len, sent)) < 1000
