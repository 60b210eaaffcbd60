"""The hosts of a cluster, for commands that do something about one unit and run no job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from farm.cluster.address import parse_cluster_address
from runtime.host import extras

if TYPE_CHECKING:  # distributed takes a second to import
    from farm.cluster.hosts import Hosts

PURPOSE = "units of other hosts (--cluster)"


@contextlib.contextmanager
def connected(url: str, certificates: Path | None) -> Iterator[Hosts]:
    """The hosts of a cluster for as long as a command runs."""
    extras.load(PURPOSE, "distributed")
    from farm.cluster import hosts

    with hosts.connected(parse_cluster_address(url), certificates) as found:
        yield found
