"""Addresses of schedulers: plain TCP never leaves this machine."""

from __future__ import annotations

import pytest

from farm.cluster.address import ClusterAddress, parse_cluster_address
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tls://lab:8786", ClusterAddress("tls", "lab", 8786)),
        ("tls://10.0.0.7:1/", ClusterAddress("tls", "10.0.0.7", 1)),
        ("tcp://127.0.0.1:8786", ClusterAddress("tcp", "127.0.0.1", 8786)),
        ("tcp://localhost:8786", ClusterAddress("tcp", "localhost", 8786)),
        ("tcp://[::1]:8786", ClusterAddress("tcp", "[::1]", 8786)),
    ],
)
def test_an_address_is_read(text: str, address: ClusterAddress) -> None:
    assert parse_cluster_address(text) == address


@pytest.mark.parametrize("text", ["", "lab:8786", "tls://lab", "tls://lab:99999", "http://lab:1", "tls://a b:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a scheduler; write tls://HOST:PORT"):
        parse_cluster_address(text)


@pytest.mark.parametrize("host", ["lab", "10.0.0.7", "0.0.0.0", "[2001:db8::1]", "127.example.com"])
def test_plain_tcp_to_other_machines_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"plain TCP is for this machine alone .* `farm cluster init`"):
        parse_cluster_address(f"tcp://{host}:8786")


def test_no_command_speaks_plainly_to_other_machines(farm: CallFarm) -> None:
    for command in (
        ("scheduler", "--plain", "--host", "0.0.0.0"),
        ("worker", "--scheduler", "tcp://lab:8786"),
        ("devices", "--cluster", "tcp://lab:8786"),
    ):
        status, _, err = farm(*command)
        assert status == 2 and "plain TCP is for this machine alone" in err and err.count("\n") == 1
