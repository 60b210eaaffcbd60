"""Certificates: who has one of the farm's authority is let in, and a mistake is one line that says what to do."""

import contextlib
import datetime
import os
import ssl
from pathlib import Path

import pytest

from farm.cluster import certificates
from farm.cluster.address import ClusterAddress, parse_cluster_address
from farm.cluster.certificates import check_host_files, create_authority, create_host
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an authority."""
    create_authority(tmp_path / "ca", "alpha")
    return tmp_path / "ca"


def handshake(server: Path, client: Path) -> None:
    """Connects two ends as Dask does: each shows its certificate and checks the other's."""
    contexts = []
    for folder, purpose in ((server, ssl.Purpose.CLIENT_AUTH), (client, ssl.Purpose.SERVER_AUTH)):
        context = ssl.create_default_context(purpose, cafile=str(folder / "ca.pem"))
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.load_cert_chain(folder / "host.pem", folder / "host-key.pem")
        contexts.append(context)
    buffers = [ssl.MemoryBIO() for _ in range(4)]
    ends = [
        contexts[0].wrap_bio(buffers[0], buffers[1], server_side=True),
        contexts[1].wrap_bio(buffers[2], buffers[3]),
    ]
    for _ in range(6):
        for end, out, into in ((ends[1], buffers[3], buffers[0]), (ends[0], buffers[1], buffers[2])):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
            into.write(out.read())
    assert ends[0].getpeercert() and ends[1].getpeercert()


def test_keys_can_be_read_by_their_owner_alone(folder: Path) -> None:
    host = create_host(folder, "beta")
    keys = [folder / "ca-key.pem", folder / "host-key.pem", host / "host-key.pem"]
    assert [path.stat().st_mode & 0o777 for path in keys] == [0o600] * 3
    assert not (host / "ca-key.pem").exists()


def test_nobody_else_can_put_other_files_in_their_place(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        create_authority(tmp_path / "ca", "alpha")
        host = create_host(tmp_path / "ca", "beta")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "ca", host)] == [0o700] * 2
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "ca" / "ca.pem", host / "ca.pem")] == [0o644] * 2


def test_hosts_of_one_authority_believe_each_other(folder: Path) -> None:
    handshake(folder, create_host(folder, "beta"))


def test_a_host_of_another_authority_is_not_believed(folder: Path, tmp_path: Path) -> None:
    create_authority(tmp_path / "other", "alpha")
    with pytest.raises(ssl.SSLError):
        handshake(folder, tmp_path / "other")


def test_nothing_is_overwritten(folder: Path) -> None:
    before = (folder / "ca-key.pem").read_bytes()
    with pytest.raises(ConfigError, match=r"ca\.pem: exists already; `farm cluster host NAME`"):
        create_authority(folder, "alpha")
    create_host(folder, "beta")
    with pytest.raises(ConfigError, match="beta: exists already"):
        create_host(folder, "beta")
    assert (folder / "ca-key.pem").read_bytes() == before


def test_an_expired_certificate_is_named(folder: Path) -> None:
    check_host_files(folder)
    later = certificates.utc_now() + datetime.timedelta(days=certificates.HOST_DAYS + 1)
    with pytest.raises(ConfigError, match=r"host\.pem: expired on \d{4}"):
        check_host_files(folder, lambda: later)


def test_what_is_missing_or_damaged_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none/ca\.pem: is missing; `farm cluster init`"):
        check_host_files(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"ca-key\.pem: no authority is here"):
        create_host(create_host(folder, "beta"), "gamma")
    (folder / "host.pem").write_text("nonsense")
    with pytest.raises(ConfigError, match=r"host\.pem: is no certificate"):
        check_host_files(folder)


@pytest.mark.parametrize("name", ["", "../up", "a b", "-x"])
def test_a_host_has_a_plain_name(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="a host's name has letters"):
        create_host(folder, name)


def test_the_commands(farm: CallFarm, own_folder: Path) -> None:
    status, out, _ = farm("cluster", "init", "ca", "--name", "alpha")
    assert status == 0 and out.split() == [
        f"ca/{name}" for name in ("ca.pem", "ca-key.pem", "host.pem", "host-key.pem")
    ]
    assert farm("cluster", "host", "beta", "--certificates", "ca")[0] == 0
    assert sorted(path.name for path in (own_folder / "ca/hosts/beta").iterdir()) == [
        "ca.pem",
        "host-key.pem",
        "host.pem",
    ]
    assert farm("cluster", "init", "ca")[0] == 2


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
