"""`--detach`: a command that is left to the cluster; one of its hosts becomes its client."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING

import click

from farm.cli import clusters
from farm.cli.envelope import CommandResult, Document
from farm.cluster.address import ClusterChoice
from farm.cluster.sent_jobs import Works
from farm.config.deployment import Deployment
from farm.store.address import without_password
from farm.units.selection import Selection

if TYPE_CHECKING:
    from farm.cluster.remote_comparison import SideNames


def detach(
    cluster: ClusterChoice,
    source: Deployment | None,
    choice: Selection,
    works: Works,
    as_json: bool,
    leaves: bool = False,
    side_names: SideNames | None = None,
) -> CommandResult:
    """Sends the command that was called to a host, which goes on with it, and says how to come back.

    Args:
        cluster: the cluster.
        source: the deployment file that units are chosen by, if any.
        choice: the units.
        works: makes the command line's only work, with all models.
        as_json: whether this command says so in JSON.
        leaves: whether what it leaves below build/ is wanted.
        side_names: what a comparison's sides are called here.
    """
    with clusters.joined(cluster) as session:
        place = clusters.AllHosts(session)
        units = place.units_for(source, choice)
        host = place.send_off(units, works, leaves, side_names or {})
        job = session.job
    how = ["farm", "jobs", "fetch", job.id, *_fetch_options()]
    if as_json:
        return Document(members={"job": dataclasses.asdict(job), "host": host, "fetch": how})
    click.echo(f"{job.id}: goes on without this command, on {host}")
    click.echo(f"{shlex.join(how)}    # waits for it, and brings its rows")
    return 0


def _fetch_options() -> list[str]:
    """Options of the command that was called for the one that fetches."""
    given = click.get_current_context().params
    store = str(given.get("store") or "")
    shown = without_password(store) if "://" in store else store
    files = {f"--{name.replace('_', '-')}": given.get(name) for name in ("output_dir", "trace", "html")}
    named = {**files, "--store": shown}
    return [word for name, value in named.items() if value for word in (name, str(value))]
