"""`farm serve`: the page of all units, and the tokens of people who may change something there."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli.envelope import CommandResult, Document
from farm.serve.tokens import Tokens
from runtime.errors import ConfigError
from runtime.host import extras

if TYPE_CHECKING:
    from farm.serve.cluster_source import ClusterSource
    from farm.serve.source import ResultSource

PURPOSE = "farm serve"
PACKAGES = ("starlette", "uvicorn", "prometheus_client")


def serve(
    listen: str,
    certificate: Path | None,
    key: Path | None,
    behind_proxy: bool,
    host_names: tuple[str, ...],
    base: str,
    every_s: float,
    cluster: str | None,
    certificates: Path | None,
    reports: Path,
    tokens: Path | None,
    store: str | None,
    share: str | None,
) -> CommandResult:
    """`farm serve`; returns when it is interrupted."""
    for package in PACKAGES:
        extras.load(PURPOSE, package)
    from farm.serve import server
    from farm.serve.place_source import PlaceSource
    from farm.serve.source import LocalSource
    from farm.store.shared_place import SharedPlace

    host, port = _address(listen)
    options = server.ServeOptions(
        host, port, certificate, key, behind_proxy, host_names, every_s, store, reports, tokens, base
    )
    all_hosts = _cluster_source(cluster, certificates) if cluster else None
    others: list[ResultSource] = [PlaceSource(SharedPlace(share))] if share else []
    if all_hosts:
        others.insert(0, all_hosts)
    with contextlib.suppress(KeyboardInterrupt):  # is how it is meant to end
        server.serve(options, click.echo, all_hosts or LocalSource(), others)
    return 0


def _cluster_source(url: str, certificates: Path | None) -> ClusterSource:
    extras.load("farm serve --cluster", "distributed")
    from farm.cluster import connection
    from farm.cluster.address import parse_cluster_address
    from farm.serve.cluster_source import ClusterSource

    address = parse_cluster_address(url)
    connection.security_for(address, certificates)  # missing certificates are told of now, not on the page
    return ClusterSource(address, certificates)


def add_token(name: str, tokens: Path | None, as_json: bool) -> CommandResult:
    """`farm serve token add`."""
    token = Tokens(tokens).add(name)
    if as_json:
        return Document(members={"name": name, "token": token})
    click.echo(token)
    return 0


def list_tokens(tokens: Path | None, as_json: bool) -> CommandResult:
    """`farm serve token list`."""
    kept = Tokens(tokens).all()
    if as_json:
        return Document(members={"tokens": [{"name": name, "added": token.added} for name, token in kept.items()]})
    for name, token in kept.items():
        click.echo(f"{name}  since {token.added}")
    if not kept:
        click.echo("nobody has a token; `farm serve token add NAME` makes one")
    return 0


def revoke_token(name: str, tokens: Path | None, as_json: bool) -> CommandResult:
    """`farm serve token revoke`."""
    Tokens(tokens).revoke(name)
    if as_json:
        return Document(members={"revoked": name})
    click.echo(f"{name}: has no token any more")
    return 0


def _address(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; of IPv6 as `[::1]:8765`."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"--listen {listen}: write HOST:PORT, say 127.0.0.1:8765")
    return host.removeprefix("[").removesuffix("]"), int(port)
