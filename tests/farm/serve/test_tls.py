"""`farm serve` over HTTPS, as a process: a request that checks the certificate, and cookies that only HTTPS carries."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from farm.serve.tokens import Tokens
from tests.farm.forks import ForkedProcess
from tests.farm.serve.certificates import self_signed

pytestmark = pytest.mark.slow

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
