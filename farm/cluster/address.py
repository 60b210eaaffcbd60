"""Where a scheduler listens: `tls://HOST:PORT`, or `tcp://127.0.0.1:PORT` on one machine."""

import dataclasses
import ipaddress
import re
from pathlib import Path

from runtime.errors import ConfigError

FORM = "write tls://HOST:PORT"
_URL = re.compile(r"(tls|tcp)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*):(\d{1,5})/?")


@dataclasses.dataclass(frozen=True)
class ClusterAddress:
    """A scheduler's address; port 0 lets the system choose one."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol}://{self.host}:{self.port}"

    @property
    def is_encrypted(self) -> bool:
        """Whether both sides show certificates."""
        return self.protocol == "tls"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


@dataclasses.dataclass(frozen=True)
class ClusterChoice:
    """A cluster, the folder of the certificates for it (None: the user's own), and the job's priority in its queue.

    `detach`: the job goes on without the command.
    """

    url: str
    certificates: Path | None = None
    priority: str = "interactive"
    detach: bool = False


def is_loopback(host: str) -> bool:
    """Whether a host name or address stands for this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def parse_cluster_address(text: str) -> ClusterAddress:
    """Parses a URL; raises ConfigError for one that is none, and for plain TCP to another machine."""
    match = _URL.fullmatch(text)
    if not match or int(match[3]) > 65535:
        raise ConfigError(f"{text!r} is no address of a scheduler; {FORM}")
    return refuse_plain(ClusterAddress(match[1], match[2], int(match[3])))


def refuse_plain(address: ClusterAddress) -> ClusterAddress:
    """The address itself; raises ConfigError for plain TCP beyond this machine."""
    if not address.is_encrypted and not address.is_loopback:
        raise ConfigError(
            f"{address}: plain TCP is for this machine alone (127.0.0.1); `farm cluster init` makes the certificates "
            f"for tls://{address.host}:{address.port}"
        )
    return address
