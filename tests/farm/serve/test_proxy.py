"""The service below a path: asked as proxies ask, and by nginx with the lines of docs/serve.md where that is there."""

import contextlib
import dataclasses
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from farm.serve.server import ServeOptions, check
from farm.serve.service import FarmService
from runtime.errors import ConfigError
from tests.conftest import require
from tests.farm.serve.certificates import self_signed
from tests.farm.serve.rack import Rack, service_of_rack, serving
from tests.farm.serve.test_server import START_S, free_port, is_listening

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[3] / "docs/serve.md"
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
MAIN = """daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
access_log off;
{temporary}
{server}
}}
"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
LINKS = re.compile(r'(?:href|action|src)="(/[^"]*)"')


class Stripping(httpx.HTTPTransport):
    """A proxy that takes the path off."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(raw_path=request.url.raw_path.removeprefix(b"/farm"))
        return super().handle_request(request)


@pytest.fixture
def service(tmp_path: Path) -> FarmService:
    return dataclasses.replace(service_of_rack(Rack(6), tmp_path), base="/farm")


@pytest.fixture(params=["as it is", "taken off", "nginx"])
def client(request: pytest.FixtureRequest, service: FarmService, tmp_path: Path) -> Iterator[httpx.Client]:
    """A browser of the service below /farm/; a proxy leaves the path as it is, takes it off, or is nginx."""
    if request.param == "nginx":
        require("nginx", "" if NGINX else "nginx is not installed")
        encrypted = dataclasses.replace(service, is_encrypted=True)
        with serving(encrypted, "localhost") as address, nginx(tmp_path, address) as port:
            trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
            with httpx.Client(base_url=f"https://localhost:{port}", verify=trusting, timeout=60) as found:
                yield found
    else:
        transport = Stripping() if request.param == "taken off" else httpx.HTTPTransport()
        with serving(service) as address, httpx.Client(base_url=address, transport=transport, timeout=60) as found:
            yield found


@contextlib.contextmanager
def nginx(folder: Path, service: str) -> Iterator[int]:
    """nginx with the server of docs/serve.md, but for its port, its certificate and the service's address."""
    (server,) = re.findall(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
    port, (certificate, key) = free_port(), self_signed(folder)
    for line, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("ssl_certificate /etc/farm/host.pem;", f"ssl_certificate {certificate};"),
        ("ssl_certificate_key /etc/farm/host-key.pem;", f"ssl_certificate_key {key};"),
        ("http://127.0.0.1:8765;", f"{service};"),
    ):
        assert server.count(line) == 1, line
        server = server.replace(line, here)
    temporary = "".join(f"{name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    written = folder / "nginx.conf"
    written.write_text(MAIN.format(folder=folder, temporary=temporary, server=server))
    assert NGINX
    with subprocess.Popen([NGINX, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(written)]) as process:
        end_s = time.monotonic() + START_S
        while not is_listening(port):
            assert process.poll() is None and time.monotonic() < end_s, (folder / "error.log").read_text()
            time.sleep(0.1)
        try:
            yield port
        finally:
            process.terminate()


def test_every_link_leads_below_the_path(client: httpx.Client) -> None:
    page = client.get("/farm/").text
    for path in ("/farm/units/phone-000", "/farm/runs", "/farm/night", "/farm/history", "/farm/reports"):
        assert f'href="{path}' in page, path
        page += client.get(path).text
    links = set(LINKS.findall(page))
    assert len(links) > 12 and all(link.startswith("/farm/") for link in links)
    for link in sorted(link for link in links if "/sign-" not in link):
        assert client.get(link.replace("&amp;", "&")).status_code == 200, link
    assert client.get("/farm/api/openapi.json").json()["servers"] == [{"url": "/farm/"}]
    problem = client.get("/farm/units/no-such")
    assert problem.status_code == 404 and 'href="/farm/"' in problem.text


def test_changes_come_back_below_the_path_and_only_from_there(client: httpx.Client, service: FarmService) -> None:
    token, origin = service.tokens.add("alice"), str(client.base_url).rstrip("/")
    evil = client.post("/farm/sign-in", data={"token": token}, headers={"Origin": "https://evil.example"})
    assert evil.status_code == 403
    answer = client.post("/farm/sign-in", data={"token": token}, headers={"Origin": origin})
    assert (answer.status_code, answer.headers["location"]) == (303, "/farm/")
    cookie = answer.headers["set-cookie"].lower()
    assert "path=/farm/;" in cookie and ("secure" in cookie) == origin.startswith("https:")
    page = client.get("/farm/units/phone-000").text
    (csrf, *_) = re.findall(r'name="csrf" value="([^"]+)"', page)
    form = {"csrf": csrf, "for": "1h", "reason": "flashing"}
    answer = client.post("/farm/units/phone-000/reserve", data=form, headers={"Origin": origin})
    assert (answer.status_code, answer.headers["location"]) == (303, "/farm/units/phone-000")
    assert client.get("/farm/units/phone-000").text != page


def test_events_arrive_as_they_come_with_links_below_the_path(client: httpx.Client) -> None:
    assert 'data-base="/farm"' in client.get("/farm/").text, "where the script asks for them"
    with client.stream("GET", "/farm/events") as answer:
        data = next(line for line in answer.iter_lines() if line.startswith("data: "))
    assert '/farm/units/phone-000\\"' in data


def test_the_path_alone_leads_to_the_page(service: FarmService) -> None:
    with serving(service) as address, httpx.Client(base_url=address) as client:
        answer = client.get("/farm")
        assert (answer.status_code, answer.headers["location"]) == (308, "/farm/")
        assert client.get("/farmer/").status_code == 404


@pytest.mark.parametrize("base", ["/", "farm", "/farm/", "//farm", "/a/../b", "/a b", '/"', "/farm\n"])
def test_what_is_no_path_is_one_line(base: str) -> None:
    with pytest.raises(ConfigError, match="write a path without a slash at its end, as /farm"):
        check(ServeOptions(base=base))
    check(ServeOptions(base="/lab-2/farm_a"))
