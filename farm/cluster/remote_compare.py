"""Comparisons that another command asks for, on units of other hosts: `farm bisect` makes one for each commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farm.cluster import sent_sides
from farm.cluster.client import ClusterSession
from farm.cluster.remote_rows import SentCommand, remote_rows
from farm.config.inventory import Unit
from farm.jobs.compare.builds import CompareOptions
from farm.jobs.compare.contender import Contender
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressView
from farm.rows.compare import CompareRow


def remote_compare(
    cluster: ClusterSession,
    both: tuple[Contender, Contender],
    units: Sequence[Unit],
    options: CompareOptions,
    fleet: FleetOptions,
    progress: ProgressView,
) -> Iterator[CompareRow]:
    """See compare_job."""
    words = _words(options, fleet)
    command = SentCommand(CompareRow, "compare", words, {}, adapted=sent_sides.adapted(both))
    yield from remote_rows(cluster, command, sent_sides.works(both, options), units, fleet, progress)


def _words(options: CompareOptions, fleet: FleetOptions) -> tuple[str, ...]:
    """The options of `farm compare` that ask for this; a host retries nothing by itself."""
    named = {
        "--retries": 0,
        "--turns": options.turns,
        "--margin": options.margin_percent,
        "--memory": options.memory,
        "--profiled-turns": options.profiled_turns,
        "--opencl": fleet.opencl,
        "--wait": fleet.wait_s,
        "--round-limit": fleet.round_limit_s,
    }
    given = [word for name, value in named.items() if value is not None for word in (name, str(value))]
    return (*given, *(word for runtime in options.runtimes for word in ("--runtime", runtime)))
