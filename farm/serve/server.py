"""Runs the service: on loopback unless told otherwise, and beyond it only encrypted or behind a proxy that is."""

import contextlib
import dataclasses
import errno
import ipaddress
import logging
import os
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from farm.serve.access import Sessions
from farm.serve.app import create_app
from farm.serve.connections import HandshakeSocket, LimitedProtocol, SeldomFilter, most_connections
from farm.serve.kept_results import KeptResults
from farm.serve.service import FarmService
from farm.serve.source import ResultSource, UnitSource
from farm.serve.tokens import Tokens
from farm.serve.watcher import EVERY_S, QueueWatcher, ResultsWatcher, UnitWatcher
from runtime.errors import ConfigError

DEFAULT_PORT = 8765
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
GRACE_S = 2
BACKLOG = 128  # asyncio accepts so many at once, and logs as many failures where there are no more files
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # localhost has an address of IPv6 where the system has none
BASE = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._~-]*)+")


@dataclasses.dataclass(frozen=True)
class ServeOptions:
    """How the service is reached, and what it shows.

    Attributes:
        host, port: where it listens.
        certificate, key: PEM files, with which it speaks HTTPS.
        behind_proxy: a proxy on this host speaks HTTPS for it.
        host_names: further names by which browsers reach it.
        base: the path below which the proxy shows it, as `/farm`.
        every_s: how often units are looked at.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    host_names: tuple[str, ...] = ()
    every_s: float = EVERY_S
    store: str | None = None
    reports: Path = Path("reports")
    tokens: Path | None = None
    base: str = ""

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers reach it by HTTPS."""
        return self.behind_proxy or self.certificate is not None

    @property
    def hosts(self) -> set[str]:
        """The names by which browsers may reach it."""
        own = {f"[{self.host}]" if ":" in self.host else self.host} - {"0.0.0.0", "[::]"}
        return {name.lower() for name in (*LOOPBACK_NAMES, *own, *self.host_names)}

    @property
    def address(self) -> str:
        """What to open in a browser on this host."""
        scheme = "https" if self.certificate else "http"
        shown = "localhost" if self.host in ("0.0.0.0", "::") else f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{shown}:{self.port}/"


def serve(
    options: ServeOptions, tell: Callable[[str], None], source: UnitSource, others: Sequence[ResultSource] = ()
) -> None:
    """Serves until interrupted; raises ConfigError where the options would let others read along.

    `others`: what knows the reports and artifacts of other hosts.
    """
    check(options)
    LimitedProtocol.most = HandshakeSocket.most = most_connections() // (2 if options.certificate else 1)
    for name in ("asyncio", "uvicorn.error"):
        logging.getLogger(name).addFilter(SeldomFilter())
    server = uvicorn.Server(configuration(options, source, others))
    sockets = listening_sockets(options.host, options.port)
    if options.certificate:
        sockets = [HandshakeSocket(fileno=each.detach()) for each in sockets]
    port = int(sockets[0].getsockname()[1])
    tell(f"{dataclasses.replace(options, port=port).address}  (Ctrl-C ends it)")
    server.run(sockets)


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Listens on all addresses of a host, on one port; 0 is any that is free. Raises ConfigError where it cannot."""
    failure = f"{host}:{port}: cannot be listened on: {{}}; --listen HOST:PORT takes another"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(failure.format(error.strerror)) from None
    with contextlib.ExitStack() as stack:
        sockets: list[socket.socket] = []
        for number, (family, *_, address) in enumerate(found, 1):
            place = (str(address[0]), sockets[0].getsockname()[1] if sockets else port)
            try:
                sockets.append(stack.enter_context(socket.create_server(place, family=family, backlog=BACKLOG)))
            except OSError as error:
                if error.errno not in _NOT_HERE or (number == len(found) and not sockets):
                    raise ConfigError(failure.format(os.strerror(error.errno or 0))) from None
        stack.pop_all()
        return sockets


def check(options: ServeOptions) -> None:
    """Raises ConfigError where what is asked for is not safe, or the certificate cannot be used."""
    if options.base and not BASE.fullmatch(options.base):
        raise ConfigError(f"--base {options.base}: write a path without a slash at its end, as /farm")
    if (options.certificate is None) != (options.key is None):
        raise ConfigError("--certificate and --key belong together")
    if not (is_loopback(options.host) or options.is_encrypted):
        raise ConfigError(
            f"--listen {options.host}: beyond this machine only with --certificate FILE --key FILE, "
            "or with --behind-proxy where a proxy speaks HTTPS"
        )
    if options.certificate and options.key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(options.certificate, options.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{options.certificate}, {options.key}: no usable certificate and key: {error}") from None


def configuration(options: ServeOptions, source: UnitSource, sources: Sequence[ResultSource] = ()) -> uvicorn.Config:
    """The server's configuration, with an application of its own."""
    tokens = Tokens(options.tokens)
    service = FarmService(
        source=source,
        watcher=UnitWatcher(source, options.every_s),
        queue=QueueWatcher(source),
        results=KeptResults(options.store, options.reports),
        tokens=tokens,
        sessions=Sessions(tokens),
        others=ResultsWatcher(sources),
        is_encrypted=options.is_encrypted,
        base=options.base,
    )
    return uvicorn.Config(
        create_app(service, options.hosts),
        host=options.host,
        port=options.port,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
        proxy_headers=options.behind_proxy,
        server_header=False,
        access_log=False,
        log_level="warning",
        http=LimitedProtocol,
        loop="asyncio",  # which accepts by the sockets' own method
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_S,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
