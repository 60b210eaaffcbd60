"""What the service listens on, and what it refuses to."""

import contextlib
import logging
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from farm.report import kept_nights
from farm.serve import connections, server
from farm.serve.server import ServeOptions
from farm.serve.tokens import Tokens
from runtime.errors import ConfigError, FormatError
from tests.farm.conftest import CallFarm
from tests.farm.forks import ForkedProcess
from tests.farm.serve.certificates import self_signed


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_on_loopback_nothing_else_is_needed(host: str) -> None:
    server.check(ServeOptions(host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "farm.lan"])
def test_beyond_it_only_encrypted(host: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only with --certificate FILE --key FILE, or with --behind-proxy"):
        server.check(ServeOptions(host))
    certificate, key = self_signed(tmp_path)
    server.check(ServeOptions(host, certificate=certificate, key=key))
    server.check(ServeOptions(host, behind_proxy=True))


def test_a_certificate_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with pytest.raises(ConfigError, match="belong together"):
        server.check(ServeOptions(certificate=certificate))
    key.write_text("no key")
    with pytest.raises(ConfigError, match="no usable certificate and key"):
        server.check(ServeOptions(certificate=certificate, key=key))


def test_names_by_which_it_may_be_asked() -> None:
    assert ServeOptions("::1").hosts == {"localhost", "127.0.0.1", "[::1]"}
    assert "farm.lan" in ServeOptions("0.0.0.0", host_names=("Farm.LAN",)).hosts
    assert "0.0.0.0" not in ServeOptions("0.0.0.0").hosts


def test_the_command_line_says_what_is_wrong_in_one_line(farm: CallFarm, own_folder: Path) -> None:
    for listen, said in (("8765", "write HOST:PORT"), ("x:99999", "write HOST:PORT"), ("0.0.0.0:1", "beyond this")):
        status, out, err = farm("serve", "--listen", listen)
        assert (status, out) == (2, "") and said in err and err.count("\n") == 1


def test_tokens_on_the_command_line(farm: CallFarm, own_folder: Path) -> None:
    status, token, _ = farm("serve", "token", "add", "alice", "--tokens", "t.json")
    assert status == 0 and token.startswith("farm_")
    assert farm("serve", "token", "list", "--tokens", "t.json")[1].startswith("alice  since 20")
    assert farm("serve", "token", "revoke", "alice", "--tokens", "t.json")[0] == 0
    assert "nobody" in farm("serve", "token", "list", "--tokens", "t.json")[1]
    assert farm("serve", "token", "revoke", "alice", "--tokens", "t.json")[0] == 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_all_addresses_of_a_name_have_one_port(host: str) -> None:
    sockets = server.listening_sockets(host, 0)
    assert len({each.getsockname()[1] for each in sockets}) == 1
    for each in sockets:
        each.close()


def test_a_name_without_an_address_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.host\.invalid:1: cannot be listened on: "):
        server.listening_sockets("no.such.host.invalid", 1)


@pytest.mark.slow
def test_port_0_is_any_that_is_free_and_one_that_is_taken_is_said(tmp_path: Path) -> None:
    (tmp_path / "devices.yml").write_text("adb: {discover: listed}\ndevices: {host: {transport: local}}\n")
    with _serving(tmp_path, "127.0.0.1:0") as process:
        assert process.stdout
        address = process.stdout.readline().split()[0]
        try:
            assert httpx.get(address, timeout=60).status_code == 200
            listen = address.removeprefix("http://").rstrip("/")
            with _serving(tmp_path, listen) as second:
                out, err = second.communicate(timeout=60)
            said = f"{listen}: cannot be listened on: Address already in use; --listen HOST:PORT takes another"
            assert (second.returncode, out, err.strip().removeprefix("error: ")) == (2, "", said)
        finally:
            process.terminate()


def _serving(folder: Path, listen: str, before: str = "", *more: str) -> subprocess.Popen[str]:
    options = ["--listen", listen, "--tokens", "tokens.json", *more]
    command = [sys.executable, "-P", "-c", before + PROGRAM, "serve", *options]
    return ForkedProcess(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_silent_connections_shut_nobody_out_and_are_ended(tmp_path: Path) -> None:
    """More of them than there are files for; the server's own limit of files is lowered in its process alone."""
    (tmp_path / "devices.yml").write_text("adb: {discover: listed}\ndevices: {host: {transport: local}}\n")
    limits = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "
    limits += "from farm.serve import connections; connections.SILENT_S = 3.0; "
    with _serving(tmp_path, "127.0.0.1:0", limits) as process, contextlib.ExitStack() as stack:
        assert process.stdout
        address = process.stdout.readline().split()[0]
        url = httpx.URL(address)
        silent = [stack.enter_context(socket.create_connection((url.host, url.port), 30)) for _ in range(300)]
        silent[-1].sendall(b"GET / HTTP/1.1\r\nX: ")  # and one that does not come to the end of its headers
        assert httpx.get(address, timeout=30).status_code == 200
        for each in silent:
            each.settimeout(30)
            with contextlib.suppress(ConnectionError):
                assert each.recv(1) == b"", "ended by the server"
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert len(said.splitlines()) < 10, said[-2000:]


@pytest.mark.slow
def test_handshakes_that_never_end_shut_nobody_out(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    (tmp_path / "devices.yml").write_text("adb: {discover: listed}\ndevices: {host: {transport: local}}\n")
    limits = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "
    encrypted = ("--certificate", str(certificate), "--key", str(key))
    with _serving(tmp_path, "127.0.0.1:0", limits, *encrypted) as process, contextlib.ExitStack() as stack:
        assert process.stdout
        url = httpx.URL(process.stdout.readline().split()[0])
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", url.port), 30)) for _ in range(300)]
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"https://localhost:{url.port}/", verify=trusting, timeout=30).status_code == 200
        silent[0].settimeout(30)
        with contextlib.suppress(ConnectionError):
            assert silent[0].recv(1) == b"", "ended by the server"
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert len(said.splitlines()) < 10, said[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["http", "https"])
def test_clients_that_leave_in_mid_answer_are_no_traceback(is_encrypted: bool, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    encrypted = ("--certificate", str(certificate), "--key", str(key)) if is_encrypted else ()
    trusting = ssl.create_default_context(cafile=str(certificate))
    (tmp_path / "devices.yml").write_text("adb: {discover: listed}\ndevices: {host: {transport: local}}\n")
    report = tmp_path / "reports/large"
    report.mkdir(parents=True)
    (report / kept_nights.JSON).write_text("{}")
    (report / kept_nights.INDEX).write_bytes(bytes(32_000_000))  # more than the buffers of both ends hold

    def leave(connection: socket.socket, request: str, wanted: bytes, reset: bool) -> None:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n".encode())
        assert connection.recv(len(wanted)) == wanted
        connection.close()

    with _serving(tmp_path, "127.0.0.1:0", "", *encrypted) as process:
        assert process.stdout
        port = httpx.URL(process.stdout.readline().split()[0]).port

        def connected() -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", port), 30)
            return trusting.wrap_socket(plain, server_hostname="localhost") if is_encrypted else plain

        for request in ("GET /reports/large/", "GET /events", "GET /"):
            for reset in (False, True):
                leave(connected(), request, b"HTTP/1.1 200", reset)
        leave(connected(), "POST /sign-in", b"", reset=True)  # in the middle of its own request
        with connected() as last:  # and all of it is answered by now
            last.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert last.recv(12) == b"HTTP/1.1 200"
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert said == ""


def test_a_message_is_logged_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [logging.LogRecord("asyncio", logging.ERROR, "", 0, text, (), None) for text in ("full", "full", "else")]
    seldom = connections.SeldomFilter()
    assert [seldom.filter(record) for record in records] == [True, False, True]
    monkeypatch.setattr(connections, "LOG_EVERY_S", 0.0)
    assert seldom.filter(records[0])


PROGRAM = "from farm.cli import main; main()"
START_S = 120.0


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Where a service listens that has a certificate for localhost."""
    certificate, key = self_signed(tmp_path)
    (tmp_path / "devices.yml").write_text("adb: {discover: listed}\ndevices: {host: {transport: local}}\n")
    port = free_port()
    arguments = ["--listen", f"127.0.0.1:{port}", "--certificate", str(certificate), "--key", str(key)]
    command = [sys.executable, "-P", "-c", PROGRAM, "serve", *arguments, "--tokens", "tokens.json"]
    with ForkedProcess(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        end_s = time.monotonic() + START_S
        while not is_listening(port):
            assert process.poll() is None and time.monotonic() < end_s
            time.sleep(0.1)
        try:
            yield port
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_S)


@pytest.mark.slow
def test_a_browser_that_checks_the_certificate_is_served(port: int, tmp_path: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    token = Tokens(tmp_path / "tokens.json").add("alice")
    address = f"https://localhost:{port}"
    with httpx.Client(base_url=address, verify=trusting, timeout=60) as client:
        answer = client.get("/")
        assert answer.status_code == 200 and "<h1>Units" in answer.text
        assert answer.headers["strict-transport-security"]
        cookie = client.post("/sign-in", data={"token": token}, headers={"Origin": address}).headers["set-cookie"]
        assert "; secure" in cookie.lower()
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(address, verify=ssl.create_default_context())
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://localhost:{port}/")


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "config" / "tokens.json")


def test_a_token_is_known_by_its_hash_alone(tokens: Tokens, tmp_path: Path) -> None:
    alice, bob = tokens.add("alice"), tokens.add("bob@lab")
    assert (tokens.person(alice), tokens.person(bob)) == ("alice", "bob@lab")
    file = tmp_path / "config" / "tokens.json"
    assert alice not in file.read_text() and alice.removeprefix("farm_") not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert len({alice, bob}) == 2 and len(alice) > 40


@pytest.mark.parametrize("token", ["", "farm_", "alice", "\udcff"])
def test_anything_else_is_nobody_s(tokens: Tokens, token: str) -> None:
    tokens.add("alice")
    assert tokens.person(token) == ""


def test_a_revoked_token_ends_at_once(tokens: Tokens) -> None:
    token = tokens.add("alice")
    tokens.revoke("alice")
    assert tokens.person(token) == ""
    assert tokens.add("alice") != token


def test_mistakes(tokens: Tokens, tmp_path: Path) -> None:
    tokens.add("alice")
    with pytest.raises(ConfigError, match="`farm serve token revoke alice` ends it"):
        tokens.add("alice")
    with pytest.raises(ConfigError, match="bob has no token"):
        tokens.revoke("bob")
    for name in ("", "-x", "a b", "x" * 41, "a\nb"):
        with pytest.raises(ConfigError, match="cannot name a person"):
            tokens.add(name)
    (tmp_path / "config" / "tokens.json").write_text("{")
    with pytest.raises(FormatError, match="damaged"):
        tokens.all()
